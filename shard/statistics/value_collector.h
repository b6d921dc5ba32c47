// Collects the statistics of values while a schema looks at records.

#ifndef SHARDFEED_SHARD_STATISTICS_VALUE_COLLECTOR_H_
#define SHARDFEED_SHARD_STATISTICS_VALUE_COLLECTOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "shard/schema/schema.h"
#include "shard/statistics/value_statistics.h"
#include "tfrecord/feature_values.h"

namespace shardfeed {

// Not thread-safe.
class ValueCollector {
 public:
  ValueCollector() = default;
  explicit ValueCollector(ValueStatistics values) : values_(std::move(values)) {}

  // Called before the first record of each sequence of records that belong together, which all have
  // one schema: which values are sampled depends on nothing before it. Until End, single numbers
  // are gathered and added together, so values() lacks some.
  void Begin();
  // Called after the last record of the sequence.
  void End();
  // Adds a record to the schema, and its values to the statistics. `crc` is its CRC-32C, not
  // masked. DataLoss: as Schema::AddRecord.
  absl::Status Add(std::string_view record, uint32_t crc, Schema& schema);
  void Merge(const ValueStatistics& other);

  const ValueStatistics& values() const { return values_; }
  ValueStatistics Take();

 private:
  class Visitor;
  // Single numbers of one feature that its statistics lack, with the seeds of their records. The
  // histograms of many features do not fit into a processor's fastest cache, but that of one does.
  struct Gathered {
    static constexpr size_t kMost = 256;

    FeatureKind kind = FeatureKind::kNone;
    size_t count = 0;
    std::array<char, kMost * sizeof(float)> floats;  // little-endian
    std::array<int64_t, kMost> ints;
    std::array<uint64_t, kMost> seeds;
  };
  struct Slot {
    const std::string* name = nullptr;
    FeatureStatistics* statistics = nullptr;
    std::unique_ptr<Gathered> gathered;

    // Adds a single number at `span` of a record.
    void Gather(FeatureKind number, std::string_view record, ValueSpan span, uint64_t seed);
    void AddGathered();
  };
  // The features of the last record, by their positions, which are mostly those of the next one. A
  // copy starts without them, because they point into the original.
  struct Slots {
    std::vector<Slot> slots;
    uint64_t num_removed = 0;

    Slots() = default;
    Slots(const Slots&) {}
    Slots& operator=(const Slots&) {
      slots.clear();
      return *this;
    }
    Slots(Slots&&) = default;
    Slots& operator=(Slots&&) = default;
  };

  void AddGathered();

  ValueStatistics values_;
  Slots slots_;
  bool gathers_ = false;  // between Begin and End
  // A random number of the records so far: that of the next one.
  uint64_t seed_ = 0;
  FeatureReader reader_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STATISTICS_VALUE_COLLECTOR_H_
