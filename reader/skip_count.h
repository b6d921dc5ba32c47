// How many damaged records a run has skipped, and how many it may.
//
// Not thread safe.

#ifndef SHARDFEED_READER_SKIP_COUNT_H_
#define SHARDFEED_READER_SKIP_COUNT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "shardfeed/reader.h"

namespace shardfeed {

class SkipCount {
 public:
  // Of epochs of `epoch_records` records each.
  SkipCount(const ReaderOptions& options, uint64_t epoch_records);

  // Counts a record of `epoch`, in the order of the run, and tells options.on_skip. DataLoss: it
  // must not be skipped, or is one too many of its epoch.
  absl::Status Add(uint64_t epoch, const DamagedRecord& damaged);
  uint64_t count() const { return count_; }

 private:
  const bool may_skip_;
  const uint64_t max_skipped_;  // limit per epoch
  const uint64_t epoch_records_;
  const std::function<void(const DamagedRecord&)> on_skip_;
  uint64_t count_ = 0;
  uint64_t epoch_ = 0;
  uint64_t in_epoch_ = 0;
  std::string first_;  // first error of the epoch
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_SKIP_COUNT_H_
