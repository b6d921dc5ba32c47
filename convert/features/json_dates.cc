#include "convert/features/json_dates.h"

#include "base/excerpt.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

std::string Values(uint64_t count) {
  return count == 1 ? std::string("1 value") : fmt::format("{} values", count);
}

}  // namespace

void JsonDates::Add(const JsonDates& record, Place place) {
  if (fractions == 0) first_fraction = {record.first_fraction.text, place};
  if (others == 0) first_other = {record.first_other.text, place};
  dates += record.dates;
  unzoned += record.unzoned;
  fractions += record.fractions;
  others += record.others;
}

std::string NoteOfDates(std::string_view key, const JsonDates& found, DatesAs as, bool are_numbers,
                        const std::function<std::string(Place)>& name_of) {
  if (found.dates == 0) return "";
  const auto first = [&name_of](const JsonDates::Value& value) {
    return fmt::format("{} at {}", value.text, name_of(value.place));
  };
  if (are_numbers) {
    std::string note = fmt::format(
        "key {}: dates became {} since 1970 in UTC ({}{})", Excerpt(key),
        as == DatesAs::kSeconds ? "seconds" : "microseconds", Values(found.dates),
        found.unzoned == 0
            ? ""
            : fmt::format(
                  ", {} without a time zone",
                  found.unzoned == found.dates ? "all" : fmt::format("{} of them", found.unzoned)));
    if (found.others > 0) {
      note += fmt::format("; {}, the first is {}", NumbersAmongDates(found.others),
                          first(found.first_other));
    }
    return note;
  }
  if (found.others > 0) {
    return fmt::format("key {} is bytes because of {}{}, {}; the other {} {}", Excerpt(key),
                       Values(found.others), found.others == 1 ? "" : ", the first",
                       first(found.first_other), Values(found.dates),
                       found.dates == 1 ? "is a date" : "are dates");
  }
  return fmt::format(
      "key {} is bytes because {} of {} dates have fractions of a second, the first is {}; "
      "microseconds would keep them",
      Excerpt(key), found.fractions, found.dates, first(found.first_fraction));
}

}  // namespace shardfeed
