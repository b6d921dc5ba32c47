#include "convert/features/json_values.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/excerpt.h"
#include "convert/input/json_document.h"
#include "decode/features/float_digits.h"
#include "fmt/format.h"
#include "io/remedy.h"

namespace shardfeed {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;

namespace {

absl::Status Defect(std::string_view name, std::string_view what) {
  return absl::DataLossError(fmt::format("{}: {}", Excerpt(name), what));
}

// Up to here, floats hold all whole numbers.
constexpr int64_t kAllExact = int64_t{1} << 24;
// From here on, floats are whole numbers.
constexpr double kAllWhole = 1 << 23;

bool IsInexact(int64_t value) {
  if (value >= -kAllExact && value <= kAllExact) return false;
  const auto number = static_cast<double>(value);
  constexpr double kTooLarge = 0x1p63;
  return IsLossyAsFloat(number) || number == kTooLarge || static_cast<int64_t>(number) != value;
}

// Looks at the values of one key in one record.
class FactFinder {
 public:
  FactFinder(std::string_view name, const ChosenKind* asked, DatesAs dates, JsonFacts* facts)
      : name_(name),
        chosen_(asked),
        asked_(asked != nullptr ? std::optional(asked->kind) : std::nullopt),
        dates_(!asked_ || asked_ == ColumnKind::kInt64 ? dates : DatesAs::kText),
        facts_(*facts) {}

  bool AddSingle(element value) {
    switch (value.type()) {
      case element_type::STRING:
        return AddText(value);
      case element_type::BOOL:
        facts_.has_bools = true;
        AddNoDate(value);
        return Saw(kInt64, value);
      case element_type::INT64: {
        const int64_t number = value.get_int64().value_unsafe();
        if (IsInexact(number)) AddInexact(fmt::to_string(number), static_cast<float>(number));
        AddNoDate(value);
        return Saw(kInt64, value);
      }
      case element_type::UINT64: {
        const uint64_t number = value.get_uint64().value_unsafe();
        return AddLargeInteger(fmt::to_string(number), static_cast<double>(number)) &&
               Saw(kFloat, value);
      }
      case element_type::DOUBLE:
        if (IsJsonMinusZero(value)) [[unlikely]] {
          AddNoDate(value);
          return Saw(kInt64, value);
        }
        return AddDouble(value) && Saw(kFloat, value);
      case element_type::NULL_VALUE:
        return Fail(
            Defect(name_, "null in a list, but features cannot have missing values in lists"));
      case element_type::ARRAY:
      case element_type::OBJECT:
        break;
    }
    return Fail(
        Defect(name_, "an object among values or in a list of lists, which a feature cannot hold"));
  }

  bool AddList(array list, int depth) {
    if (depth > kMaxJsonLists) {
      return Fail(Defect(name_, fmt::format("lists are nested more than {} deep", kMaxJsonLists)));
    }
    deepest_ = std::max(deepest_, depth);
    bool singles = false;
    for (element value : list) {
      if (value.type() == element_type::ARRAY) {
        if (!AddList(value.get_array().value_unsafe(), depth + 1)) return false;
      } else {
        singles = true;
        if (!AddSingle(value)) return false;
      }
    }
    if (singles) depth_of_singles_ |= 1 << depth;
    return true;
  }

  absl::Status Finish(element value) {
    if (!status_.ok()) return status_;
    if (asked_ != ColumnKind::kBytes && (seen_ & kBytes) != 0 && (seen_ & ~kBytes) != 0) {
      return Defect(name_, "text and numbers in one list");
    }
    if (value.type() != element_type::ARRAY) depth_of_singles_ = 1 << 1;
    if (depth_of_singles_ != 0 && depth_of_singles_ != 1 << deepest_) {
      return Defect(name_, "values and lists of values in one list");
    }
    facts_.kind = (seen_ & kBytes) != 0   ? ColumnKind::kBytes
                  : (seen_ & kFloat) != 0 ? ColumnKind::kFloat
                  : (seen_ & kInt64) != 0 ? ColumnKind::kInt64
                                          : ColumnKind::kUnknown;
    facts_.depth = deepest_;
    facts_.has_values = depth_of_singles_ != 0;
    return absl::OkStatus();
  }

