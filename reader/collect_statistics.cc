#include "reader/collect_statistics.h"

#include <memory>
#include <vector>

#include "base/mutex.h"

namespace shardfeed {
namespace {

// Merges the statistics of shards in their order, so that the result does not depend on which of
// them is read first, and keeps only those of shards that wait for an earlier one.
class MergedInOrder {
 public:
  explicit MergedInOrder(size_t num_shards) : parts_(num_shards) {
    for (auto& part : parts_) part = std::make_unique<DatasetStatistics>();
    ended_.resize(num_shards);
  }

  // Belongs to the thread that reads the shard, until End.
  DatasetStatistics& Of(size_t shard) { return *parts_[shard]; }

  void End(size_t shard) {
    MutexLock lock(mutex_);
    ended_[shard] = true;
    for (; next_ < parts_.size() && ended_[next_]; ++next_) {
      merged_.Merge(*parts_[next_]);
      parts_[next_] = nullptr;
    }
  }

  DatasetStatistics Take() {
    MutexLock lock(mutex_);
    return std::move(merged_);
  }

 private:
  std::vector<std::unique_ptr<DatasetStatistics>> parts_;
  Mutex mutex_;
  std::vector<bool> ended_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // the first shard that is not in merged_
  DatasetStatistics merged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<DatasetStatistics> CollectStatistics(const ShardSet& set,
                                                    const ScanOptions& options) {
  MergedInOrder merged(set.paths.size());
  ScanOptions scanning = options;
  scanning.on_end = [&](size_t shard) { merged.End(shard); };
  absl::Status status = ScanDataset(set, scanning, [&](size_t shard, const RecordBlock& block) {
    DatasetStatistics& statistics = merged.Of(shard);
    for (const Record& record : block.records) statistics.Add(record).IgnoreError();
    return absl::OkStatus();
  });
  if (status.ok()) status = set.version.CheckUnchanged();
  if (!status.ok()) return status;
  return merged.Take();
}

}  // namespace shardfeed
