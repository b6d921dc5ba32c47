#include "convert/features/table_column.h"

#include <algorithm>

#include "convert/input/excerpt.h"
#include "decode/features/float_digits.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// What pandas and R write for missing values, and what people do.
constexpr std::string_view kUsualMissing[] = {"NA",   "N/A",  "n/a",  "NaN",  "nan", "null",
                                              "NULL", "None", "<NA>", "#N/A", "-"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// Whether the text is a number if its marks are these.
bool IsNumberWith(std::string_view text, char decimal, char thousands) {
  std::string scratch;
  const std::optional<std::string_view> plain = WithPlainMarks(text, decimal, thousands, &scratch);
  return plain && KindOfText(*plain) != ColumnKind::kBytes;
}

// The mark of thousands where `decimal` is the decimal mark, and the other way round.
char OtherMark(char decimal) { return decimal == '.' ? ',' : '.'; }

}  // namespace

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<std::string_view> WithPlainMarks(std::string_view text, char decimal, char thousands,
                                               std::string* scratch) {
  scratch->clear();
  size_t at = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  scratch->append(text, 0, at);
  size_t group = 0;  // digits since the last mark
  bool grouped = false;
  for (; at < text.size(); ++at) {
    if (IsDigit(text[at])) {
      ++group;
      scratch->push_back(text[at]);
    } else if (thousands != '\0' && text[at] == thousands) {
      if (grouped ? group != 3 : group == 0 || group > 3) return std::nullopt;
      grouped = true;
      group = 0;
    } else {
      break;
    }
  }
  if (grouped && group != 3) return std::nullopt;
  if (at < text.size() && text[at] == decimal) {
    scratch->push_back('.');
    ++at;
  }
  const std::string_view rest = text.substr(at);
  // Another point is no decimal mark, and marks in a fraction have no meaning.
  if (rest.find('.') != rest.npos || rest.find(decimal) != rest.npos) return std::nullopt;
  scratch->append(rest);
  return *scratch;
}

CellRules::CellRules(CellOptions options)
    : options_(std::move(options)),
      plain_(!options_.missing && options_.decimal == '.' && options_.thousands == '\0') {
  if (options_.missing) {
    missing_ = *options_.missing;
  } else {
    missing_.assign(std::begin(kUsualMissing), std::end(kUsualMissing));
  }
  const auto add = [this](std::string_view characters, uint8_t what) {
    for (char c : characters) by_first_[static_cast<unsigned char>(c)] |= what;
  };
  add("0123456789-.nNiI", kNumber);  // nan and inf are numbers
  add({&options_.decimal, 1}, kNumber);
  add("tTfF", kBool);
  add(" \t", kBlank);
  for (const std::string& text : missing_) add(text.substr(0, 1), kMissing);
  for (int c = 0; c < 256; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (by_first_[c] != 0 && letter) by_first_[c] |= kLetter;
  }
  // In any case: nan, inf; true and false.
  for (const char* word :
       {"na", "nA", "Na", "NA", "in", "iN", "In", "IN", "tr", "Tr", "TR", "fa", "Fa", "FA"}) {
    words_.set(Beginning(word));
  }
  for (const std::string& text : missing_) {
    if (!text.empty()) words_.set(Beginning(text));
  }
}

bool CellRules::IsMissing(std::string_view text) const {
  return text.empty() || std::find(missing_.begin(), missing_.end(), text) != missing_.end();
}

std::optional<std::string_view> CellRules::Plain(std::string_view cell,
                                                 std::string* scratch) const {
  const std::string_view text = Inside(cell);
  if (options_.decimal == '.' && options_.thousands == '\0') return text;
  return WithPlainMarks(text, options_.decimal, options_.thousands, scratch);
}

void TableColumn::Cells::Keep(std::string_view cell, Place at) {
  constexpr size_t kShown = 80;
  first = cell.substr(0, kShown);
  place = at;
}

