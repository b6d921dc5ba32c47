// Some of a dataset's records, by their numbers.

#ifndef SHARDFEED_SHARD_RECORD_SELECTION_H_
#define SHARDFEED_SHARD_RECORD_SELECTION_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"

namespace shardfeed {

// Records [begin, end), numbered from 0 through all shards.
struct RecordRun {
  uint64_t begin;
  uint64_t end;

  friend bool operator==(const RecordRun&, const RecordRun&) = default;
};

// Immutable, thread safe.
class RecordSelection {
 public:
  // The runs in the order given; they may repeat records.
  static RecordSelection Runs(std::vector<RecordRun> runs);
  // `count` of the records [0, total), each set of them as likely as any other, in rising order.
  // Takes a few bytes for each 65,536 records, and a look at each of `total` numbers.
  static RecordSelection Sample(uint64_t total, uint64_t count, uint64_t seed);

  uint64_t count() const { return count_; }

  // Calls `visit` with the records at the places [begin, end) of the selection, in order,
  // neighbours together; stops at its first error.
  absl::Status ForEachRun(uint64_t begin, uint64_t end,
                          const std::function<absl::Status(RecordRun run)>& visit) const;

 private:
  // Whether record `number` is in the sample, when `chosen` before it are.
  bool Chooses(uint64_t number, uint64_t chosen) const;

  uint64_t count_ = 0;
  // Of runs: each, with its place.
  std::vector<RecordRun> runs_;
  std::vector<uint64_t> places_;
  // Of a sample: each kStep records, how many were chosen before.
  bool is_sample_ = false;
  uint64_t total_ = 0;
  uint64_t seed_ = 0;
  std::vector<uint64_t> chosen_before_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_RECORD_SELECTION_H_
