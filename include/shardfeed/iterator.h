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

// How many threads of a stage work and how many batches it begins ahead of its consumer, by the
// stage's name in the statistics.
struct StageTuning {
  std::string stage;
  int workers = 0;
  uint64_t read_ahead = 0;
};

// Records what each thread of a run does when, as a file for Perfetto or chrome://tracing. Keeps
// the first million events. Thread-safe. Times are those of std::chrono::steady_clock.
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

  // Writes all events in Chrome's Trace Event Format (JSON).
  absl::Status Write(const std::string& path) const;

 private:
  class Events;
  const std::unique_ptr<Events> events_;
};

struct RunOptions {
  // Maximum number of worker threads, of the run and of each stage; 0: one for each processor that
  // the process may use, by its affinity and control group.
  int threads = 0;
  // The share of these threads that is used: at least one thread.
  double cpu_share = 1;
  // What may be held ahead of the consumer. Half is for readers that have no budget of their own,
  // the rest for batches; what comes next is always worked on. 0: a quarter of the memory that is
  // free for the process, by its control group too, but from 128 MiB to 2 GiB.
  uint64_t budget_bytes = 0;
  // Adjusts how many threads of each stage work and how far it reads ahead while the run goes on.
  // The decisions are in the statistics.
  bool autotune = true;
  // Fixed values for these stages: IteratorStats::tuning of an earlier run.
  std::vector<StageTuning> tuning;
  // Where batches are allocated that parallel stages and Batch write; empty: in ordinary memory.
  HostAllocator allocator;
  // false: batches come as they are ready; there is no state then.
  bool deterministic = true;
  // Delivers the first element over and over: what remains is the consumer's own time.
  bool headspace = false;
  // Records what each thread does when; call Trace::Write once the run is over.
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
  uint64_t bytes = 0;    // bytes of its input
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
  double wait_seconds = 0;         // time that Next waited
  std::vector<StageStats> stages;  // stages in order from the source to the consumer
  std::vector<StageTuning> tuning;
  // What autotune changed, when, and why: "1.5 s: parse+batch: 2 -> 1 threads: the consumer does
  // not wait, and 0.3 of 2 are busy". The last hundred.
  std::vector<std::string> decisions;
  // "the consumer", "reading", the name of a stage, "the input of STAGE", or "nothing".
  std::string limit;
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
  ~Iterator();
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;

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
  // The columns of its elements.
  const RowSpec& spec() const;
  // Whether its elements are batches.
  bool batched() const;
  // The epoch that the run began with, or the run whose state was loaded.
  uint64_t epoch() const;

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
  friend class Dataset;
  class Run;
  explicit Iterator(std::unique_ptr<Run> run);
  // InvalidArgument: an option is out of range. Other errors are those of the dataset's sources.
  static absl::StatusOr<std::unique_ptr<Iterator>> Start(std::shared_ptr<const Step> recipe,
                                                         const RunOptions& options);

  const std::unique_ptr<Run> run_;
};

// One state, good for any number of ranks, from those that all ranks of a run saved: what they have
// not delivered comes next. Ranks may have delivered unequal numbers of elements, though of one
// epoch.
//
// InvalidArgument: no states of iterators. FailedPrecondition: not those of all ranks of one run;
// or those of a chain with a step that holds rows back, or counts its rank's own.
absl::StatusOr<std::string> MergeStates(const std::vector<std::string>& states);

}  // namespace shardfeed

#endif  // SHARDFEED_ITERATOR_H_
