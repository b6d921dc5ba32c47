// How many of a stage's threads work, and how far it reads ahead: as few and as little as serve the
// consumer.

#ifndef SHARDFEED_PIPELINE_STAGES_AUTOTUNE_H_
#define SHARDFEED_PIPELINE_STAGES_AUTOTUNE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/stages/run_context.h"

namespace shardfeed {

// What a stage did during a while.
struct StageSample {
  double busy = 0;           // threads at work, on average
  double consumer_wait = 0;  // share of the time that the run's consumer waited
  double stage_wait = 0;     // share that the stage's own consumer waited for it
  double input_wait = 0;     // share that the stage waited for its input
};

// Decides for one stage. Not thread safe.
//
//   - The consumer waits, and so does the stage's: if all working threads are busy, more of them
//     work. If they are not, and the input is there, batches take longer now and then than the ones
//     ahead last: it reads further ahead.
//   - The consumer does not wait: threads that the work could do without rest, one after another.
//     A number that was not enough is not tried again for some minutes.
class StageTuner {
 public:
  StageTuner(StageTuning start, int max_workers, uint64_t max_read_ahead)
      : tuning_(std::move(start)), max_workers_(max_workers), max_read_ahead_(max_read_ahead) {}

  const StageTuning& tuning() const { return tuning_; }
  // What was changed and why; "" when nothing was.
  std::string Observe(const StageSample& sample);

 private:
  StageTuning tuning_;
  const int max_workers_;
  const uint64_t max_read_ahead_;
  int least_workers_ = 1;
  int least_for_ = 0;  // number of samples for which least_workers_ holds
};

// Looks at the stages of a run now and then. One thread at a time.
class Autotuner {
 public:
  // The context must outlive it.
  explicit Autotuner(RunContext* context) : context_(context) {}

  // Called by the consumer for each element, which has waited for `wait_ns` in all; does something
  // four times a second at the most, and after some batches at the least.
  void Look(uint64_t now_ns, uint64_t wait_ns);

 private:
  struct Watched {
    std::shared_ptr<StageCounters> counters;
    StageTuner tuner;
    // As they were when it was looked at last.
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
