// One run of a chain.

#ifndef SHARDFEED_PIPELINE_ITERATOR_H_
#define SHARDFEED_PIPELINE_ITERATOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/data/batch.h"
#include "pipeline/plan/step.h"
#include "pipeline/stages/autotune.h"
#include "pipeline/stages/pipeline_state.h"
#include "pipeline/stages/reordered_rows.h"
#include "pipeline/stages/run_context.h"
#include "pipeline/stages/stage.h"
#include "pipeline/stages/trace.h"

namespace shardfeed {

struct RunOptions {
  // That work at a time on rows and batches, and at the most for each stage; 0: one for each
  // processor that the process may use, by its affinity and control group.
  int threads = 0;
  // Of these threads, those that are used: at least one.
  double cpu_share = 1;
  // What may be held ahead of the consumer. Half is for readers that have no budget of their own,
  // the rest for batches; what comes next is always worked on. 0: a quarter of the memory that is
  // free for the process, by its control group too, but from 128 MiB to 2 GiB.
  uint64_t budget_bytes = 0;
  // Finds how many threads of each stage work and how far it reads ahead: see StageTuner. The
  // decisions are in the statistics.
  bool autotune = true;
  // Stages that have these values for good: IteratorStats::tuning of a run before.
  std::vector<StageTuning> tuning;
  // Of what parallel stages and Batch write; other steps' memory is the process's.
  HostAllocator allocator;
  // false: batches come as they are ready; there is no state then.
  bool deterministic = true;
  // Delivers the first element over and over: what remains is the consumer's own time.
  bool headspace = false;
  // Gathers what each thread does when; to be written once the run is over.
  std::shared_ptr<Trace> trace;
  // The first epoch, which keys orders and random numbers. A chain that repeats its input E times
  // has the epochs from epoch * E on.
  uint64_t epoch = 0;
};

// What a budget_bytes of 0 stands for.
uint64_t DefaultBudgetBytes();

// What a stage of a run did.
struct StageStats {
  std::string name;
  int threads = 0;
  int workers = 0;          // threads that work
  uint64_t read_ahead = 0;  // batches that are begun ahead
  uint64_t batches = 0;
  uint64_t rows = 0;
  uint64_t bytes = 0;    // of its input
  uint64_t invalid = 0;  // rows that could not be decoded and were replaced or zeroed
  double busy_seconds = 0;
  double wait_in_seconds = 0;
  double wait_out_seconds = 0;  // how long its consumer waited
  uint64_t ready = 0;
  uint64_t ahead = 0;
  uint64_t ahead_bytes = 0;
  uint64_t peak_bytes = 0;
};

struct IteratorStats {
  double seconds = 0;
  uint64_t elements = 0;
  uint64_t rows = 0;
  uint64_t damaged = 0;  // rows that Batch::damaged told of
  // Rows that IgnoreErrors has left out, also ahead of the consumer; and what was wrong with them,
  // of the first hundred.
  uint64_t ignored = 0;
  std::vector<std::string> first_ignored;
  double wait_seconds = 0;         // of Next
  std::vector<StageStats> stages;  // from the source to the consumer
  std::vector<StageTuning> tuning;
  // What autotune changed, when, and why: "1.5 s: parse+batch: 2 -> 1 threads: the consumer does
  // not wait, and 0.3 of 2 are busy". The last hundred.
  std::vector<std::string> decisions;
  std::string limit;  // see Verdict
  // What limits, and what to do: "parse limits: 97 % of its 2 threads' time ...".
  std::string verdict;
};

// One run of a dataset, from Dataset::Start. One thread at a time calls Next, Await, StateDict and
// LoadStateDict; Cancel and stats may be called from any. May be destroyed at any time.
//
// In a child after fork, Next goes on from the same place with threads of the child's own, for
// which the run must be deterministic. The parent's goes on as well.
class Iterator {
 public:
  // InvalidArgument: an option that makes no sense. Others as what the chain's sources say.
  static absl::StatusOr<std::unique_ptr<Iterator>> Start(StepPtr recipe, const RunOptions& options);
  ~Iterator();

  // The next element, a batch or a row; one without rows at the end. After an error each further
  // call returns it again. Cancelled: Cancel was called.
  absl::Status Next(Batch* out);
  // The next element and, where elements are rows, those that stand ready behind it; none at the
  // end. They are not delivered before Advance says so, and until then come again.
  absl::Status Peek(Batch* out);
  // Delivers so many of the elements that Peek gave.
  void Advance(size_t elements);
  // Waits until Next and Peek need not wait: for elements, the end or an error. False: not within
  // `most`. Nothing, and at once: the chain's last step cannot tell.
  std::optional<bool> Await(std::chrono::nanoseconds most);
  const RowSpec& spec() const { return *recipe_->spec; }
  bool batched() const { return recipe_->batched; }
  // The epoch that the run began with, or the run whose state was loaded.
  uint64_t epoch() const { return options_.epoch; }

  // Where the iterator stands, in elements delivered: a JSON document, mostly of some hundred
  // bytes. Waits for the indexes of shards. FailedPrecondition: the run is not deterministic. Of
  // chains whose ranks advance unevenly, MergeStates makes one of those of all ranks.
  absl::StatusOr<std::string> StateDict() const;
  // Whether StateDict would not wait.
  bool StateAtHand() const;
  // Goes to a saved place. FailedPrecondition: the state is of another chain or other data.
  absl::Status LoadStateDict(std::string_view state);

  void Cancel();
  IteratorStats stats() const;

 private:
  Iterator(StepPtr recipe, RunOptions options);
  absl::Status Open();
  absl::StatusOr<std::shared_ptr<RunContext>> MakeContext() const;
  // In a child after fork.
  bool Forked() const;
  void Abandon();
  absl::Status OpenAgain();
  // The recipe's fingerprint, as states have it.
  absl::StatusOr<std::string> Chain() const;
  // Counts a wait of the consumer, which is over now, for so many rows; gives the time.
  uint64_t EndWait(uint64_t start_ns, size_t rows);
  void NoteDelivered(const Batch& batch, size_t row);
  // Makes `work` ask the queue, with what Next and Peek have in common.
  absl::Status Ask(Batch* out, absl::Status (*work)(ElementQueue&, Batch*));

  const StepPtr recipe_;  // whose steps are keys in context_
  RunOptions options_;
  std::shared_ptr<RunContext> context_;
  std::unique_ptr<Autotuner> tuner_;
  std::unique_ptr<ElementQueue> queue_;  // null where Load has failed, as error_ says
  uint64_t forks_ = 0;
  mutable std::string chain_;  // once it was asked for
  // Where the run began, if not at the beginning of its epoch.
  std::optional<MergedPlace> merged_;
  bool notes_delivered_ = false;
  // Where they are noted: what was delivered before the run or Load, and the last row since.
  std::optional<Delivered> delivered_;
  std::optional<LastRow> last_row_;
  Batch repeated_;
  absl::Status error_;
  std::atomic<uint64_t> elements_ = 0;
  std::atomic<uint64_t> rows_ = 0;
  std::atomic<uint64_t> damaged_ = 0;
  std::atomic<uint64_t> wait_ns_ = 0;
  uint64_t start_ns_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ITERATOR_H_
