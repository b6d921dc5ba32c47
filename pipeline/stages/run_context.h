// What the stages of one run share.

#ifndef SHARDFEED_PIPELINE_STAGES_RUN_CONTEXT_H_
#define SHARDFEED_PIPELINE_STAGES_RUN_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "pipeline/stages/pipeline_state.h"
#include "reader/plan/mix_past.h"
#include "shard/schema/skipped_records.h"
#include "shardfeed/batch.h"
#include "shardfeed/iterator.h"

namespace shardfeed {

// What a stage has done so far. Written by the stage, read by any thread.
struct StageCounters {
  std::string name;
  std::atomic<uint64_t> batches = 0;
  std::atomic<uint64_t> rows = 0;
  std::atomic<uint64_t> bytes = 0;
  std::atomic<uint64_t> invalid = 0;      // rows marked as invalid: see RowStep::valid_output
  std::atomic<uint64_t> busy_ns = 0;      // busy time of all threads
  std::atomic<uint64_t> wait_in_ns = 0;   // time spent waiting for the input
  std::atomic<uint64_t> wait_out_ns = 0;  // time that the consumer waited for this stage
  std::atomic<uint64_t> ready = 0;        // batches that are finished and wait for the consumer
  std::atomic<uint64_t> ahead = 0;        // batches begun and not yet delivered
  std::atomic<uint64_t> ahead_bytes = 0;  // bytes of the elements ahead
  std::atomic<uint64_t> peak_bytes = 0;
  int threads = 0;  // threads of the stage
  // How many of these are in use, and how many batches to begin ahead of the consumer.
  std::atomic<int> workers = 0;
  std::atomic<uint64_t> read_ahead = 0;
  bool tunable = false;  // whether another thread may change workers and read_ahead
  bool reads = false;    // whether the stage is a reader
};

// Limits how many threads work at a time, because the stages of a run share the processors.
// Thread-safe.
class WorkGate {
 public:
  void SetLimit(int limit) { limit_ = limit; }
  void Enter() {
    MutexLock lock(mutex_);
    room_.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return inside_ < limit_; });
    ++inside_;
  }
  void Leave() {
    {
      MutexLock lock(mutex_);
      --inside_;
    }
    room_.NotifyOne();
  }

 private:
  int limit_ = 1;
  Mutex mutex_;
  CondVar room_;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
};

struct RunContext {
  int threads = 1;
  bool deterministic = true;
  // Bytes of batches ahead of their consumers, in all parallel stages. Beyond the budget, each
  // stage still works on its next batch.
  uint64_t budget_bytes = 256 << 20;
  std::atomic<uint64_t> ahead_bytes = 0;
  // For each reader that has no budget of its own.
  uint64_t reader_budget_bytes = 0;
  WorkGate gate;
  bool autotune = true;
  std::vector<StageTuning> tuning;  // fixed settings of stages that are not tuned
  HostAllocator allocator;
  // After a stop request, waiting ends with Cancelled.
  std::stop_source stop;
  // The numbers of the chain's sources, by the address of their step.
  std::map<const void*, uint32_t> sources;
  std::shared_ptr<Trace> trace;  // may be null
  // Rows that steps have dropped because their records were damaged.
  std::atomic<uint64_t> dropped_damaged = 0;
  // Where the run begins, if not at the beginning of its epoch.
  std::optional<MergedPlace> merged;

  // The functions are thread-safe, because new stages are made for each epoch while others run.

  // Sets the function that names the records of a source by position: "data-00001-of-00010: record
  // 17 at byte 4242". Replaces an earlier one.
  void SetDescriber(uint32_t source,
                    std::function<std::string(uint64_t epoch, uint64_t position)> f);
  // What the rows of the chain's mixture depend on; nullopt until it is known. Of several mixtures,
  // one is known.
  void SetPast(MixPast past);
  std::optional<MixPast> past() const;
  // The prefix of a message about the row: the name that its source gives it and ": "; "element 3
  // of epoch 1: " if the source gives none; "" if nothing is known about the row.
  std::string Prefix(const Batch& batch, size_t row) const;

  // The counters of the step `key`, which are the same in each epoch. `start` is called with new
  // ones; the counters of another step of the same name are named "NAME 2".
  std::shared_ptr<StageCounters> Counters(const void* key, const std::string& name,
                                          const std::function<void(StageCounters&)>& start);
  std::vector<std::shared_ptr<StageCounters>> AllCounters() const;

  // Counts a row that failed and was dropped.
  void AddIgnored(std::string what);
  SkippedRecords Ignored() const;

  // What the tuner changed and why; only the last hundred changes are kept.
  void AddDecision(std::string text);
  std::vector<std::string> Decisions() const;

  // What the step `key` keeps between epochs, one of each type; made by the first call.
  template <typename T>
  std::shared_ptr<T> Kept(const void* key) {
    MutexLock lock(mutex_);
    std::shared_ptr<void>& kept = kept_[{key, typeid(T)}];
    if (kept == nullptr) kept = std::make_shared<T>();
    return std::static_pointer_cast<T>(kept);
  }

 private:
  mutable Mutex mutex_;
  std::map<uint32_t, std::function<std::string(uint64_t, uint64_t)>> describe_
      ABSL_GUARDED_BY(mutex_);
  std::optional<MixPast> past_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<const void*, std::shared_ptr<StageCounters>>> counters_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<const void*, std::type_index>, std::shared_ptr<void>> kept_
      ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> decisions_ ABSL_GUARDED_BY(mutex_);
  SkippedRecords ignored_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_RUN_CONTEXT_H_
