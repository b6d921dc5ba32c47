// Identifies a chain by typed values, from which fingerprints are computed.

#ifndef SHARDFEED_PIPELINE_DATA_IDENTITY_H_
#define SHARDFEED_PIPELINE_DATA_IDENTITY_H_

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "shardfeed/batch.h"

namespace shardfeed {

// Values in a canonical form, each with its name and its kind: two of them are equal if and only if
// all their values are. No text that is meant for people is ever part of one, so that such text may
// be changed. Numbers of different types that have the same value are the same; -0.0 is not 0.0,
// and every NaN is itself. Format, version 1, of each value: its name's length and bytes, a letter
// for its kind, and the value; all numbers of 8 bytes, little-endian:
//
//   i, n   a whole number; the magnitude of a negative one
//   d      the bits of a double
//   s      the length of a string, and its bytes
//   l      the number of a list's values, and these, without names
//   r      the length of a nested identity, and its bytes
class Identity {
 public:
  static constexpr uint64_t kVersion = 1;

  // For a step, or for a kind of parameter with values of its own.
  explicit Identity(std::string_view kind) { PutString(kind); }

  template <typename T>
  Identity& Add(std::string_view name, const T& value) {
    PutString(name);
    Put(value);
    return *this;
  }
  // Adds nothing if there is no value, so that a new parameter does not change the identity of
  // steps without it.
  template <typename T>
  Identity& AddIf(bool there, std::string_view name, const T& value) {
    return there ? Add(name, value) : *this;
  }

  const std::string& bytes() const { return bytes_; }
  // The same on all machines and in all versions of this format.
  uint64_t Hash() const;

 private:
  void PutNumber(uint64_t number);
  void PutString(std::string_view text);
  void Put(const std::string& text) { Put(std::string_view(text)); }
  void Put(const char* text) { Put(std::string_view(text)); }
  void Put(std::string_view text) {
    bytes_ += 's';
    PutString(text);
  }
  void Put(const Identity& nested) {
    bytes_ += 'r';
    PutString(nested.bytes_);
  }
  void Put(const ColumnSpec& column);
  template <std::integral T>
  void Put(T number) {
    if constexpr (std::is_signed_v<T>) {
      if (number < 0) {
        bytes_ += 'n';
        return PutNumber(-static_cast<uint64_t>(number));
      }
    }
    bytes_ += 'i';
    PutNumber(static_cast<uint64_t>(number));
  }
  template <typename T>
  requires std::is_enum_v<T>
  void Put(T number) { Put(static_cast<int64_t>(number)); }
  void Put(double number);
  template <typename T>
  void Put(const std::vector<T>& values) {
    bytes_ += 'l';
    PutNumber(values.size());
    for (const T& value : values) Put(value);
  }

  std::string bytes_;
};

// A 64-bit digest of bytes that is the same on all machines. Not safe against forgery.
uint64_t DigestOf(std::string_view bytes, uint64_t seed = 0);

// A digest of the values of a batch's rows, independent of their memory layout.
uint64_t DigestOf(const Batch& rows);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_IDENTITY_H_
