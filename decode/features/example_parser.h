// Parses serialised tf.train.Example and tf.train.SequenceExample messages into the columns of a
// batch.
//
// Only the features that are asked for are read, straight into their place; nothing is allocated
// once the columns have grown. Messages: tfrecord/example.proto; wire format: tfrecord/wire.h.
//
// A record means what Protocol Buffers take it for:
//   - of several map entries of one name the last counts, and replaces the others wholly;
//   - a list that stands in several pieces, packed or not, is one list; so is one in several
//     Feature values of one map entry, and the steps of a feature list in several of them;
//   - of lists of different kinds in one Feature, the last kind counts, since its last change;
//   - a Feature without a list has no kind, and stands for a missing value;
//   - a map entry without a name has the empty one, one without a value an empty Feature;
//   - unknown fields are skipped, as are fields 1 to 3 of other wire types than theirs.
// What Protocol Buffers refuse is an error, with one exception: of features that are not asked
// for, the map entry is checked but neither its name, which need not be UTF-8, nor its value; and
// if no feature is asked for, or no feature list, their map is not looked at.

#ifndef SHARDFEED_DECODE_FEATURES_EXAMPLE_PARSER_H_
#define SHARDFEED_DECODE_FEATURES_EXAMPLE_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
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

// What one worker parses rows into; ExampleParser::MakeColumns makes them. Features are numbered as
// ExampleParser does. Not thread safe; workers with columns of their own may parse into different
// rows of one memory at once.
class ParsedColumns {
 public:
  // Where row 0 of a fixed feature begins; row r is r * parser.bytes(feature) behind it.
  // Aligned as the type is, and provided by the caller. Must be set before a row is parsed.
  void SetFixed(size_t feature, char* data) { fixed_[feature] = data; }
  // The rows of any other feature, in the order in which they were parsed.
  const VariableColumn& variable(size_t feature) const { return variable_[feature]; }
  // A further row of `variable`, without elements, in the place of one that is not parsed.
  void AddEmptyRow();
  // Drops the rows of `variable` from number `rows` on, and of all what was begun behind the last
  // one. Their memory is kept.
  void Truncate(size_t rows);
  void Clear() { Truncate(0); }

 private:
  friend class ExampleParser;

  std::vector<char*> fixed_;
  std::vector<VariableColumn> variable_;
  // Of the record that is being parsed.
  std::vector<FeatureView> found_;
  // Records mostly have their features in one order: the feature that came first in the record
  // before, and then for each feature the one that came after it. After the features of the context
  // the same for the feature lists.
  std::vector<uint32_t> next_;
};

// Immutable; thread safe.
class ExampleParser {
 public:
  // For Examples, or with `feature_lists` for SequenceExamples, whose context then has `features`.
  // Features are numbered: first `features`, then `feature_lists`.
  //
  // InvalidArgument: as Validate says, or a name is there twice.
  static absl::StatusOr<std::shared_ptr<const ExampleParser>> Make(
      std::vector<FeatureSpec> features, std::vector<FeatureSpec> feature_lists = {});

  ~ExampleParser();

  size_t num_features() const;
  const FeatureSpec& spec(size_t feature) const;
  // Of a row of a fixed feature, or of an element of any other.
  size_t bytes(size_t feature) const;
  // Of a padded feature: an element that the rows are filled up with, for FillPadded.
  std::string_view padding(size_t feature) const;

  ParsedColumns MakeColumns() const;

  // Parses `record` as row `row` of the fixed features, and as a further row of the others. Any
  // bytes are safe to pass.
  //
  // Elements of bytes features are views into the record, or into the parser where they are
  // defaults: both must live as long as the elements are used.
  //
  // After an error the fixed row is in no certain state, and the others have no row more than
  // before. The message does not name the record: the caller knows it.
  // DataLoss: not an Example; names the byte, and the feature if it is one that is asked for.
  // InvalidArgument: a feature is missing, or of another kind, length or range than was asked for.
  absl::Status Parse(std::string_view record, size_t row, ParsedColumns* columns) const;

  // Whether the record that was parsed last, and is still there, lacks the feature, or has it
  // without a kind.
  bool IsMissing(const ParsedColumns& columns, size_t feature) const {
    const FeatureView& view = columns.found_[feature];
    if (view.form == FeatureView::Form::kStored) return false;
    return view.form == FeatureView::Form::kAbsent || HasNoKind(view);
  }

 private:
  ExampleParser(std::vector<FeaturePlan> plans, size_t num_context);

  static bool HasNoKind(const FeatureView& view);

  const char* Find(std::string_view record, size_t row, ParsedColumns* columns) const;
  const char* FindInMap(std::string_view map, const NameTable& names, size_t first_plan, size_t row,
                        uint32_t* next, ParsedColumns* columns) const;

  std::vector<FeaturePlan> plans_;
  size_t num_context_;  // number of context features at the front of plans_; the rest are feature
                        // lists
  NameTable names_;
  NameTable list_names_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_EXAMPLE_PARSER_H_
