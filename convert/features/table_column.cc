#include "convert/features/table_column.h"

#include <algorithm>

#include "base/excerpt.h"
#include "decode/features/float_digits.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace shardfeed {
namespace {

// What pandas and R write for missing values, and what people do.
constexpr std::string_view kUsualMissing[] = {"NA",   "N/A",  "n/a",  "NaN",  "nan", "null",
                                              "NULL", "None", "<NA>", "#N/A", "-"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsBlank(char c) { return c == ' ' || c == '\t'; }

std::string Values(uint64_t count) {
  return count == 1 ? std::string("1 value") : fmt::format("{} values", count);
}

std::string NoteOfMissing(std::string_view column, uint64_t count, std::string_view first) {
  return fmt::format("{}: {} missing, the first is {}", column,
                     count == 1 ? "1 value is" : fmt::format("{} values are", count), first);
}

// Whether the first cell of `a` precedes the first cell of `b`. Cells of which there are none come
// last.
bool IsBefore(const Cells& a, const Cells& b) {
  if (a.count == 0 || b.count == 0) return a.count > 0;
  if (a.place.file != b.place.file) return a.place.file < b.place.file;
  return a.place.line < b.place.line;
}

// Returns the cells of both sorts together.
Cells Joined(const Cells& a, const Cells& b) {
  Cells both = IsBefore(b, a) ? b : a;
  both.count = a.count + b.count;
  return both;
}

bool HasZerosInFront(std::string_view number) {
  if (number.starts_with('-') || number.starts_with('+')) number.remove_prefix(1);
  return number.size() > 1 && number[0] == '0' && IsDigit(number[1]);
}

// The mark of thousands where `decimal` is the decimal mark, and the other way round.
char OtherMark(char decimal) { return decimal == '.' ? ',' : '.'; }

}  // namespace

std::vector<std::string> UsualMissing() {
  return {std::begin(kUsualMissing), std::end(kUsualMissing)};
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

CellRules::CellRules(CellOptions options)
    : options_(std::move(options)),
      plain_(!options_.missing && options_.decimal == '.' && options_.thousands == '\0') {
  if (options_.missing) {
    missing_ = *options_.missing;
  } else {
    missing_ = UsualMissing();
  }
  const auto add = [this](std::string_view characters, uint8_t what) {
    for (char c : characters) by_first_[static_cast<unsigned char>(c)] |= what;
  };
  add("0123456789-+.nNiI", kNumber);  // nan and inf are numbers, +1 is where the kind is chosen
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
  if (options_.decimal == '.' && options_.thousands == '\0') return WithoutPlus(text);
  const auto plain = WithPlainMarks(text, options_.decimal, options_.thousands, scratch);
  return plain ? std::optional(WithoutPlus(*plain)) : std::nullopt;
}

ColumnKind TableColumn::kind() const {
  if (asked_) return *asked_;
  const uint64_t numbers = ints_ + floats_;
  if (texts_.count > 0 || (bools_.count > 0 && numbers > 0)) return ColumnKind::kBytes;
  if (dates_.count > 0) {
    const bool fits = rules_->options().dates == DatesAs::kMicroseconds ||
                      (rules_->counts_dates() && fractions_.count == 0);
    return fits && numbers + bools_.count == 0 ? ColumnKind::kInt64 : ColumnKind::kBytes;
  }
  if (floats_ > 0) return ColumnKind::kFloat;
  return numbers + bools_.count > 0 ? ColumnKind::kInt64 : ColumnKind::kBytes;
}

bool TableColumn::AddDate(std::string_view text, std::string_view cell, Place place) {
  const std::optional<Date> date = ParseDate(text);
  if (!date) return false;
  dates_.Add(cell, place);
  if (HasFractionOfSecond(*date)) fractions_.Add(cell, place);
  unzoned_ += date->has_zone ? 0 : 1;
  if (text.size() != cell.size()) padded_.Add(cell, place);
  return true;
}

void TableColumn::AddText(std::string_view text, std::string_view cell, Place place) {
  // Among other texts, dates are of no interest unless they would be numbers.
  const bool may_be_date = IsDigit(text.front()) && (texts_.count == 0 || rules_->counts_dates());
  if (may_be_date && AddDate(text, cell, place)) return;
  const uint64_t before = texts_.count;
  texts_.Add(cell, place);
  const char decimal = rules_->options().decimal;
  const char other = OtherMark(decimal);
  const Writing writing = WritingOf(text, decimal);
  if (writing == Writing::kPlain) {
    (HasZerosInFront(text) ? zeros_in_front_ : not_held_).Add(cell, place);
  }
  if (writing != Writing::kOther) written_as_numbers_.Add(cell, place);
  const char start = text.front();
  if (writing == Writing::kPlain || (!IsDigit(start) && start != '-' && start != '+')) return;
  for (size_t i = 0; i < kOtherThousands.size(); ++i) {
    const char mark = kOtherThousands[i];
    // Only a column of nothing but such numbers is of interest.
    if (grouped_[i] == before) grouped_[i] += IsNumberWith(text, decimal, mark);
    if (grouped_and_marked_[i] == before) {
      grouped_and_marked_[i] += IsNumberWith(text, other, mark);
    }
  }
  if (text.find(other) == text.npos) {
    with_groups_ += IsNumberWith(text, other, decimal);
    return;
  }
  with_thousands_ += IsNumberWith(text, decimal, other);
  if (!IsNumberWith(text, other, decimal)) return;
  ++with_decimal_;
  with_both_ += !IsNumberWith(text, other, '\0');
}

void TableColumn::AddSpecial(std::string_view cell, Place place) {
  const std::string_view text = rules_->Inside(cell);
  if (text.empty()) {
    blanks_.Add(cell, place);
    return;
  }
  const uint8_t may_be = rules_->ByFirst(text.front());
  const bool is_missing = (may_be & CellRules::kMissing) != 0 && rules_->IsMissing(text);
  if (is_missing && rules_->missing_everywhere()) {
    missing_.Add(cell, place);
    return;
  }
  if (asked_ == ColumnKind::kBytes) {
    ++asked_texts_;
    return;
  }
  if ((may_be & CellRules::kNumber) != 0) {
    thread_local std::string scratch;
    const std::optional<std::string_view> number = rules_->Plain(cell, &scratch);
    bool risky = false;
    const ColumnKind kind = number ? KindOfText(*number, &risky) : ColumnKind::kBytes;
    if (kind == ColumnKind::kFloat && is_missing) {
      nans_.Add(cell, place);
      return;
    }
    if (kind == ColumnKind::kInt64 || kind == ColumnKind::kFloat) {
      ++(kind == ColumnKind::kInt64 ? ints_ : floats_);
      if (rules_->counts_dates()) numbers_.Add(cell, place);
      if (text.size() != cell.size()) padded_.Add(cell, place);
      if (text.front() == '+') plus_.Add(cell, place);
      if (risky && IsLossyAsFloat(*number)) lossy_.Add(cell, place);
      return;
    }
    // A chosen kind takes more forms: 016777217.0.
    if (asked_ == ColumnKind::kFloat && number && ParseAnyFloat(*number) &&
        IsLossyAsFloat(*number)) {
      lossy_.Add(cell, place);
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
  if (const std::optional<bool> truth = ParseBool(text)) {
    *value = *truth ? 1 : 0;
    return CellContent::kValue;
  }
  const std::optional<int64_t> date =
      rules_->counts_dates() ? DateNumber(text, rules_->options().dates) : std::nullopt;
  if (!date) return CellContent::kOther;
  *value = *date;
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

std::optional<Remedy> TableColumn::RemedyFor(std::string_view cell) const {
  if (asked_ != ColumnKind::kInt64 && asked_ != ColumnKind::kFloat) return std::nullopt;
  const std::string_view text = rules_->Inside(cell);
  const char decimal = rules_->options().decimal;
  const char other = OtherMark(decimal);
  const bool has_other = text.find(other) != text.npos;
  if (has_other && IsNumberWith(text, decimal, other)) {
    return Remedy{"thousands", std::string(1, other), "read it as a number"};
  }
  if (has_other && floats_ == 0 && asked_ == ColumnKind::kFloat &&
      IsNumberWith(text, other, '\0')) {
    return Remedy{"decimal", std::string(1, other), "read it as a number"};
  }
  for (const char mark : kOtherThousands) {
    if (!IsNumberWith(text, decimal, '\0') && IsNumberWith(text, decimal, mark)) {
      return Remedy{"thousands", std::string(1, mark), "read it as a number"};
    }
  }
  if (asked_ != ColumnKind::kInt64) return std::nullopt;
  const std::optional<Date> date = ParseDate(text);
  if (!date) return std::nullopt;
  if (HasFractionOfSecond(*date)) {
    return Remedy{"dates", "epoch-us", "make dates microseconds since 1970"};
  }
  return Remedy{"dates", "epoch", "make dates seconds since 1970"};
}

bool TableColumn::AddFeature(ColumnKind kind, const CsvCell& cell, ExampleBuilder& builder) const {
  CellContent content = CellContent::kMissing;
  switch (kind) {
    case ColumnKind::kInt64: {
      int64_t value;
      content = ReadInt64(cell.text, &value);
      if (content == CellContent::kValue) builder.AddInt64(name_, value);
      break;
    }
    case ColumnKind::kFloat: {
      float value;
      content = ReadFloat(cell.text, &value);
      if (content == CellContent::kValue) builder.AddFloat(name_, value);
      break;
    }
    case ColumnKind::kBytes:
    case ColumnKind::kUnknown: {
      thread_local std::string scratch;
      content = ReadBytes(cell.text);
      if (content == CellContent::kValue) builder.AddBytes(name_, ValueOf(cell, &scratch));
      break;
    }
  }
  return content != CellContent::kOther;
}

// The options with which all texts of the column are numbers, if their digits are grouped by other
// marks than points and commas.
std::string TableColumn::RemedyOfGroups(uint64_t texts, const SpellOption& spell) const {
  const std::string other(1, OtherMark(rules_->options().decimal));
  for (size_t i = 0; i < kOtherThousands.size(); ++i) {
    const std::string thousands = spell("thousands", std::string(1, kOtherThousands[i]));
    if (grouped_[i] == texts) return fmt::format("; {} reads them as numbers", thousands);
    if (grouped_and_marked_[i] != texts || floats_ > 0) continue;
    if (rules_->options().thousands == kOtherThousands[i]) {
      return fmt::format("; {} reads them as numbers", spell("decimal", other));
    }
    return fmt::format("; {} and {} read them as numbers", thousands, spell("decimal", other));
  }
  return "";
}

std::string TableColumn::ReasonOfTexts(const std::function<std::string(const Cells&)>& first,
                                       const SpellOption& spell) const {
  std::vector<std::string> reasons;
  if (not_held_.count > 0) {
    reasons.push_back(fmt::format(
        "{} beyond int64 and float32, the first {}",
        not_held_.count == 1 ? "1 number is" : fmt::format("{} numbers are", not_held_.count),
        first(not_held_)));
  }
  if (zeros_in_front_.count > 0) {
    reasons.push_back(fmt::format(
        "{} zeros in front, which numbers would lose, the first {}{}",
        zeros_in_front_.count == 1 ? "1 value has"
                                   : fmt::format("{} values have", zeros_in_front_.count),
        first(zeros_in_front_),
        spell ? fmt::format("; declare the column in {} to have them as numbers",
                            spell("schema", "FILE"))
              : ""));
  }
  const uint64_t marked = written_as_numbers_.count - not_held_.count - zeros_in_front_.count;
  if (reasons.empty() && marked > 0) {
    reasons.push_back(fmt::format(
        "{} marks that {}, the first {}",
        marked == 1 ? "1 value has" : fmt::format("{} values have", marked),
        ints_ + floats_ > 0 ? "the numbers beside do not have" : "do not make it a number",
        first(written_as_numbers_)));
  }
  return fmt::format("{}", fmt::join(reasons, ", and "));
}

// Returns notes that say why the column is text, if that is worth telling.
std::vector<std::string> TableColumn::NotesOfBytes(
    const std::string& column, const Cells& missing,
    const std::function<std::string(const Cells&)>& first, const SpellOption& spell) const {
  std::vector<std::string> notes;
  const uint64_t numbers = ints_ + floats_;
  // A column with more numbers than dates is not a column of dates.
  const bool of_dates = rules_->counts_dates() && dates_.count > 0 && dates_.count >= numbers;
  Cells others = texts_;
  if (of_dates) {
    others = Joined(Joined(texts_, bools_), numbers_);
  } else if (texts_.count > 0 || dates_.count > 0) {
    others = Joined(texts_, dates_);
  } else {
    others = bools_;
  }
  std::string remedy;
  const std::string other(1, OtherMark(rules_->options().decimal));
  if (spell && !of_dates && with_thousands_ > 0 && with_thousands_ == others.count &&
      with_decimal_ == others.count && floats_ == 0) {
    remedy = fmt::format("; {} reads them as numbers, {} as fractions", spell("thousands", other),
                         spell("decimal", other));
  } else if (spell && !of_dates && with_thousands_ > 0 && with_thousands_ == others.count) {
    remedy = fmt::format("; {} reads them as numbers", spell("thousands", other));
  } else if (spell && !of_dates && with_decimal_ > 0 && with_decimal_ == others.count &&
             floats_ == 0) {
    // With the other decimal mark, numbers that have this one would become text.
    const std::string thousands(1, rules_->options().decimal);
    remedy = with_both_ == 0 ? fmt::format("; {} reads them as numbers", spell("decimal", other))
                             : fmt::format("; {} and {} read them as numbers",
                                           spell("decimal", other), spell("thousands", thousands));
  } else if (spell && !of_dates && with_groups_ > 0 &&
             with_groups_ + with_decimal_ == others.count && floats_ == 0) {
    const std::string thousands(1, rules_->options().decimal);
    remedy = fmt::format("; {} and {} read them as numbers", spell("decimal", other),
                         spell("thousands", thousands));
  } else if (spell && !of_dates && others.count > 0) {
    remedy = RemedyOfGroups(others.count, spell);
  }
  const auto because = [&](uint64_t good, std::string_view are) {
    notes.push_back(fmt::format("{} is bytes because of {}{}, {}; the other {} {}{}", column,
                                Values(others.count), others.count == 1 ? "" : ", the first",
                                first(others), Values(good), are, remedy));
  };
  if (of_dates && others.count == 0) {
    notes.push_back(fmt::format(
        "{} is bytes because {} of {} dates have fractions of a second, the first is {}{}", column,
        fractions_.count, dates_.count, first(fractions_),
        spell ? fmt::format("; {} keeps them", spell("dates", "epoch-us")) : ""));
  } else if (of_dates) {
    because(dates_.count, dates_.count == 1 ? "is a date" : "are dates");
  } else if (numbers > others.count || (numbers > 0 && !remedy.empty())) {
    because(numbers, numbers == 1 ? "is a number" : "are numbers");
  } else if (remedy.empty() && written_as_numbers_.count > 0 &&
             numbers + written_as_numbers_.count > others.count - written_as_numbers_.count) {
    notes.push_back(fmt::format("{} is bytes because {}", column, ReasonOfTexts(first, spell)));
  } else if (texts_.count + dates_.count > 0 && bools_.count > others.count) {
    because(bools_.count, bools_.count == 1 ? "is true or false" : "are true or false");
  } else if (numbers > 0 && bools_.count > 0 && texts_.count + dates_.count == 0) {
    notes.push_back(fmt::format(
        "{} is bytes because {} beside {} of true and false, the first {}", column,
        numbers == 1 ? "1 value is a number" : fmt::format("{} values are numbers", numbers),
        Values(bools_.count), first(bools_)));
  } else if (!remedy.empty()) {
    notes.push_back(fmt::format("{} is bytes because of marks in its numbers, the first {}{}",
                                column, first(others), remedy));
  }
  if (missing.count > 0 && rules_->missing_everywhere()) {
    notes.push_back(NoteOfMissing(column, missing.count, first(missing)));
  } else if (missing.count > 0) {
    const bool one = missing.count == 1;
    notes.push_back(fmt::format(
        "{} is text, so {}{} {} kept{}", column,
        one ? "" : fmt::format("{} values like ", missing.count), first(missing),
        one ? "is" : "are",
        // The usual words stay missing in columns of numbers.
        spell ? fmt::format("; {} makes {} missing", spell("na", "usual"), one ? "it" : "them")
              : ""));
  }
  return notes;
}

std::vector<std::string> TableColumn::Notes(const std::function<std::string(Place)>& name_of,
                                            const SpellOption& spell) const {
  std::vector<std::string> notes;
  const std::string column = "column " + Excerpt(name_);
  const auto first = [&name_of](const Cells& cells) {
    return fmt::format("{} at {}", Excerpt(cells.first), name_of(cells.place));
  };
  // The cells that mean that a value is missing in this column.
  Cells missing = kind() == ColumnKind::kFloat ? missing_ : Joined(missing_, nans_);
  if (kind() != ColumnKind::kBytes || IsWithoutValues()) missing = Joined(missing, blanks_);
  if (has_no_values()) {
    notes.push_back(
        missing.count == 0
            ? fmt::format("{} is empty in every row, so no record has this feature", column)
            : fmt::format("{} has no value in any row ({} of its cells are not empty, "
                          "the first is {}), so no record has this feature",
                          column, missing.count, first(missing)));
    return notes;
  }
  if (!asked_ && kind() == ColumnKind::kBytes) return NotesOfBytes(column, missing, first, spell);
  if (missing.count > 0) {
    notes.push_back(NoteOfMissing(column, missing.count, first(missing)));
  }
  if (asked_ == ColumnKind::kBytes) return notes;
  if (bools_.count > 0) {
    notes.push_back(
        fmt::format("{}: true and false became 1 and 0 ({})", column, Values(bools_.count)));
  }
  if (dates_.count > 0 && kind() == ColumnKind::kInt64) {
    const bool seconds = rules_->options().dates == DatesAs::kSeconds;
    const std::string unzoned =
        unzoned_ == dates_.count ? "all" : fmt::format("{} of them", unzoned_);
    notes.push_back(
        fmt::format("{}: dates became {} since 1970 in UTC ({}{})", column,
                    seconds ? "seconds" : "microseconds", Values(dates_.count),
                    unzoned_ == 0 ? "" : fmt::format(", {} without a time zone", unzoned)));
    if (numbers_.count > 0) {
      notes.push_back(fmt::format("{}: {}, the first is {}", column,
                                  NumbersAmongDates(numbers_.count), first(numbers_)));
    }
  }
  if (padded_.count > 0) {
    notes.push_back(fmt::format("{}: blanks around {} were left out, first at {}", column,
                                Values(padded_.count), name_of(padded_.place)));
  }
  if (plus_.count > 0 && !asked_) {
    notes.push_back(
        fmt::format("{}: the plus sign of {} was left out, the first is {}{}", column,
                    Values(plus_.count), first(plus_),
                    spell ? fmt::format("; declare the column as bytes with {} to keep it",
                                        spell("schema", "FILE"))
                          : ""));
  }
  if (kind() == ColumnKind::kFloat && lossy_.count > 0) {
    notes.push_back(NoteOfLossyFloats(column, lossy_, first(lossy_)));
    if (spell) {
      notes.back() += fmt::format("; declare the column as bytes with {} to keep them",
                                  spell("schema", "FILE"));
    }
  }
  return notes;
}

}  // namespace shardfeed
