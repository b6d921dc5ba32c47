// Counts the damaged records that a run has skipped, against the limit.
//
// Not thread-safe.

#ifndef SHARDFEED_READER_RUN_SKIP_COUNT_H_
#define SHARDFEED_READER_RUN_SKIP_COUNT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>

#include "absl/status/status.h"
#include "shardfeed/reader.h"

namespace shardfeed {

class SkipCount {
 public:
  // Each epoch has `epoch_records` records.
  SkipCount(const ReaderOptions& options, uint64_t epoch_records);

  // Counts a record of `epoch`, in the order of the run, and calls options.on_skip. A record that
  // an epoch delivers several times, since its parts go into several rows or the epoch is filled
  // up, counts once. DataLoss: it must not be skipped, or exceeds the limit of its epoch.
  absl::Status Add(uint64_t epoch, const DamagedRecord& damaged);
  uint64_t count() const { return count_; }

 private:
  const bool may_skip_;
  const uint64_t max_skipped_;  // limit per epoch
  const uint64_t epoch_records_;
  const std::function<void(const DamagedRecord&)> on_skip_;
  uint64_t count_ = 0;
  uint64_t epoch_ = 0;
  std::unordered_set<uint64_t> in_epoch_;  // records
  std::string first_;                      // first error of the epoch
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_RUN_SKIP_COUNT_H_
