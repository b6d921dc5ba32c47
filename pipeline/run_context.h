// What the stages of one run share.

#ifndef SHARDFEED_PIPELINE_RUN_CONTEXT_H_
#define SHARDFEED_PIPELINE_RUN_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/batch.h"
#include "pipeline/trace.h"

namespace shardfeed {

// What a stage did so far. Written by the stage, read by anyone.
struct StageCounters {
  std::string name;
  std::atomic<uint64_t> batches = 0;
  std::atomic<uint64_t> rows = 0;
  std::atomic<uint64_t> bytes = 0;
  std::atomic<uint64_t> invalid = 0;      // rows marked as such: see RowStep::valid_output
  std::atomic<uint64_t> busy_ns = 0;      // of all threads
  std::atomic<uint64_t> wait_in_ns = 0;   // for its input
  std::atomic<uint64_t> wait_out_ns = 0;  // its consumer's, for it
  std::atomic<uint64_t> ready = 0;        // batches that are finished and wait for the consumer
  std::atomic<uint64_t> ahead = 0;        // batches begun and not yet delivered
  std::atomic<uint64_t> ahead_bytes = 0;  // what these take
  std::atomic<uint64_t> peak_bytes = 0;
  int threads = 0;  // of its own
};

struct RunContext {
  int threads = 1;
  bool deterministic = true;
  // For each parallel stage: bytes of batches ahead of its consumer, but always one.
  uint64_t budget_bytes = 256 << 20;
  HostAllocator allocator;
  // Once asked for, waiting ends with Cancelled.
  std::stop_source stop;
  // The numbers of the chain's sources, by what identifies their step.
  std::map<const void*, uint32_t> sources;
  std::shared_ptr<Trace> trace;  // may be null

  // The functions are thread safe: stages are made for each epoch anew, while others run.

  // Tells how the records of a source are named, by position: "data-00001-of-00010: record 17 at
  // byte 4242". In the place of what was told before.
  void SetDescriber(uint32_t source,
                    std::function<std::string(uint64_t epoch, uint64_t position)> f);
  // That of the row's source; "element 3 of epoch 1" where it has none, "" when nothing is known.
  std::string Describe(const Batch& batch, size_t row) const;

  // The counters of the step `key`, the same in each epoch.
  std::shared_ptr<StageCounters> Counters(const void* key, const std::string& name);
  std::vector<std::shared_ptr<StageCounters>> AllCounters() const;

  // What the step `key` keeps from one epoch to the next; made by the first call.
  template <typename T>
  std::shared_ptr<T> Kept(const void* key) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<void>& kept = kept_[key];
    if (kept == nullptr) kept = std::make_shared<T>();
    return std::static_pointer_cast<T>(kept);
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint32_t, std::function<std::string(uint64_t, uint64_t)>> describe_;
  std::vector<std::pair<const void*, std::shared_ptr<StageCounters>>> counters_;
  std::map<const void*, std::shared_ptr<void>> kept_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_RUN_CONTEXT_H_
