// The dates among the values of a JSON key, where dates are to become numbers.

#ifndef SHARDFEED_CONVERT_FEATURES_JSON_DATES_H_
#define SHARDFEED_CONVERT_FEATURES_JSON_DATES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "convert/features/column.h"
#include "convert/features/dates.h"

namespace shardfeed {

struct JsonDates {
  struct Value {
    std::string text;  // the value as messages show it
    Place place;
  };
  uint64_t dates = 0;
  uint64_t unzoned = 0;    // dates without a time zone
  uint64_t fractions = 0;  // dates with fractions of a second
  uint64_t others = 0;     // values that are not dates
  Value first_fraction;
  Value first_other;

  bool any() const { return dates + others > 0; }
  // Whether all values become numbers.
  bool AllFit(DatesAs as) const {
    return as != DatesAs::kText && dates > 0 && others == 0 &&
           (as == DatesAs::kMicroseconds || fractions == 0);
  }
  // Adds those of another record, whose values lack their place.
  void Add(const JsonDates& record, Place place);
};

// Returns a note on the dates of a key, empty without dates: that they became numbers
// (`are_numbers`), or why they did not, with the first place. `name_of` formats places.
std::string NoteOfDates(std::string_view key, const JsonDates& found, DatesAs as, bool are_numbers,
                        const std::function<std::string(Place)>& name_of);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_JSON_DATES_H_
