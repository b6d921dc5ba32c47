// A column of a table: what its cells are, the kind of feature that they become, and what is worth
// telling about them.
//
// All cells decide. If they are integers, the column is int64; if they are numbers, it is float; if
// they are true and false, it is int64 with 1 and 0; otherwise it is bytes. Cells without a value
// (empty, NA, null, ...) do not count, and their records lack the feature. In a column of text,
// only the empty cell has no value unless the user names others: "None" may be a category, and "NA"
// is Namibia. "nan" among floats is a number, among integers a missing value. Dates are text unless
// the user says otherwise; then a column of nothing but dates is int64.

#ifndef SHARDFEED_CONVERT_FEATURES_TABLE_COLUMN_H_
#define SHARDFEED_CONVERT_FEATURES_TABLE_COLUMN_H_

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/features/column.h"
#include "convert/features/dates.h"
#include "convert/features/number_marks.h"
#include "convert/input/csv_row.h"
#include "io/remedy.h"
#include "shardfeed/examples.h"

namespace shardfeed {

// How cells are read. The defaults are what a column decides from its cells.
struct CellOptions {
  // The texts that mean that a value is missing, in columns of text too; nullopt: the usual ones,
  // in columns of other kinds. An empty cell is missing in any case.
  std::optional<std::vector<std::string>> missing;
  // Whether numbers may stand between blanks (space, tab).
  bool trim_numbers = true;
  char decimal = '.';
  // The mark between groups of three digits; 0: none. A blank stands for the no-break spaces
  // U+00A0 and U+202F and the thin space U+2009 as well, and an apostrophe for U+2019.
  char thousands = '\0';
  DatesAs dates = DatesAs::kText;
};

// The usual texts that mean that a value is missing: NA, null and others.
std::vector<std::string> UsualMissing();

// The text without the blanks around it.
std::string_view Trimmed(std::string_view text);

// Thread-safe.
class CellRules {
 public:
  explicit CellRules(CellOptions options);

  // Whether the text is one of those that mean that a value is missing.
  bool IsMissing(std::string_view text) const;
  // Whether such a text is missing wherever it stands.
  bool missing_everywhere() const { return options_.missing.has_value(); }
  // What a cell may be besides text, by its first character: a set of these bits.
  enum : uint8_t { kNumber = 1, kMissing = 2, kBool = 4, kBlank = 8, kLetter = 16 };
  uint8_t ByFirst(char first) const { return by_first_[static_cast<unsigned char>(first)]; }
  // Whether a cell that starts with a letter may be one of the usual words (nan, true, NA) rather
  // than text, by its first two characters.
  bool MayBeWord(std::string_view cell) const { return words_[Beginning(cell)]; }
  // Whether a number has its plain form, so that it can be parsed without looking at anything else.
  bool plain() const { return plain_; }
  // Returns the cell without the blanks that may stand around its value.
  std::string_view Inside(std::string_view cell) const {
    return options_.trim_numbers ? Trimmed(cell) : cell;
  }
  // Returns a number without blanks and marks; nullopt if it cannot be a number.
  std::optional<std::string_view> Plain(std::string_view cell, std::string* scratch) const;

  const CellOptions& options() const { return options_; }
  bool counts_dates() const { return options_.dates != DatesAs::kText; }

 private:
  CellOptions options_;
  bool plain_;
  std::vector<std::string> missing_;
  std::array<uint8_t, 256> by_first_{};
  std::bitset<1 << 16> words_;

  static size_t Beginning(std::string_view word) {
    const size_t second = word.size() > 1 ? static_cast<unsigned char>(word[1]) : 0;
    return static_cast<unsigned char>(word[0]) << 8 | second;
  }
};

// Spells an option of the front end for notes: ("thousands", ",") as "--thousands ,".
using SpellOption = std::function<std::string(std::string_view option, std::string_view value)>;

enum class CellContent { kValue, kMissing, kOther };

// Not thread-safe while cells are added.
class TableColumn {
 public:
  // `rules` must outlive the column. `asked` is the kind that the user chose, if any.
  TableColumn(std::string name, std::optional<ColumnKind> asked, const CellRules* rules)
      : name_(std::move(name)),
        asked_(asked),
        rules_(rules),
        plain_(rules->plain() && !asked),
        only_counts_numbers_(plain_ && !rules->counts_dates()) {}

  const std::string& name() const { return name_; }
  bool asked() const { return asked_.has_value(); }
  // int64, float or bytes. Bytes if no cell has had a value.
  ColumnKind kind() const;

  // Learns from a cell.
  void Add(std::string_view cell, Place place) {
    if (cell.empty()) return;
    const uint8_t may_be = rules_->ByFirst(cell.front());
    const bool letter = (may_be & CellRules::kLetter) != 0;
    if (may_be == 0 || (plain_ && letter && !rules_->MayBeWord(cell))) {
      if (++texts_.count == 1) texts_.Keep(cell, place);
      return;
    }
    // Almost all cells of a column of numbers are counted here.
    if (only_counts_numbers_ && !letter) {
      bool risky;
      const ColumnKind kind = KindOfText(cell, &risky);
      if (kind == ColumnKind::kInt64 && !risky) {
        ++ints_;
        return;
      }
      if (kind == ColumnKind::kFloat && !risky) {
        ++floats_;
        return;
      }
    }
    AddSpecial(cell, place);
  }

