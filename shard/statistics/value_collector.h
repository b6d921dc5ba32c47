// Collects the statistics of values while a schema looks at records.

#ifndef SHARDFEED_SHARD_STATISTICS_VALUE_COLLECTOR_H_
#define SHARDFEED_SHARD_STATISTICS_VALUE_COLLECTOR_H_

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

  // Called before the first record of each sequence of records that belong together, which have a
  // schema of their own: which values are sampled depends on nothing before it. From the first call
  // on, single values are gathered and added many at a time: values() lacks some of them until
  // Take, and the collector must not be copied.
  void Begin();
  // Adds a record to the schema, and its values to the statistics. `crc` is its CRC-32C, not
  // masked. DataLoss: as Schema::AddRecord.
  absl::Status Add(std::string_view record, uint32_t crc, Schema& schema);
  void Merge(const ValueStatistics& other);

  const ValueStatistics& values() const { return values_; }
  ValueStatistics Take();

 private:
  class Visitor;
  struct Slot {
    const std::string* name = nullptr;
    FeatureStatistics* statistics = nullptr;
    // Values that the statistics lack, as FeatureStatistics::AddSingles takes them. The histograms
    // of many features do not fit into a processor's fastest cache, but that of one does.
    std::unique_ptr<char[]> gathered;
    char* next = nullptr;  // the end of these values
    char* end = nullptr;   // the end of the memory
    FeatureKind kind = FeatureKind::kNone;
    uint64_t seed_limit = 0;

    // Makes room for a value of this kind. False: its values are not gathered.
    bool MakeRoom(FeatureKind single);
    // Gathers the only value of a record, at `span`. It has this kind, and there is room.
    void Gather(std::string_view record, ValueSpan span, uint64_t seed);
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
  bool gathers_ = false;
  // A random number of the records so far: that of the next one.
  uint64_t seed_ = 0;
  FeatureReader reader_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STATISTICS_VALUE_COLLECTOR_H_
