// A selection of a dataset's records by their numbers.

#ifndef SHARDFEED_SHARD_RESHARD_RECORD_SELECTION_H_
#define SHARDFEED_SHARD_RESHARD_RECORD_SELECTION_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"

namespace shardfeed {

// Records [begin, end), numbered from 0 across all shards.
struct RecordRun {
  uint64_t begin;
  uint64_t end;

  friend bool operator==(const RecordRun&, const RecordRun&) = default;
};

// Immutable and thread-safe.
class RecordSelection {
 public:
  // Selects the runs in the given order; they may repeat records.
  static RecordSelection Runs(const std::vector<RecordRun>& runs);
  // Selects `count` of the records [0, total) uniformly at random, in ascending order. Takes a few
  // bytes of memory per 65,536 records, and time proportional to `total`.
  static RecordSelection Sample(uint64_t total, uint64_t count, uint64_t seed);

  uint64_t count() const { return count_; }

  // Calls `visit` with the records at the positions [begin, end) of the selection, in order and
  // with adjacent records combined; stops at its first error.
  absl::Status ForEachRun(uint64_t begin, uint64_t end,
                          const std::function<absl::Status(RecordRun run)>& visit) const;

 private:
  // Returns whether record `number` is in the sample, given that `chosen` records before it are.
  bool Chooses(uint64_t number, uint64_t chosen) const;

  uint64_t count_ = 0;
  // For Runs: the runs and their positions in the selection.
  std::vector<RecordRun> runs_;
  std::vector<uint64_t> places_;
  // For Sample: chosen_before_[i] is the number of records chosen before record i * kStep.
  bool is_sample_ = false;
  uint64_t total_ = 0;
  uint64_t seed_ = 0;
  std::vector<uint64_t> chosen_before_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_RESHARD_RECORD_SELECTION_H_