  // Reads a cell as the column's kind, or only checks whether it fits the kind that was asked for.
  CellContent ReadInt64(std::string_view cell, int64_t* value) const {
    const std::optional<int64_t> plain = plain_ ? ParseInt64(cell) : std::nullopt;
    if (!plain) return ReadOtherInt64(cell, value);
    *value = *plain;
    return CellContent::kValue;
  }
  CellContent ReadFloat(std::string_view cell, float* value) const {
    const std::optional<float> plain = plain_ ? ParseFloat(cell) : std::nullopt;
    if (!plain) return ReadOtherFloat(cell, value);
    *value = *plain;
    return CellContent::kValue;
  }
  CellContent ReadBytes(std::string_view cell) const {
    if (cell.empty()) return CellContent::kMissing;
    if (texts_.count > 0 && !rules_->missing_everywhere()) return CellContent::kValue;
    const std::string_view text = rules_->Inside(cell);
    // Blanks are text where there is other text.
    const bool may_miss = (rules_->missing_everywhere() && !text.empty()) || IsWithoutValues();
    return may_miss && rules_->IsMissing(text) ? CellContent::kMissing : CellContent::kValue;
  }
  bool FitsAsked(std::string_view cell) const;
  // The option, if there is one, with which a cell would fit that does not.
  std::optional<Remedy> RemedyFor(std::string_view cell) const;

  // Adds the cell's value, if it has one, to a record as a feature of `kind`, which is kind().
  // Returns false if the cell does not fit.
  bool AddFeature(ColumnKind kind, const CsvCell& cell, ExampleBuilder& builder) const;

  // Whether the column is text and all of its values are dates.
  bool keeps_dates() const {
    return !rules_->counts_dates() && !asked_ && dates_.count > 0 && texts_.count == 0 &&
           ints_ + floats_ + bools_.count == 0;
  }

  bool has_dates() const { return dates_.count > 0; }
  // Whether no cell has a value. In a column of floats, "nan" is one.
  bool has_no_values() const {
    return ints_ + floats_ + bools_.count + dates_.count + texts_.count + asked_texts_ == 0 &&
           (asked_ != ColumnKind::kFloat || nans_.count == 0);
  }

  // What was coerced or lost, and what kept the column from being numbers. `name_of` formats
  // places. Without `spell`, notes propose no options.
  std::vector<std::string> Notes(const std::function<std::string(Place)>& name_of,
                                 const SpellOption& spell) const;

 private:
  void AddSpecial(std::string_view cell, Place place);
  void AddText(std::string_view text, std::string_view cell, Place place);
  // Returns false if the text is not a date.
  bool AddDate(std::string_view text, std::string_view cell, Place place);
  std::vector<std::string> NotesOfBytes(const std::string& column, const Cells& missing,
                                        const std::function<std::string(const Cells&)>& first,
                                        const SpellOption& spell) const;
  std::string RemedyOfGroups(uint64_t texts, const SpellOption& spell) const;
  // Why texts that are written as numbers are none.
  std::string ReasonOfTexts(const std::function<std::string(const Cells&)>& first,
                            const SpellOption& spell) const;
  CellContent ReadOtherInt64(std::string_view cell, int64_t* value) const;
  CellContent ReadOtherFloat(std::string_view cell, float* value) const;
  bool IsWithoutValues() const { return !asked_ && has_no_values(); }

  std::string name_;
  std::optional<ColumnKind> asked_;
  const CellRules* rules_;
  bool plain_;  // numbers have their plain form, unless blanks are around them
  // Whether numbers are only counted. The first one is kept if dates are to become numbers, for the
  // message that names it.
  bool only_counts_numbers_;
  uint64_t ints_ = 0;
  uint64_t floats_ = 0;       // without those of nans_
  uint64_t asked_texts_ = 0;  // cells of a column that was chosen to be text
  Cells texts_;               // cells that are nothing else
  // Those of texts_ that are written as numbers, but with other marks, and those that no kind of
  // feature holds as numbers: too large, or with zeros in front.
  Cells written_as_numbers_;
  Cells not_held_;
  Cells zeros_in_front_;
  Cells bools_;
  Cells missing_;  // texts that mean that a value is missing
  Cells blanks_;   // cells of blanks alone, which are missing except in text
  Cells nans_;     // "nan", a number or missing
  Cells padded_;   // numbers between blanks
  Cells plus_;     // numbers with a plus sign
  Cells lossy_;    // numbers that lose digits as floats
  Cells numbers_;  // those of ints_ and floats_, where dates are to be numbers
  Cells dates_;
  Cells fractions_;       // dates with fractions of seconds
  uint64_t unzoned_ = 0;  // dates without a time zone
  // Texts that are numbers with a mark for thousands, with a decimal mark, and with both, that were
  // not chosen.
  uint64_t with_thousands_ = 0;
  uint64_t with_decimal_ = 0;
  uint64_t with_both_ = 0;
  // Those that are numbers if the decimal mark stands between groups of digits.
  uint64_t with_groups_ = 0;
  // The first texts that are all numbers with another mark for thousands, and with it and another
  // decimal mark.
  std::array<uint64_t, kOtherThousands.size()> grouped_ = {};
  std::array<uint64_t, kOtherThousands.size()> grouped_and_marked_ = {};
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_TABLE_COLUMN_H_
