// The schema of a dataset: a summary of each feature over all records.

#ifndef SHARDFEED_SHARD_SCHEMA_SCHEMA_H_
#define SHARDFEED_SHARD_SCHEMA_SCHEMA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nlohmann/json_fwd.hpp"
#include "tfrecord/example_reader.h"

namespace shardfeed {

// What a feature was before it became a list of 64-bit integers, 32-bit floats or bytes. No record
// tells it: the writer notes it, so that whoever parses the records can restore it.
struct FeatureType {
  std::string dtype;  // a DTypeName, "bool" or another name of NumPy's; empty: not known
  // Shape of the value in each record that has the feature; a first size of -1 is any length.
  // Empty: a single value, or not known.
  std::vector<int64_t> shape;

  bool empty() const { return dtype.empty() && shape.empty(); }
  friend bool operator==(const FeatureType&, const FeatureType&) = default;
};
using FeatureTypes = std::map<std::string, FeatureType, std::less<>>;

// One feature over all records.
struct FeatureSchema {
  // The kind that it has in most records; of kinds in as many records, the first of int64, float
  // and bytes; if each record has several, the first of these that occurs. So it does not depend on
  // the order of records, nor on how parts were merged.
  FeatureKind kind = FeatureKind::kNone;
  // True for a feature list of SequenceExamples.
  bool is_list = false;
  // Number of records that have the feature.
  uint64_t records = 0;
  // Number of records with values of the kind alone, for each FeatureKind; kNone: without values of
  // a kind.
  std::array<uint64_t, 4> of_kind = {};
  // False if a manifest of an earlier version does not tell `of_kind`, which then has only the
  // records that are not among `mixed_kinds`, all as of `kind`.
  bool knows_kinds = true;
  // Number of records in which the feature has another kind than `kind`, or several.
  uint64_t mixed_kinds = 0;
  // Range of the number of values in a record that has the feature.
  uint64_t min_values = UINT64_MAX;
  uint64_t max_values = 0;
  // For a feature list: range of the number of values in a step. The minimum is larger if there are
  // no steps, or if it is not known.
  uint64_t min_step_values = UINT64_MAX;
  uint64_t max_step_values = 0;
  // False if a manifest of an earlier version does not tell these.
  bool knows_steps = true;
  // Range of the size of a value; for bytes features only.
  uint64_t min_bytes = UINT64_MAX;
  uint64_t max_bytes = 0;
  FeatureType type;

  bool has_step_values() const { return min_step_values <= max_step_values; }
  // Whether nothing but the name is known: no record has it, and the writer noted no type.
  bool is_name_alone() const { return records == 0 && kind == FeatureKind::kNone && type.empty(); }
  friend bool operator==(const FeatureSchema&, const FeatureSchema&) = default;
};

// A feature that a schema has found in a record.
struct FoundFeature {
  // The feature in Schema::features, which stays where it is.
  const std::string* name;
  FeatureSchema* schema;
  size_t position;     // its place in the record, or in a similar one that has more features
  FeatureKind kind;    // kNone: without values
  uint64_t count = 0;  // number of values
  size_t end = 0;      // end of its spans, which begin at the end of the preceding feature's
  // Sizes of the shortest and the longest value of bytes.
  uint64_t min_bytes = 0;
  uint64_t max_bytes = 0;
};

// Is shown the values of a record while a schema looks at it, so that they need not be searched for
// again.
class ValueVisitor {
 public:
  virtual ~ValueVisitor() = default;
  // All features of the record, in the order of their positions, and where their values are.
  virtual void Visit(absl::Span<const FoundFeature> features,
                     absl::Span<const ValueSpan> spans) = 0;
  // Called instead for a record with values that spans do not show: unpacked numbers, repeated
  // features, lists of steps of several kinds.
  virtual void VisitIrregular(std::string_view record) = 0;
};

// Not thread-safe: collect one schema per thread and merge them.
class Schema {
 public:
  // Adds a record, and shows its values to `visitor`, unless it is null. DataLoss: it is not an
  // Example; only the record itself is counted.
  absl::Status AddRecord(std::string_view record, ValueVisitor* visitor = nullptr);
  // The result is that of adding all records to one schema, in any order; except that of types of a
  // feature, if both have them, whatever differs becomes unknown.
  void Merge(const Schema& other);
  // Notes the types of those features that the records have. A shape that they do not have is left
  // out.
  void SetTypes(const FeatureTypes& types);
  FeatureTypes Types() const;
  // Removes the features that are names alone, which parts of jobs have for WriteJob::Commit.
  void RemoveNamesAlone();
  // Whether all feature lists tell how many values their steps have; manifests of earlier versions
  // do not.
  bool knows_steps() const;
  // Takes that from the schema of the same records.
  void SetSteps(const Schema& found);

  uint64_t records() const { return records_; }
  uint64_t not_examples() const { return not_examples_; }
  const std::map<std::string, FeatureSchema, std::less<>>& features() const { return features_; }

  // Returns {"NAME": {"kind": "bytes", "records": 10, "min_values": 1, ...}}; docs/manifest.md
  // explains the keys.
  nlohmann::json ToJson() const;
  // DataLoss: ToJson cannot have written `json` for a schema of `records` records.
  absl::Status FromJson(const nlohmann::json& json, uint64_t records, uint64_t not_examples = 0);

 private:
  // The layout of a record of some size: all of its bytes except the values.
  struct Seen {
    FeatureSchema* schema;
    const std::string* name;  // The key in features_.
  };
  struct Layout {
    size_t record_bytes = 0;
    // The bytes outside the values; empty if a record of this size was seen but not stored.
    std::string structure;
    std::vector<ValueSpan> values;
    std::vector<FoundFeature> features;

    bool Fits(std::string_view record) const;
    void Remember(std::string_view record);
  };
  // Records mostly repeat the features of the previous one in the same order, and many repeat its
  // whole layout; such records only need to be counted. A copy of a schema starts with empty
  // memories, because they point into the original.
  struct Memories {
    std::vector<Seen> last_order;
    // How many of these features, from the first, have different names.
    size_t num_different = 0;
    // Indexed by the size of the record modulo 8.
    std::array<Layout, 8> layouts;

    Memories() = default;
    Memories(const Memories&) {}
    Memories& operator=(const Memories&);
    Memories(Memories&&) = default;
    Memories& operator=(Memories&&) = default;
  };

  Seen Find(std::string_view name, size_t position);
  // Adds a record as nearly all are: each feature has one packed list of its kind, and they are in
  // the order of the last record. False: it is another one, and nothing was added.
  bool AddPlain(std::string_view record, Layout& layout);
  void ForgetLayouts();
  // Whether the spans in `values` show all values of summaries_.
  bool SpansShowAll(const std::vector<ValueSpan>& values) const;

  uint64_t records_ = 0;
  uint64_t not_examples_ = 0;
  std::map<std::string, FeatureSchema, std::less<>> features_;
  Memories memories_;
  std::vector<FeatureSummary> summaries_;
  std::vector<size_t> span_ends_;  // end of the spans of each of summaries_
};

// Describes the first difference of `stored` from `found`, which was collected from the records;
// empty if there is none. If a feature has mixed kinds, its kind is not compared, because in
// manifests of earlier versions it depends on the order in which schemas were merged; nor are
// counts of kinds and values of steps that such a manifest does not tell. Nor are types, which
// records do not tell.
std::string DifferenceOf(const Schema& stored, const Schema& found);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SCHEMA_SCHEMA_H_
