// Parses serialized tf.train.Example and tf.train.SequenceExample messages into the columns of a
// batch.
//
// Only the requested features are read, straight into their place; nothing is allocated once the
// columns have grown. Messages: tfrecord/example.proto; wire format: tfrecord/wire.h.
//
// A record means what Protocol Buffers take it for:
//   - of several map entries with the same name, the last one replaces the others entirely;
//   - a list in several pieces, packed or not, is one list; so are a list in several Feature values
//     of one map entry and the steps of a feature list in several values;
//   - if one Feature has lists of different kinds, the last kind counts, from where it last
//     changed;
//   - a Feature without a list has no kind and stands for a missing value;
//   - a map entry without a name has the empty name, one without a value an empty Feature;
//   - unknown fields are skipped, as are fields 1 to 3 of an unexpected wire type.
// What Protocol Buffers refuse is an error, with one exception: of features that are not requested,
// the map entry is checked, but neither its name, which need not be UTF-8, nor its value; and if no
// features, or no feature lists, are requested, their map is skipped.

#ifndef SHARDFEED_DECODE_FEATURES_EXAMPLE_PARSER_H_
#define SHARDFEED_DECODE_FEATURES_EXAMPLE_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "decode/features/columns.h"
#include "decode/features/feature_spec.h"
#include "decode/features/feature_values.h"
#include "decode/features/name_table.h"

namespace shardfeed {

// How one feature is read.
struct FeaturePlan;

// The columns that one worker parses rows into; ExampleParser::MakeColumns makes them. Features
// have the numbers that ExampleParser gives them. Not thread-safe, but workers that have columns of
// their own may parse into different rows of the same memory at once.
class ParsedColumns {
 public:
  // Sets where row 0 of a fixed feature begins; row r follows at r * parser.bytes(feature). The
  // caller provides the memory, aligned for the type, before a row is parsed.
  void SetFixed(size_t feature, char* data) { fixed_[feature] = data; }
  // The rows of any other feature, in the order in which they were parsed.
  const VariableColumn& variable(size_t feature) const { return variable_[feature]; }
  // Appends a row without elements to each column of `variable`, in place of a record that is not
  // parsed.
  void AddEmptyRow();
  // Keeps the first `rows` rows of each column of `variable` and drops all others, even unfinished
  // ones. The memory is kept.
  void Truncate(size_t rows);
  void Clear() { Truncate(0); }

 private:
  friend class ExampleParser;

  std::vector<char*> fixed_;
  std::vector<VariableColumn> variable_;
  // The features of the record that is being parsed.
  std::vector<FeatureView> found_;
  // Most records have their features in the same order, so this predicts the next one: first the
  // number of the feature that came first in the previous record, then for each feature the one
  // that came after it. The same follows for the feature lists.
  std::vector<uint32_t> next_;
  std::optional<std::string_view> unknown_;  // a feature that is not one of those with an `origin`
};

// Immutable; thread-safe.
class ExampleParser {
 public:
  // Makes a parser of Examples, or, with `feature_lists`, of SequenceExamples, whose context has
  // `features`. Features are numbered from 0: first `features`, then `feature_lists`.
  //
  // `origin`: empty, or a sentence that says where the features are from, if they are meant to be
  // all that records have. A record with another one is then an error, unless the feature has no
  // kind, and messages end with the sentence.
  //
  // InvalidArgument: Validate refuses a feature, or a name appears twice.
  static absl::StatusOr<std::shared_ptr<const ExampleParser>> Make(
      std::vector<FeatureSpec> features, std::vector<FeatureSpec> feature_lists = {},
      std::string origin = {});

  ~ExampleParser();

  size_t num_features() const;
  const FeatureSpec& spec(size_t feature) const;
  // Bytes of a row of a fixed feature, or of an element of any other.
  size_t bytes(size_t feature) const;
  // The element with which FillPadded fills up the rows of a padded feature.
  std::string_view padding(size_t feature) const;

  ParsedColumns MakeColumns() const;

  // Parses `record` as row `row` of the fixed features, and appends it as a row to the others. Any
  // bytes are safe to pass.
  //
  // Elements of bytes features are views into the record, or into the parser for default values:
  // both must outlive the elements.
  //
  // After an error the row of the fixed features is unspecified, and the others have no additional
  // row. The message does not name the record, which the caller knows.
  // DataLoss: not an Example; the message names the byte and, if it is a requested one, the
  // feature.
  // InvalidArgument: a feature is missing, or its kind, length or range is not the requested one.
  absl::Status Parse(std::string_view record, size_t row, ParsedColumns* columns) const;

  // Whether the record that was parsed last, and is still there, lacks the feature, or has it
  // without a kind.
  bool IsMissing(const ParsedColumns& columns, size_t feature) const {
    const FeatureView& view = columns.found_[feature];
    if (view.form == FeatureView::Form::kStored) return false;
    return view.form == FeatureView::Form::kAbsent || HasNoKind(view);
  }

 private:
  ExampleParser(std::vector<FeaturePlan> plans, size_t num_context, std::string origin);

  static bool HasNoKind(const FeatureView& view);

  const char* Find(std::string_view record, size_t row, ParsedColumns* columns) const;
  const char* FindInMap(std::string_view map, const NameTable& names, size_t first_plan, size_t row,
                        uint32_t* next, ParsedColumns* columns) const;
  // Checks a map none of whose features is requested, but all are to be known.
  const char* FindUnknown(std::string_view map, ParsedColumns* columns) const;

  std::vector<FeaturePlan> plans_;
  size_t num_context_;  // number of context features at the front of plans_; the rest are feature
                        // lists
  NameTable names_;
  NameTable list_names_;
  const std::string origin_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_EXAMPLE_PARSER_H_