 private:
  enum Kind { kInt64 = 1, kFloat = 2, kBytes = 4 };
  static constexpr double kBecomesZero = 0x1p-150;  // as a float

  bool AddText(element value) {
    if (dates_ == DatesAs::kText) return Saw(kBytes, value);
    const std::string_view text = value.get_string().value_unsafe();
    const std::optional<Date> date = ParseDate(text);
    if (!date) {
      if (facts_.dates.others++ == 0) facts_.dates.first_other.text = Excerpt(text);
      return Saw(kBytes, value);
    }
    ++facts_.dates.dates;
    facts_.dates.unzoned += date->has_zone ? 0 : 1;
    const bool fraction = HasFractionOfSecond(*date);
    if (fraction && facts_.dates.fractions++ == 0) facts_.dates.first_fraction.text = Excerpt(text);
    if (!asked_) return Saw(kBytes, value);
    if (dates_ == DatesAs::kMicroseconds || !fraction) return Saw(kInt64, value);
    Saw(kBytes, value);
    return Fail(WithRemedy(status_, {"dates", "epoch-us", "make dates microseconds since 1970"}));
  }
  // If dates become numbers, a number is not a date.
  void AddNoDate(element value) {
    if (dates_ == DatesAs::kText || !asked_) return;
    if (facts_.dates.others++ == 0) facts_.dates.first_other.text = JsonText(value);
  }
  bool AddDouble(element value) {
    double number = value.get_double().value_unsafe();
    // The parser replaced the number, so its text is known.
    const bool is_text = std::isnan(number);
    if (is_text) [[unlikely]] {
      number = JsonDouble(value);
      const std::string_view large = JsonLargeInteger(value);
      if (!large.empty() && ToFloat(number)) return AddLargeInteger(large, number);
    }
    if (asked_ == ColumnKind::kBytes) return true;
    const auto text = [&] { return is_text ? JsonText(value) : fmt::to_string(number); };
    if (std::abs(number) >= kAllWhole) [[unlikely]] {
      // A text such as 1e999 may stand for a number beyond all doubles.
      if (!ToFloat(number) || (is_text && std::isinf(number))) {
        return Fail(Defect(name_, fmt::format("the number {} is outside of float32", text())));
      }
      if (IsLossyAsFloat(number)) AddInexact(text(), static_cast<float>(number));
    } else if (std::abs(number) <= kBecomesZero && (number != 0 || is_text)) [[unlikely]] {
      const std::string shown = text();
      if (IsLossyAsFloat(std::string_view(shown))) AddInexact(shown, 0);
    }
    return true;
  }
  bool AddLargeInteger(std::string_view digits, double number) {
    if (asked_ != ColumnKind::kBytes && asked_ != ColumnKind::kFloat) {
      return Fail(
          WithRemedy(Defect(name_, fmt::format("the integer {} is outside of int64", digits)),
                     {"schema", "FILE", "make it bytes (its text) or float"}));
    }
    // Even a double may not keep them all.
    if (IsLossyAsFloat(number) || fmt::format("{:.0f}", number) != digits) {
      AddInexact(std::string(digits), static_cast<float>(number));
    }
    return true;
  }
  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  bool Saw(Kind kind, element value) {
    seen_ |= kind;
    facts_.has_numbers |= kind != kBytes && value.type() != element_type::BOOL;
    const bool fits = !asked_ || asked_ == ColumnKind::kBytes || kind == kInt64 ||
                      (asked_ == ColumnKind::kFloat && kind == kFloat);
    if (fits) return true;
    return Fail(Defect(name_, fmt::format("expected {1}, {2}, got {0}", Excerpt(JsonText(value)),
                                          ColumnKindName(*asked_), chosen_->Reason())));
  }
  void AddInexact(std::string text, float stored) {
    if (facts_.inexact++ == 0) facts_.first_inexact = {std::move(text), stored};
  }

