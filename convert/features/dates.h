// Dates and times in text, in the forms of RFC 3339 and ISO 8601 that data has.

#ifndef SHARDFEED_CONVERT_FEATURES_DATES_H_
#define SHARDFEED_CONVERT_FEATURES_DATES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardfeed {

// What dates in text become: text, or the time since 1970-01-01T00:00:00 UTC.
enum class DatesAs { kText, kSeconds, kMicroseconds };

struct Date {
  int64_t microseconds;  // since 1970-01-01T00:00:00 UTC
  bool has_zone;         // otherwise, the time is taken as UTC
};

// Parses YYYY-MM-DD, which may be followed by "T" or a blank and HH:MM, then by ":SS", by "." or
// "," and a fraction of a second, and by "Z" or an offset such as +02:00, +0200 or +02. The year is
// 0001 to 9999 in the Gregorian calendar. Nullopt: another text, a day or time that does not exist
// (also a leap second, which the result cannot tell from the next one), or a fraction that has more
// digits than microseconds.
std::optional<Date> ParseDate(std::string_view text);

inline bool HasFractionOfSecond(const Date& date) { return date.microseconds % 1'000'000 != 0; }

// Returns what a date becomes; nullopt for other text, and for dates with fractions of seconds
// where they become seconds. `as` is not kText.
std::optional<int64_t> DateNumber(std::string_view text, DatesAs as);

// The note that no `what` (column, key) has a date although dates were to become numbers.
std::string NoteOfNoDates(std::string_view what);
// Says that so many values among dates are numbers.
std::string NumbersAmongDates(uint64_t values);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_DATES_H_
