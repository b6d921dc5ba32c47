#include "convert/features/dates.h"

#include <chrono>
#include <cstddef>

namespace shardfeed {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Takes parts of a text from its beginning. The results are meaningless once a part was missing.
class Parts {
 public:
  explicit Parts(std::string_view text) : rest_(text) {}

  int Digits(size_t count) {
    int value = 0;
    if (rest_.size() < count) return Fail();
    for (const char c : rest_.substr(0, count)) {
      if (!IsDigit(c)) return Fail();
      value = value * 10 + (c - '0');
    }
    rest_.remove_prefix(count);
    return value;
  }
  // Takes one of these characters, if it comes next.
  bool Skip(std::string_view any) {
    if (rest_.empty() || any.find(rest_.front()) == any.npos) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void Expect(std::string_view any) {
    if (!Skip(any)) Fail();
  }
  // Returns microseconds.
  int Fraction() {
    int value = 0;
    size_t count = 0;
    for (; !rest_.empty() && IsDigit(rest_.front()); rest_.remove_prefix(1)) {
      if (count++ < 6) {
        value = value * 10 + (rest_.front() - '0');
      } else if (rest_.front() != '0') {
        return Fail();
      }
    }
    if (count == 0) return Fail();
    for (; count < 6; ++count) value *= 10;
    return value;
  }
  bool NextIsDigit() const { return !rest_.empty() && IsDigit(rest_.front()); }
  bool AtEnd() const { return rest_.empty(); }
  bool failed() const { return failed_; }

 private:
  int Fail() {
    failed_ = true;
    return 0;
  }

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace

std::optional<Date> ParseDate(std::string_view text) {
  // Almost all texts are not dates.
  if (text.size() < 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  Parts parts(text);
  const int year = parts.Digits(4);
  parts.Expect("-");
  const int month = parts.Digits(2);
  parts.Expect("-");
  const int day = parts.Digits(2);
  int hours = 0;
  int minutes = 0;
  int seconds = 0;
  int microseconds = 0;
  int offset = 0;  // minutes
  bool has_zone = false;
  if (!parts.AtEnd()) {
    parts.Expect("Tt ");
    hours = parts.Digits(2);
    parts.Expect(":");
    minutes = parts.Digits(2);
    if (parts.Skip(":")) {
      seconds = parts.Digits(2);
      if (parts.Skip(".,")) microseconds = parts.Fraction();
    }
    has_zone = !parts.AtEnd();
    if (has_zone && !parts.Skip("Zz")) {
      const bool west = parts.Skip("-");
      if (!west) parts.Expect("+");
      const int offset_hours = parts.Digits(2);
      const bool colon = parts.Skip(":");
      const int offset_minutes = colon || parts.NextIsDigit() ? parts.Digits(2) : 0;
      if (offset_hours > 23 || offset_minutes > 59) return std::nullopt;
      offset = (offset_hours * 60 + offset_minutes) * (west ? -1 : 1);
    }
  }
  const std::chrono::year_month_day when{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (parts.failed() || !parts.AtEnd() || year == 0 || !when.ok() || hours > 23 || minutes > 59 ||
      seconds > 59) {
    return std::nullopt;
  }
  const int64_t days = std::chrono::sys_days(when).time_since_epoch().count();
  const int64_t minute = (days * 24 + hours) * 60 + minutes - offset;
  return Date{(minute * 60 + seconds) * 1'000'000 + microseconds, has_zone};
}

std::optional<int64_t> DateNumber(std::string_view text, DatesAs as) {
  const std::optional<Date> date = ParseDate(text);
  if (!date) return std::nullopt;
  if (as == DatesAs::kMicroseconds) return date->microseconds;
  if (HasFractionOfSecond(*date)) return std::nullopt;
  return date->microseconds / 1'000'000;
}

std::string NoteOfNoDates(std::string_view what) {
  return "no " + std::string(what) +
         " that may become numbers has dates, which are written as in 2024-01-31 or "
         "2024-01-31T13:45:00Z";
}

std::string NumbersAmongDates(uint64_t values) {
  return values == 1 ? "1 value is not a date but a number"
                     : std::to_string(values) + " values are not dates but numbers";
}

}  // namespace shardfeed
