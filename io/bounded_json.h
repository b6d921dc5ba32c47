// JSON from files, of which nothing is believed: a document is bounded before anything is built
// from it, and its members are read by their type and range.

#ifndef SHARDFEED_IO_BOUNDED_JSON_H_
#define SHARDFEED_IO_BOUNDED_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"

namespace shardfeed {

// What is written here nests five deep, and what TFDS writes hardly deeper. The library's functions
// recurse, so that a deep document would end the process.
inline constexpr size_t kMaxJsonDepth = 100;
// A manifest of a million shards has five million values. A value takes up to a hundred bytes.
inline constexpr size_t kMaxJsonValues = size_t{1} << 23;

// Parses `text` into `json`. DataLoss, with what is wrong: not JSON, or beyond one of the bounds.
absl::Status ParseBoundedJson(std::string_view text, nlohmann::json* json,
                              size_t max_values = kMaxJsonValues);
// The same, but of an object, keeps only the members that are neither objects nor arrays. The
// others are absent, or values that are of no type.
absl::Status ParseTopOfJson(std::string_view text, nlohmann::json* json);

// Reads members of objects. The first one that is absent, or not as expected, makes status() a
// DataLoss that names it; that one, and any other of this kind, reads as zero or empty.
class JsonMembers {
 public:
  using Json = nlohmann::json;

  // A whole number from 0 to `most`: not negative, not a fraction, not more than 64 bits.
  uint64_t Number(const Json& object, std::string_view key, uint64_t most = UINT64_MAX);
  bool Flag(const Json& object, std::string_view key);
  std::string Text(const Json& object, std::string_view key);
  std::vector<std::string> Texts(const Json& object, std::string_view key);
  // The reference lives as long as `object`, or for ever.
  const Json& Object(const Json& object, std::string_view key);
  const Json& Array(const Json& object, std::string_view key);

  // Makes status() a DataLoss that says `what`, unless it is an error already.
  void Fail(std::string_view what);
  const absl::Status& status() const { return status_; }

 private:
  // The member, where is_expected(member) holds; else nullptr.
  template <typename IsExpected>
  const Json* Find(const Json& object, std::string_view key, std::string_view expected,
                   IsExpected is_expected);

  absl::Status status_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_IO_BOUNDED_JSON_H_
