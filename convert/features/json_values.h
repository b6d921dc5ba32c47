// A value of a JSON object: the kind of feature that it calls for, and the feature made of it.

#ifndef SHARDFEED_CONVERT_FEATURES_JSON_VALUES_H_
#define SHARDFEED_CONVERT_FEATURES_JSON_VALUES_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "convert/features/column.h"
#include "convert/features/dates.h"
#include "convert/features/feature_choice.h"
#include "convert/features/json_dates.h"
#include "shardfeed/examples.h"
#include "simdjson.h"

namespace shardfeed {

// Lists may be nested this deep, lists of objects included.
inline constexpr int kMaxJsonLists = 8;

// What follows the name of a feature in that of the lengths of its lists, as in parse().
inline constexpr std::string_view kLengthsSuffix = "_lengths";

// A number whose digits a float does not keep.
struct InexactNumber {
  std::string text;
  float stored = 0;
};

// What a value that is not an object tells about its key.
struct JsonFacts {
  ColumnKind kind = ColumnKind::kUnknown;  // kUnknown: only empty lists
  // How deep lists are nested: 1 for a single value and for a list of values, 2 for a list of such
  // lists. If there are only empty lists, values may be deeper.
  int depth = 1;
  bool has_values = false;
  bool has_bools = false;
  bool has_numbers = false;
  // Numbers whose digits a float would not keep, and the first of them.
  uint64_t inexact = 0;
  InexactNumber first_inexact;
  // Where dates are to become numbers, the texts and, if int64 is chosen, the numbers.
  JsonDates dates;
};

// What the values of a feature are made of.
struct JsonForm {
  ColumnKind kind = ColumnKind::kUnknown;
  bool numbers_too = false;        // numbers become text in a bytes feature
  DatesAs dates = DatesAs::kText;  // otherwise, dates become numbers in an int64 feature
};

// DataLoss, with the place in the object (`name`) but not in the file: the value cannot become a
// feature or, if a kind is `asked` for (not nullptr), not one of that kind. Numbers fit bytes, and
// dates fit int64 unless `dates` is kText.
absl::Status FindJsonFacts(std::string_view name, const ChosenKind* asked, DatesAs dates,
                           simdjson::dom::element value, JsonFacts* facts);

// Whether a value is a single one that teaches nothing about a key of that kind: it fits, and a
// float keeps its digits. May be false for values that teach nothing either.
bool IsPlainJson(simdjson::dom::element value, ColumnKind kind);

// Adds a single value or a list of values as a feature. Returns false if the value has another
// kind.
bool AddJsonFeature(std::string_view name, const JsonForm& form, simdjson::dom::element value,
                    ExampleBuilder& builder);

// Collects the values of a feature whose values are in lists in lists, and the lengths of the
// lists: for the values [[1, 2], [3]] the feature NAME is [1, 2, 3] and NAME_lengths is [2, 1]. Of
// deeper lists, NAME_lengths has the lengths of the innermost ones, NAME_lengths_lengths those of
// the lists around them, and so on. Reused for many records; not thread-safe.
class NestedJsonFeature {
 public:
  // Starts a record. `depth`: how deep lists are nested, at least 2.
  void Start(const JsonForm& form, int depth);
  // Adds a value that is in `level` lists, or ones of objects: a list or, at the innermost level, a
  // single value, which is the same as a list of it. Returns false if it has another kind or depth.
  bool Add(simdjson::dom::element value, int level);
  // Adds the length of a list that is in `level` others: 0 for one that is missing.
  void AddLength(int level, uint64_t length);
  // Adds the features.
  void Finish(std::string_view name, ExampleBuilder& builder) const;

 private:
  bool AddSingle(simdjson::dom::element value);

  JsonForm form_;
  int depth_ = 2;
  std::vector<int64_t> integers_;
  std::vector<float> floats_;
  std::vector<std::string_view> texts_;
  std::deque<std::string> numbers_;  // texts of numbers
  // Lengths of the lists in one, two... others.
  std::vector<int64_t> lengths_[kMaxJsonLists];
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_JSON_VALUES_H_
