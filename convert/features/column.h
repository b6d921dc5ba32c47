// Columns of a table: the kind of feature that each becomes, inferred from all of its values.
//
// tf.train.Example has bytes, float32 and int64. A value becomes a number only if this loses
// nothing but digits beyond float32's precision: "007", "+1", " 1" and integers beyond int64 stay
// bytes.

#ifndef SHARDFEED_CONVERT_FEATURES_COLUMN_H_
#define SHARDFEED_CONVERT_FEATURES_COLUMN_H_

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shardfeed {

enum class ColumnKind {
  kUnknown,  // no value so far
  kInt64,
  kFloat,
  kBytes,
};

// "int64", "float", "bytes".
std::string_view ColumnKindName(ColumnKind kind);

// The type that values of the kind have in a schema: "int64", "float32", "bytes".
std::string_view DtypeOf(ColumnKind kind);

// Returns the kind that holds the values of both: int64 and float merge to float, and bytes holds
// any text.
ColumnKind MergedKind(ColumnKind a, ColumnKind b);

// Returns the kind of a text cell. kUnknown: empty, that is, missing. kInt64: an integer in
// canonical form (-?(0|[1-9][0-9]*), no -0, in range). kFloat: a decimal number with a fraction, an
// exponent or both, within float32's range, or nan, inf, infinity in any case, with at most a minus
// sign in front. kBytes: anything else.
ColumnKind KindOfText(std::string_view text);
// The same; `risky` is set if a number, by its spelling, may be 10 million or more, or become 0 as
// a float, so that IsLossyAsFloat has to tell.
ColumnKind KindOfText(std::string_view text, bool* risky);

// Parses text whose kind is kInt64; returns nullopt for other text.
std::optional<int64_t> ParseInt64(std::string_view text);
// Parses text whose kind is kInt64 or kFloat; returns nullopt for other text. Rounds to the nearest
// double and then to the nearest float, as Python and NumPy do.
std::optional<float> ParseFloat(std::string_view text);

// The same as a double, which is infinite or zero if the number is beyond its range.
double ParseDouble(std::string_view text);

// Parse text whose kind the user chose; also accept "+1", "007" and, as a float, "007.5".
std::optional<int64_t> ParseAnyInt64(std::string_view text);
std::optional<float> ParseAnyFloat(std::string_view text);

// Returns the nearest float, or nullopt if `value` is finite and beyond float's range.
inline std::optional<float> ToFloat(double value) {
  // Half a unit in the last place above the largest float: from here on, values round to infinity.
  constexpr double kTooLarge = 0x1.ffffffp127;
  if (std::abs(value) >= kTooLarge && std::isfinite(value)) return std::nullopt;
  return static_cast<float>(value);
}

// IsLossyAsFloat (decode/features/float_digits.h) of the text of a number, which may be beyond the
// range of double: 1e-400.
bool IsLossyAsFloat(std::string_view number);

// Parses true and false, written in lower case, in upper case, or with a capital.
std::optional<bool> ParseBool(std::string_view text);

// The place of a value: the index of a file, and a 1-based line in it.
struct Place {
  uint32_t file = 0;
  uint64_t line = 0;
};

// Cells of one sort: how many, and the beginning and the place of the first one.
struct Cells {
  uint64_t count = 0;
  std::string first;
  Place place;

  void Add(std::string_view cell, Place at) {
    if (++count == 1) Keep(cell, at);
  }
  // Makes the cell the first one.
  void Keep(std::string_view cell, Place at);
};

// Returns the note "COLUMN: 3 values lose digits because floats have 32 bits, the first is FIRST".
std::string NoteOfLossyFloats(std::string_view column, const Cells& lossy, std::string_view first);

// Infers the kind of a column of text cells. Not thread-safe.
class TextColumn {
 public:
  explicit TextColumn(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  // kBytes if no cell has had a value.
  ColumnKind kind() const { return kind_ == ColumnKind::kUnknown ? ColumnKind::kBytes : kind_; }

  // Empty cells do not count.
  void Add(std::string_view cell, Place place);

  bool empty() const { return kind_ == ColumnKind::kUnknown; }
  // Cells that are not numbers.
  const Cells& texts() const { return texts_; }
  uint64_t num_numbers() const { return num_numbers_; }
  // Numbers that lose digits as floats.
  const Cells& lossy() const { return lossy_; }

 private:
  std::string name_;
  ColumnKind kind_ = ColumnKind::kUnknown;
  uint64_t num_numbers_ = 0;
  Cells texts_;
  Cells lossy_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_COLUMN_H_