ColumnKind TableColumn::kind() const {
  if (asked_) return *asked_;
  const uint64_t numbers = ints_ + floats_;
  if (texts_.count > 0 || (bools_.count > 0 && numbers > 0)) return ColumnKind::kBytes;
  if (floats_ > 0) return ColumnKind::kFloat;
  return numbers + bools_.count > 0 ? ColumnKind::kInt64 : ColumnKind::kBytes;
}

void TableColumn::AddText(std::string_view text, std::string_view cell, Place place) {
  texts_.Add(cell, place);
  if (!IsDigit(text.front()) && text.front() != '-') return;
  const char decimal = rules_->options().decimal;
  const char other = OtherMark(decimal);
  if (text.find(other) == text.npos) return;
  with_thousands_ += IsNumberWith(text, decimal, other);
  with_decimal_ += IsNumberWith(text, other, '\0');
}

void TableColumn::AddSpecial(std::string_view cell, Place place) {
  if (asked_ == ColumnKind::kBytes) return;
  const std::string_view text = rules_->Inside(cell);
  const uint8_t may_be = text.empty() ? 0 : rules_->ByFirst(text.front());
  const bool is_missing =
      (may_be & CellRules::kMissing) != 0 || text.empty() ? rules_->IsMissing(text) : false;
  if (is_missing && rules_->missing_everywhere()) {
    missing_.Add(cell, place);
    return;
  }
  if ((may_be & CellRules::kNumber) != 0) {
    thread_local std::string scratch;
    const std::optional<std::string_view> number = rules_->Plain(cell, &scratch);
    bool large = false;
    const ColumnKind kind = number ? KindOfText(*number, &large) : ColumnKind::kBytes;
    if (kind == ColumnKind::kFloat && is_missing) {
      nans_.Add(cell, place);
      return;
    }
    if (kind == ColumnKind::kInt64 || kind == ColumnKind::kFloat) {
      ++(kind == ColumnKind::kInt64 ? ints_ : floats_);
      if (text.size() != cell.size()) padded_.Add(cell, place);
      if (large && IsLossyAsFloat(ParseDouble(*number))) lossy_.Add(cell, place);
      return;
    }
  }
  if (is_missing) {
    missing_.Add(cell, place);
  } else if ((may_be & CellRules::kBool) != 0 && ParseBool(text)) {
    bools_.Add(cell, place);
  } else {
    AddText(text, cell, place);
  }
}

CellContent TableColumn::ReadOtherInt64(std::string_view cell, int64_t* value) const {
  const std::string_view text = rules_->Inside(cell);
  if (rules_->IsMissing(text)) return CellContent::kMissing;
  thread_local std::string scratch;
  if (const std::optional<std::string_view> plain = rules_->Plain(cell, &scratch)) {
    const std::optional<int64_t> parsed = asked_ ? ParseAnyInt64(*plain) : ParseInt64(*plain);
    if (parsed) {
      *value = *parsed;
      return CellContent::kValue;
    }
  }
  const std::optional<bool> truth = ParseBool(text);
  if (!truth) return CellContent::kOther;
  *value = *truth ? 1 : 0;
  return CellContent::kValue;
}

CellContent TableColumn::ReadOtherFloat(std::string_view cell, float* value) const {
  const std::string_view text = rules_->Inside(cell);
  const bool is_missing = rules_->IsMissing(text);
  // "nan" is both a number and missing; it is missing here only if the user says so.
  if (is_missing && rules_->missing_everywhere()) return CellContent::kMissing;
  thread_local std::string scratch;
  if (const std::optional<std::string_view> plain = rules_->Plain(cell, &scratch)) {
    const std::optional<float> parsed = asked_ ? ParseAnyFloat(*plain) : ParseFloat(*plain);
    if (parsed) {
      *value = *parsed;
      return CellContent::kValue;
    }
  }
  return is_missing ? CellContent::kMissing : CellContent::kOther;
}

bool TableColumn::FitsAsked(std::string_view cell) const {
  int64_t integer;
  float number;
  if (asked_ == ColumnKind::kInt64) return ReadInt64(cell, &integer) != CellContent::kOther;
  if (asked_ == ColumnKind::kFloat) return ReadFloat(cell, &number) != CellContent::kOther;
  return true;
}

