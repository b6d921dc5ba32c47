// One run of a dataset: its options, its batches, its state and its statistics.

#ifndef SHARDFEED_ITERATOR_H_
#define SHARDFEED_ITERATOR_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardfeed/batch.h"

namespace shardfeed {

struct Step;

// How many threads of a stage work, and how many batches it begins ahead of its consumer. The stage
// is identified by its name in the statistics.
struct StageTuning {
  std::string stage;
  int workers = 0;
  uint64_t read_ahead = 0;
};

// Records what each thread of a run does at what time, and writes a file for Perfetto or
// chrome://tracing. Keeps the first million events. Thread-safe. Times are those of
// std::chrono::steady_clock.
class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Adds what the calling thread did.
  void Add(const std::string& name, uint64_t begin_ns, uint64_t end_ns, uint64_t rows);
  // Adds how many batches a stage has begun, from `at_ns` on.
  void AddLevel(const std::string& name, uint64_t at_ns, uint64_t batches);

  // Writes all events in Chrome's Trace Event Format (JSON). Thread-safe. Errors: the file cannot
  // be created or written, with the system's reason (NotFound, PermissionDenied ...).
  absl::Status Write(const std::string& path) const;

 private:
  class Events;
  const std::unique_ptr<Events> events_;
};

struct RunOptions {
  // Maximum number of worker threads, of the run and of each stage; 0: one for each processor that
  // the process may use, by its affinity and control group.
  int threads = 0;
  // The fraction of these threads that is used, at least one thread.
  double cpu_share = 1;
  // Maximum number of bytes held ahead of the consumer. Half is for readers without a budget of
  // their own, the rest for batches. The next element is always worked on, whatever the budget. 0:
  // a quarter of the memory available to the process and its control group, between 128 MiB and 2
  // GiB.
  uint64_t budget_bytes = 0;
  // Whether to adjust during the run how many threads of each stage work, and how far it reads
  // ahead. The decisions are in the statistics.
  bool autotune = true;
  // Fixed values for these stages, such as IteratorStats::tuning of an earlier run.
  std::vector<StageTuning> tuning;
  // Allocates the batches that parallel stages and Batch write; if empty, they are in ordinary
  // memory.
  HostAllocator allocator;
  // Whether elements keep their order. Otherwise they are delivered as they become ready, and the
  // run has no state.
  bool deterministic = true;
  // Delivers the first element repeatedly, which shows how fast the consumer alone is.
  bool headspace = false;
  // Records what each thread does at what time; call Trace::Write when the run has ended.
  std::shared_ptr<Trace> trace;
  // Writes a file to this folder whenever Next has waited for starved_seconds: what the run did in
  // the last minute, as docs/monitoring.md describes. Start creates the folder. Empty: writes none.
  std::string flight_recorder;
  double starved_seconds = 30;
  // The first epoch, which determines orders and random numbers. A chain that repeats its input E
  // times has the epochs from epoch * E on.
  uint64_t epoch = 0;
};

// The value that budget_bytes = 0 stands for.
uint64_t DefaultBudgetBytes();

// What a stage of a run did.
struct StageStats {
  std::string name;
  bool reads = false;  // whether it reads shards
  int threads = 0;
  int workers = 0;          // threads in use
  uint64_t read_ahead = 0;  // batches begun ahead of the consumer
  uint64_t batches = 0;
  uint64_t rows = 0;
  uint64_t bytes = 0;    // bytes of its input
  uint64_t invalid = 0;  // rows that could not be decoded and were replaced or zeroed
  double busy_seconds = 0;
  double wait_in_seconds = 0;
  double wait_out_seconds = 0;  // time that its consumer waited
  uint64_t ready = 0;
  uint64_t ahead = 0;
  uint64_t ahead_bytes = 0;
  uint64_t peak_bytes = 0;
};

