// Decides how many threads of a stage work and how far it reads ahead: no more than the consumer
// needs.

#ifndef SHARDFEED_PIPELINE_STAGES_AUTOTUNE_H_
#define SHARDFEED_PIPELINE_STAGES_AUTOTUNE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/stages/run_context.h"

namespace shardfeed {

// What a stage did during an interval.
struct StageSample {
  double busy = 0;           // threads at work, on average
  double consumer_wait = 0;  // share of the time that the run's consumer waited
  double stage_wait = 0;     // share that the stage's own consumer waited for it
  double input_wait = 0;     // share that the stage waited for its input
};

// Decides for one stage. Not thread-safe.
//
//   - If the consumer waits, also for this stage, and all of its threads in use are busy, more
// threads are used. If they are not busy, and input is available, some batches take longer than the
// ones ahead of them last: the stage reads further ahead.
//   - If the consumer does not wait, threads that the work does not need are set aside one by one.
// A number that was too small is not tried again for some minutes.
class StageTuner {
 public:
  StageTuner(StageTuning start, int max_workers, uint64_t max_read_ahead)
      : tuning_(std::move(start)), max_workers_(max_workers), max_read_ahead_(max_read_ahead) {}

  const StageTuning& tuning() const { return tuning_; }
  // What was changed and why; empty if nothing was.
  std::string Observe(const StageSample& sample);

 private:
  StageTuning tuning_;
  const int max_workers_;
  const uint64_t max_read_ahead_;
  int least_workers_ = 1;
  int least_for_ = 0;  // number of samples for which least_workers_ holds
};

// Observes the stages of a run from time to time. Called by one thread at a time.
class Autotuner {
 public:
  // The context must outlive it.
  explicit Autotuner(RunContext* context) : context_(context) {}

  // Called by the consumer for each element, with the time `wait_ns` that it has waited in all.
  // Acts at most four times a second, and only after some batches.
  void Look(uint64_t now_ns, uint64_t wait_ns);

 private:
  struct Watched {
    std::shared_ptr<StageCounters> counters;
    StageTuner tuner;
    // The counters at the last observation.
    uint64_t batches = 0;
    uint64_t busy_ns = 0;
    uint64_t wait_in_ns = 0;
    uint64_t wait_out_ns = 0;
  };

  RunContext* const context_;
  std::vector<Watched> stages_;
  uint64_t begin_ns_ = 0;
  uint64_t looked_ns_ = 0;
  uint64_t wait_ns_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_AUTOTUNE_H_
