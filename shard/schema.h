// What the records of a dataset hold: one line per feature, gathered over all records.

#ifndef SHARDFEED_SHARD_SCHEMA_H_
#define SHARDFEED_SHARD_SCHEMA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"
#include "tfrecord/example_reader.h"

namespace shardfeed {

// One feature over all records.
struct FeatureSchema {
  FeatureKind kind = FeatureKind::kNone;  // of the records that have a kind at all
  bool is_list = false;                   // a feature list of SequenceExamples
  uint64_t records = 0;                   // how many have it
  uint64_t mixed_kinds = 0;               // how many have it with another kind than `kind`
  // Values in a record that has the feature: fixed where both are equal.
  uint64_t min_values = UINT64_MAX;
  uint64_t max_values = 0;
  // Size of a value; bytes features only.
  uint64_t min_bytes = UINT64_MAX;
  uint64_t max_bytes = 0;

  friend bool operator==(const FeatureSchema&, const FeatureSchema&) = default;
};

// Not thread safe: gather one per thread and Merge them; the order does not matter.
class Schema {
 public:
  // DataLoss, and nothing is counted but the record itself, when it is not an Example.
  absl::Status AddRecord(std::string_view record);
  void Merge(const Schema& other);

  uint64_t records() const { return records_; }
  uint64_t not_examples() const { return not_examples_; }
  const std::map<std::string, FeatureSchema, std::less<>>& features() const { return features_; }

  // {"NAME": {"kind": "bytes", "records": 10, "min_values": 1, ...}}; the keys are explained in
  // docs/manifest.md.
  nlohmann::json ToJson() const;
  // DataLoss when `json` is not what ToJson can write of `records` records.
  absl::Status FromJson(const nlohmann::json& json, uint64_t records, uint64_t not_examples = 0);

 private:
  // How a record of some size is laid out: all of its bytes but the values.
  struct Layout {
    size_t record_bytes = 0;
    std::string structure;          // empty: one record of this size was seen, none remembered
    std::vector<ValueSpan> values;  // what stands between
    std::vector<FeatureSchema*> features;

    bool Fits(std::string_view record) const;
  };
  struct Seen {
    FeatureSchema* schema;
    std::string_view name;  // the map's key
  };
  // Records mostly repeat the features of the one before in its order, and many their whole layout:
  // then counting them is all there is to do. A copy of a schema starts without memories, which
  // point into the original.
  struct Memories {
    std::vector<Seen> last_order;
    std::array<Layout, 8> layouts;  // by the size of the record

    Memories() = default;
    Memories(const Memories&) {}
    Memories& operator=(const Memories&);
    Memories(Memories&&) = default;
    Memories& operator=(Memories&&) = default;
  };

  FeatureSchema* Find(std::string_view name, size_t position);

  uint64_t records_ = 0;
  uint64_t not_examples_ = 0;
  std::map<std::string, FeatureSchema, std::less<>> features_;
  Memories memories_;
  std::vector<FeatureSummary> summaries_;
};

// What `stored` says that `found`, gathered from the records, does not, in words that follow
// "says"; empty if nothing. Where the kinds of a feature are mixed, which of them counts depends on
// the order in which schemas were merged, and is not compared.
std::string DifferenceOf(const Schema& stored, const Schema& found);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SCHEMA_H_