struct IteratorStats {
  double seconds = 0;
  uint64_t elements = 0;
  uint64_t rows = 0;
  // Rows of damaged records: those in Batch::damaged, and those that were dropped.
  uint64_t damaged = 0;
  // Those of `damaged` that a step (such as Filter) has dropped, including those ahead of the
  // consumer.
  uint64_t dropped_damaged = 0;
  // Rows that IgnoreErrors has dropped, including those ahead of the consumer, and the errors of
  // the first hundred.
  uint64_t ignored = 0;
  std::vector<std::string> first_ignored;
  double wait_seconds = 0;         // time that Next waited, and waits at present
  std::vector<StageStats> stages;  // stages in order from the source to the consumer
  std::vector<StageTuning> tuning;
  // The last hundred changes made by autotune, with time and reason: "1.5 s: parse+batch: 2 -> 1
  // threads: the consumer does not wait, and 0.3 of 2 are busy".
  std::vector<std::string> decisions;
  // The bottleneck: "the consumer", "reading", the name of a stage, "the input of STAGE", or
  // "nothing".
  std::string limit;
  // The bottleneck and what to do about it: "parse limits: 97 % of its 2 threads' time ...".
  std::string verdict;
};

// One run of a dataset, from Dataset::Start. Next, Peek, Advance, Await, StateDict and
// LoadStateDict must be called by one thread at a time; Cancel and stats may be called from any
// thread. An iterator may be destroyed at any time.
//
// In a child process after fork, Next continues from the same place with threads of its own,
// provided that the run is deterministic. The parent's iterator continues as well.
class Iterator {
 public:
  ~Iterator();
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;

  // Sets `*out` to the next element, a batch or a row, or to a batch without rows at the end. After
  // an error, every further call returns the same error. Cancelled: Cancel was called.
  absl::Status Next(Batch* out);
  // Sets `*out` to the next element and, if elements are rows, those after it that are ready; to no
  // rows at the end. The elements count as delivered only after Advance.
  absl::Status Peek(Batch* out);
  // Delivers the first `elements` elements that Peek returned.
  void Advance(size_t elements);
  // Waits until Next and Peek would not block: for elements, the end or an error. Returns false if
  // that takes longer than `most`, and nullopt immediately if the last step of the chain cannot
  // tell.
  std::optional<bool> Await(std::chrono::nanoseconds most);
  // The columns of the elements.
  const RowSpec& spec() const;
  // Whether the elements are batches.
  bool batched() const;
  // The first epoch of the run, or of the run whose state was loaded.
  uint64_t epoch() const;

  // The state after the elements delivered so far: a JSON document, usually of a few hundred bytes.
  // Waits for the indexes of shards. If the ranks of a chain advance unevenly, MergeStates combines
  // the states of all ranks. FailedPrecondition: the run is not deterministic.
  absl::StatusOr<std::string> StateDict() const;
  // Whether StateDict would return without waiting.
  bool StateAtHand() const;
  // Continues from a saved state. FailedPrecondition: the state is of another chain or other data.
  absl::Status LoadStateDict(std::string_view state);

  void Cancel();
  IteratorStats stats() const;

 private:
  friend class Dataset;
  class Run;
  explicit Iterator(std::unique_ptr<Run> run);
  // InvalidArgument: an option is out of range. Other errors are those of the dataset's sources.
  static absl::StatusOr<std::unique_ptr<Iterator>> Start(std::shared_ptr<const Step> recipe,
                                                         const RunOptions& options);

  const std::unique_ptr<Run> run_;
};

// Merges the states of all ranks of a run into one state from which any number of ranks can resume;
// what no rank has delivered comes next. The ranks may have delivered different numbers of
// elements, but of the same epoch.
//
// InvalidArgument: not states of iterators. FailedPrecondition: not the states of all ranks of one
// run, or of a chain with a step that cannot be merged; the message names it.
absl::StatusOr<std::string> MergeStates(const std::vector<std::string>& states);

}  // namespace shardfeed

#endif  // SHARDFEED_ITERATOR_H_