std::vector<std::string> TableColumn::Notes(const std::function<std::string(Place)>& name_of,
                                            const SpellOption& spell) const {
  std::vector<std::string> notes;
  const std::string column = "column " + Excerpt(name_);
  const auto first = [&name_of](const Cells& cells) {
    return fmt::format("{} at {}", Excerpt(cells.first), name_of(cells.place));
  };
  const auto values = [](uint64_t count) {
    return count == 1 ? std::string("1 value") : fmt::format("{} values", count);
  };
  // The cells that mean that a value is missing in this column.
  Cells missing = missing_;
  if (kind() != ColumnKind::kFloat && nans_.count > 0) {
    const bool earlier =
        missing.count == 0 || nans_.place.file < missing.place.file ||
        (nans_.place.file == missing.place.file && nans_.place.line < missing.place.line);
    if (earlier) missing.Keep(nans_.first, nans_.place);
    missing.count += nans_.count;
  }
  if (IsWithoutValues()) {
    notes.push_back(
        missing.count == 0
            ? fmt::format("{} is empty in every row, so no record has this feature", column)
            : fmt::format("{} has no value in any row ({} of its cells are not empty, "
                          "the first is {}), so no record has this feature",
                          column, missing.count, first(missing)));
    return notes;
  }
  const uint64_t numbers = ints_ + floats_;
  if (!asked_ && kind() == ColumnKind::kBytes) {
    Cells others = texts_;
    const bool truths = texts_.count == 0;
    if (truths) others = bools_;
    std::string remedy;
    const std::string other(1, OtherMark(rules_->options().decimal));
    if (with_thousands_ > 0 && with_thousands_ == others.count) {
      remedy = spell("thousands", other);
    } else if (with_decimal_ > 0 && with_decimal_ == others.count) {
      remedy = spell("decimal", other);
    }
    if (!remedy.empty()) remedy = fmt::format("; {} reads them as numbers", remedy);
    if (numbers > others.count || (numbers > 0 && !remedy.empty())) {
      notes.push_back(fmt::format("{} is bytes because of {}{}, {}; the other {} {}{}", column,
                                  values(others.count), others.count == 1 ? "" : ", the first",
                                  first(others), values(numbers),
                                  numbers == 1 ? "is a number" : "are numbers", remedy));
    } else if (!remedy.empty()) {
      notes.push_back(fmt::format("{} is bytes because of marks in its numbers, the first {}{}",
                                  column, first(others), remedy));
    }
    if (missing.count > 0 && !rules_->missing_everywhere() && !Trimmed(missing.first).empty()) {
      const bool one = missing.count == 1;
      notes.push_back(fmt::format("{} is text, so {}{} {} kept; {} makes {} missing", column,
                                  one ? "" : fmt::format("{} values like ", missing.count),
                                  first(missing), one ? "is" : "are", spell("na", missing.first),
                                  one ? "it" : "them"));
    }
    return notes;
  }
  if (missing.count > 0) {
    notes.push_back(
        fmt::format("{}: {} missing, the first is {}", column,
                    missing.count == 1 ? "1 value is" : fmt::format("{} values are", missing.count),
                    first(missing)));
  }
  if (asked_ == ColumnKind::kBytes) return notes;
  if (bools_.count > 0) {
    notes.push_back(
        fmt::format("{}: true and false became 1 and 0 ({})", column, values(bools_.count)));
  }
  if (padded_.count > 0) {
    notes.push_back(fmt::format("{}: blanks around {} were left out, first at {}", column,
                                values(padded_.count), name_of(padded_.place)));
  }
  if (kind() == ColumnKind::kFloat && lossy_.count > 0) {
    notes.push_back(fmt::format(
        "{}: {} digits because floats have 32 bits, the first is {}; declare the column as bytes "
        "with {} to keep them",
        column, lossy_.count == 1 ? "1 value loses" : fmt::format("{} values lose", lossy_.count),
        first(lossy_), spell("schema", "FILE")));
  }
  return notes;
}

}  // namespace shardfeed