  const std::string_view name_;
  const ChosenKind* const chosen_;
  const std::optional<ColumnKind> asked_;
  const DatesAs dates_;
  JsonFacts& facts_;
  int seen_ = 0;              // a set of Kinds
  int depth_of_singles_ = 0;  // a set of bits
  int deepest_ = 1;
  absl::Status status_;
};

// Calls `visit` with the value, or with each value of a list, until it returns false.
template <typename Visit>
bool ForEachValue(element value, Visit visit) {
  if (value.type() != element_type::ARRAY) return visit(value);
  const array list = value.get_array().value_unsafe();
  for (element one : list) {
    if (!visit(one)) return false;
  }
  return true;
}

// These return false for values of another kind.

bool AppendInteger(element value, DatesAs dates, std::vector<int64_t>& integers) {
  if (value.type() == element_type::INT64) {
    integers.push_back(value.get_int64().value_unsafe());
  } else if (value.type() == element_type::DOUBLE && IsJsonMinusZero(value)) {
    integers.push_back(0);
  } else if (value.type() == element_type::BOOL) {
    integers.push_back(value.get_bool().value_unsafe() ? 1 : 0);
  } else if (dates != DatesAs::kText && value.type() == element_type::STRING) {
    const std::optional<int64_t> number = DateNumber(value.get_string().value_unsafe(), dates);
    integers.push_back(number.value_or(0));
    return number.has_value();
  } else {
    return false;
  }
  return true;
}

bool AppendFloat(element value, std::vector<float>& floats) {
  switch (value.type()) {
    case element_type::DOUBLE: {
      double number = value.get_double().value_unsafe();
      if (std::isnan(number)) [[unlikely]]
        number = IsJsonMinusZero(value) ? 0 : JsonDouble(value);
      const std::optional<float> rounded = ToFloat(number);
      floats.push_back(rounded.value_or(0));
      return rounded.has_value();
    }
    case element_type::INT64:
      floats.push_back(static_cast<float>(value.get_int64().value_unsafe()));
      return true;
    case element_type::UINT64:
      floats.push_back(static_cast<float>(value.get_uint64().value_unsafe()));
      return true;
    case element_type::BOOL:
      floats.push_back(value.get_bool().value_unsafe() ? 1 : 0);
      return true;
    default:
      return false;
  }
}

bool AppendText(element value, bool numbers_too, std::vector<std::string_view>& texts,
                std::deque<std::string>& numbers) {
  if (value.type() == element_type::STRING) {
    texts.push_back(value.get_string().value_unsafe());
    return true;
  }
  if (!numbers_too || value.type() == element_type::NULL_VALUE || value.is_array() ||
      value.is_object()) {
    return false;
  }
  texts.push_back(numbers.emplace_back(JsonText(value)));
  return true;
}

}  // namespace

absl::Status FindJsonFacts(std::string_view name, const ChosenKind* asked, DatesAs dates,
                           element value, JsonFacts* facts) {
  FactFinder finder(name, asked, dates, facts);
  if (value.type() == element_type::ARRAY) {
    finder.AddList(value.get_array().value_unsafe(), 1);
  } else {
    finder.AddSingle(value);
  }
  return finder.Finish(value);
}

bool IsPlainJson(element value, ColumnKind kind) {
  switch (value.type()) {
    case element_type::STRING:
      return kind == ColumnKind::kBytes;
    case element_type::BOOL:
      return kind == ColumnKind::kInt64 || kind == ColumnKind::kFloat;
    case element_type::INT64: {
      const int64_t number = value.get_int64().value_unsafe();
      return (kind == ColumnKind::kInt64 || kind == ColumnKind::kFloat) && number >= -kAllExact &&
             number <= kAllExact;
    }
    case element_type::DOUBLE: {
      const double number = value.get_double().value_unsafe();
      // Others lose digits, or everything.
      return kind == ColumnKind::kFloat && std::abs(number) < kAllExact &&
             (static_cast<float>(number) != 0 || number == 0);
    }
    default:
      return false;
  }
}

bool AddJsonFeature(std::string_view name, const JsonForm& form, element value,
                    ExampleBuilder& builder) {
  const ColumnKind kind = form.kind;
  // Single values of the column's own kind are by far the most common ones.
  const element_type type = value.type();
  if (kind == ColumnKind::kBytes && type == element_type::STRING) {
    builder.AddBytes(name, value.get_string().value_unsafe());
    return true;
  }
  if (kind == ColumnKind::kInt64 && type == element_type::INT64) {
    builder.AddInt64(name, value.get_int64().value_unsafe());
    return true;
  }
  switch (kind) {
    case ColumnKind::kInt64: {
      thread_local std::vector<int64_t> thread_integers;
      std::vector<int64_t>& integers = thread_integers;
      integers.clear();
      const bool sound = ForEachValue(
          value, [&](element one) { return AppendInteger(one, form.dates, integers); });
      if (sound) builder.AddInt64List(name, integers);
      return sound;
    }
    case ColumnKind::kFloat: {
      thread_local std::vector<float> thread_floats;
      std::vector<float>& floats = thread_floats;
      floats.clear();
      const bool sound =
          ForEachValue(value, [&floats](element one) { return AppendFloat(one, floats); });
      if (sound) builder.AddFloatList(name, floats);
      return sound;
    }
    case ColumnKind::kBytes:
    case ColumnKind::kUnknown: {
      thread_local std::vector<std::string_view> thread_texts;
      thread_local std::deque<std::string> numbers;
      std::vector<std::string_view>& texts = thread_texts;
      texts.clear();
      numbers.clear();
      const bool sound = ForEachValue(value, [&texts, &form](element one) {
        return AppendText(one, form.numbers_too, texts, numbers);
      });
      if (sound) builder.AddBytesList(name, texts);
      return sound;
    }
  }
  return false;
}

void NestedJsonFeature::Start(const JsonForm& form, int depth) {
  form_ = form;
  depth_ = depth;
  integers_.clear();
  floats_.clear();
  texts_.clear();
  numbers_.clear();
  for (std::vector<int64_t>& lengths : lengths_) lengths.clear();
}

void NestedJsonFeature::AddLength(int level, uint64_t length) {
  if (level > 0) lengths_[level - 1].push_back(static_cast<int64_t>(length));
}

bool NestedJsonFeature::AddSingle(element value) {
  switch (form_.kind) {
    case ColumnKind::kInt64:
      return AppendInteger(value, form_.dates, integers_);
    case ColumnKind::kFloat:
      return AppendFloat(value, floats_);
    case ColumnKind::kBytes:
    case ColumnKind::kUnknown:
      break;
  }
  return AppendText(value, form_.numbers_too, texts_, numbers_);
}

bool NestedJsonFeature::Add(element value, int level) {
  const bool innermost = level + 1 == depth_;
  if (value.type() != element_type::ARRAY) {
    AddLength(level, 1);
    return innermost && AddSingle(value);
  }
  uint64_t length = 0;
  const array list = value.get_array().value_unsafe();
  for (element one : list) {
    ++length;
    const bool is_list = one.type() == element_type::ARRAY;
    if (innermost ? is_list || !AddSingle(one) : !is_list || !Add(one, level + 1)) return false;
  }
  AddLength(level, length);
  return true;
}

void NestedJsonFeature::Finish(std::string_view name, ExampleBuilder& builder) const {
  switch (form_.kind) {
    case ColumnKind::kInt64:
      builder.AddInt64List(name, integers_);
      break;
    case ColumnKind::kFloat:
      builder.AddFloatList(name, floats_);
      break;
    case ColumnKind::kBytes:
    case ColumnKind::kUnknown:
      builder.AddBytesList(name, texts_);
      break;
  }
  std::string lengths(name);
  for (int level = depth_ - 1; level > 0; --level) {
    lengths += kLengthsSuffix;
    builder.AddInt64List(lengths, lengths_[level - 1]);
  }
}

}  // namespace shardfeed
