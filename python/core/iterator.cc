#include "python/core/iterator.h"

#include <deque>
#include <optional>
#include <set>
#include <stop_token>
#include <utility>

#include "base/mutex.h"
#include "base/work_stop.h"
#include "io/thread.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/vector.h"
#include "net/transfers.h"
#include "python/core/errors.h"
#include "python/core/gil.h"
#include "python/core/shared_object.h"
#include "python/core/turn.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

// Number of elements to find ahead of the consumer if they are small: switching threads for each of
// them would take as long as making it.
constexpr size_t kElementsAhead = 4;
constexpr uint64_t kSmallBytes = 1 << 20;
constexpr size_t kShortState = 1024;
// After this many larger elements without a request for a state, the next element is found ahead.
constexpr uint64_t kStatesApart = 8;

// Guarded by the GIL, which fork holds too, or by `mutex` in a free-threaded interpreter.
struct OpenIterators {
  nb::ft_mutex mutex;
  std::set<PyIterator*> all;
};

OpenIterators& Open() {
  static auto* open = new OpenIterators();
  return *open;
}

}  // namespace

// An element that the run has delivered.
struct PyIterator::Element {
  Batch batch;          // empty at the end
  bool found = false;   // whether the run's thread found an element
  bool passed = false;  // whether the iterator has advanced past it
  std::string state;    // state after the element; empty if there are no states
};

// The iterator and the thread that calls it.
struct PyIterator::Run {
  explicit Run(std::unique_ptr<Iterator> it) : iterator(std::move(it)) {}

  void Work() {
    const WorkStop wanted(stop.get_token());
    MutexLock lock(mutex);
    while (true) {
      changed.Wait(lock,
                   [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return stopping || work; });
      if (stopping) {
        status = absl::CancelledError("the iterator was closed");
        busy = false;
        changed.NotifyAll();
        return;
      }
      const std::function<absl::Status(Iterator&)> now = std::move(work);
      work = nullptr;
      lock.Unlock();
      absl::Status result = CatchAll([&] { return now(*iterator); });
      lock.Lock();
      status = std::move(result);
      busy = false;
      // Notify without the mutex, so that the woken thread does not block on it.
      lock.Unlock();
      changed.NotifyAll();
      lock.Lock();
    }
  }

  // Finds elements until enough are ahead.
  absl::Status Fill(Iterator& it) {
    while (true) {
      Element next;
      if (absl::Status status = it.Peek(&next.batch); !status.ok()) return status;
      next.found = true;
      if (next.batch.empty()) {
        MutexLock lock(mutex);
        ended = true;
        return absl::OkStatus();
      }
      passes = passes && next.batch.batched && next.batch.bytes() <= kSmallBytes;
      // Making a state would wait for indexes that are being built.
      next.passed = passes && it.StateAtHand();
      if (next.passed) {
        it.Advance(1);
        if (absl::StatusOr<std::string> state = it.StateDict(); state.ok()) {
          passes = state->size() <= kShortState;
          next.state = *std::move(state);
        }
      }
      const bool more = next.passed && passes;
      {
        MutexLock lock(mutex);
        elements.push_back(std::move(next));
        if (!more || stopping || elements.size() >= kElementsAhead) return absl::OkStatus();
      }
      changed.NotifyAll();
    }
  }

  std::unique_ptr<Iterator> iterator;
  std::timed_mutex
      use;  // held by the thread that is in a call; guards `iterator`, which Close destroys
  // For the run's thread: whether elements and their states are small. Once they are not, the
  // iterator stays at each element until it has been delivered.
  bool passes = true;

  Mutex mutex;
  std::deque<Element> elements ABSL_GUARDED_BY(mutex);  // elements found ahead
  bool ended ABSL_GUARDED_BY(mutex) = false;            // whether no elements follow
  CondVar changed;
  std::function<absl::Status(Iterator&)> work ABSL_GUARDED_BY(mutex);
  bool busy ABSL_GUARDED_BY(mutex) = false;  // whether work is pending or running
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  absl::Status status ABSL_GUARDED_BY(mutex);  // status of the finished work
  std::stop_source stop;                       // stops the thread
  std::thread thread;
};

PyIterator::PyIterator(std::unique_ptr<Iterator> run, ElementForm form)
    : run_(std::make_shared<Run>(std::move(run))), form_(form) {
  nb::ft_lock_guard guard(Open().mutex);
  Open().all.insert(this);
}

PyIterator::~PyIterator() { Close(); }

void PyIterator::CheckOpen() const {
  if (forked_) {
    throw std::runtime_error(
        "this iterator was made before a fork, and its threads do not exist in this process; make "
        "one here: iter(dataset)");
  }
  if (closed_) RaiseClosed();
}

void PyIterator::CheckCall(const absl::Status& status) const {
  if (!status.ok()) CheckOpen();
  Check(status);
}

void PyIterator::Settle() {
  {
    // No thread holds this mutex for long, or waits for the GIL while it holds it.
    MutexLock lock(run_->mutex);
    if (!run_->busy) return;
  }
  while (true) {
    {
      const GilRelease release;
      MutexLock lock(run_->mutex);
      if (run_->changed.WaitFor(
              lock, kSignalInterval,
              [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(run_->mutex) { return !run_->busy; }))
        return;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void PyIterator::Begin(std::function<absl::Status(Iterator&)> work) {
  {
    MutexLock lock(run_->mutex);
    if (run_->stopping) {
      // Another thread has closed the iterator and waited for the run's thread.
      run_->status = absl::CancelledError("the iterator was closed");
      return;
    }
    if (!run_->thread.joinable()) {
      absl::StatusOr<std::thread> thread = StartThread([run = run_.get()] { run->Work(); });
      if (!thread.ok()) {
        run_->status = thread.status();
        return;
      }
      run_->thread = *std::move(thread);
    }
    run_->work = std::move(work);
    run_->busy = true;
  }
  run_->changed.NotifyAll();
}

void PyIterator::Ask() {
  // The run may advance, and a signal may end this call, before the first element is delivered.
  bool none_found = false;
  {
    MutexLock lock(run_->mutex);
    none_found = run_->elements.empty();
  }
  if (state_.empty() && run_->passes && none_found && run_->iterator->StateAtHand()) {
    if (absl::StatusOr<std::string> state = run_->iterator->StateDict(); state.ok()) {
      state_ = *std::move(state);
    }
  }
  Begin([run = run_.get()](Iterator& it) { return run->Fill(it); });
}

void PyIterator::AskAhead() {
  {
    MutexLock lock(run_->mutex);
    const size_t found = run_->elements.size();
    if (run_->busy || run_->ended || !run_->status.ok() || found > kElementsAhead / 2 ||
        (found > 0 && !run_->elements.back().passed)) {
      return;
    }
  }
  Ask();
}

PyIterator::Element PyIterator::TakeHere() {
  Element element;
  CheckCall(run_->iterator->Peek(&element.batch));
  return element;
}

PyIterator::Element PyIterator::Take() {
  while (true) {
    absl::Status status;
    bool busy = false;
    {
      MutexLock lock(run_->mutex);
      if (!run_->elements.empty()) {
        Element element = std::move(run_->elements.front());
        run_->elements.pop_front();
        return element;
      }
      busy = run_->busy;
      if (!busy) {
        if (run_->ended) return Element();
        status = std::exchange(run_->status, absl::OkStatus());
      }
    }
    CheckCall(status);
    if (busy) {
      const GilRelease release;
      MutexLock lock(run_->mutex);
      run_->changed.WaitFor(lock, kSignalInterval,
                            [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(run_->mutex) {
                              return !run_->busy || !run_->elements.empty();
                            });
    } else {
      std::optional<bool> there = run_->iterator->Await(std::chrono::nanoseconds(0));
      if (there == false) {
        const GilRelease release;
        there = run_->iterator->Await(kSignalInterval);
      }
      if (there == true) return TakeHere();
      asks_ = !there.has_value();
      if (asks_) Ask();
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

// A caller that a signal interrupts after this call has returned never sees its result. So do
// everything that takes time first, and then check for signals, before the element is delivered.
nb::object PyIterator::Finished(nb::object element, nb::handle convert) {
  if (convert.is_valid()) element = nb::borrow(convert)(element);
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  return element;
}

nb::object PyIterator::Next(nb::handle convert) {
  CheckOpen();
  const std::shared_ptr<Run> run = run_;
  const Turn turn(run->use);
  CheckOpen();
  DropObjects();
  if (at_ == num_rows_) {
    Element element = Take();
    if (element.batch.empty()) return nb::object();
    if (element.batch.batched || form_.blocks) return NextBatch(std::move(element), convert);
    num_rows_ = element.batch.rows;
    num_real_ = num_rows_ - element.batch.padded;
    damaged_rows_ = element.batch.damaged;
    at_ = 0;
    rows_ = RowViews(std::make_shared<const Batch>(std::move(element.batch)), form_.bare,
                     form_.writable);
  }
  nb::object row = Finished(rows_.Row(at_), convert);
  CheckOpen();
  padded_ = at_ >= num_real_;
  last_damaged_.clear();
  if (std::binary_search(damaged_rows_.begin(), damaged_rows_.end(), at_)) {
    last_damaged_.push_back(0);
  }
  ++at_;
  state_.clear();
  run->iterator->Advance(1);
  return row;
}

nb::object PyIterator::NextBatch(Element element, nb::handle convert) {
  const Batch& batch = element.batch;
  nb::object object;
  try {
    object = Finished(BatchToPython(batch, form_.bare, form_.writable), convert);
    CheckOpen();
  } catch (...) {
    if (element.found) {
      MutexLock lock(run_->mutex);
      run_->elements.push_front(std::move(element));
    }
    throw;
  }
  state_ = std::move(element.state);
  padded_ = batch.padded;
  last_damaged_ = batch.damaged;
  if (!element.passed) run_->iterator->Advance(batch.num_elements());
  if (batch.batched) {
    ++elements_;
    damaged_ += batch.damaged.size();
    batch_rows_ += batch.rows;
  }
  // A consumer that requests a state after each element would wait for the next one there.
  if (asks_ && (element.passed || ++elements_since_state_ > kStatesApart)) AskAhead();
  return object;
}

std::string PyIterator::State() {
  CheckOpen();
  const std::shared_ptr<Run> run = run_;
  const Turn turn(run->use);
  CheckOpen();
  if (!state_.empty()) return state_;
  elements_since_state_ = 0;
  Settle();
  absl::StatusOr<std::string> state;
  {
    const GilRelease release;  // it may wait for a store
    state = run->iterator->StateDict();
  }
  CheckCall(state.status());
  return *std::move(state);
}

void PyIterator::Load(const std::string& state) {
  CheckOpen();
  const std::shared_ptr<Run> run = run_;
  const Turn turn(run->use);
  CheckOpen();
  Settle();
  rows_ = RowViews();
  num_rows_ = at_ = 0;
  padded_ = 0;
  last_damaged_.clear();
  state_.clear();
  Begin([run = run.get(), state](Iterator& it) {
    {
      MutexLock lock(run->mutex);
      run->elements.clear();
      run->ended = false;
    }
    return it.LoadStateDict(state);
  });
  Settle();
  MutexLock lock(run->mutex);
  const absl::Status status = run->status;
  lock.Unlock();
  CheckCall(status);
}

uint64_t PyIterator::Epoch() {
  CheckOpen();
  const std::shared_ptr<Run> run = run_;
  const Turn turn(run->use);
  CheckOpen();
  return run->iterator->epoch();
}

nb::dict StatsToPython(const IteratorStats& stats) {
  nb::list stages;
  for (const StageStats& s : stats.stages) {
    nb::dict stage;
    stage["name"] = s.name;
    stage["threads"] = s.threads;
    stage["workers"] = s.workers;
    stage["read_ahead"] = s.read_ahead;
    stage["batches"] = s.batches;
    stage["rows"] = s.rows;
    stage["bytes"] = s.bytes;
    stage["invalid"] = s.invalid;
    stage["busy_seconds"] = s.busy_seconds;
    stage["wait_in_seconds"] = s.wait_in_seconds;
    stage["wait_out_seconds"] = s.wait_out_seconds;
    stage["ready"] = s.ready;
    stage["ahead"] = s.ahead;
    stage["ahead_bytes"] = s.ahead_bytes;
    stage["peak_bytes"] = s.peak_bytes;
    stages.append(std::move(stage));
  }
  nb::dict all;
  all["seconds"] = stats.seconds;
  all["elements"] = stats.elements;
  all["rows"] = stats.rows;
  all["damaged"] = stats.damaged;
  all["dropped_damaged"] = stats.dropped_damaged;
  all["ignored"] = stats.ignored;
  all["first_ignored"] = stats.first_ignored;
  all["wait_seconds"] = stats.wait_seconds;
  all["stages"] = std::move(stages);
  nb::list tuning;
  for (const StageTuning& t : stats.tuning) {
    nb::dict stage;
    stage["stage"] = t.stage;
    stage["workers"] = t.workers;
    stage["read_ahead"] = t.read_ahead;
    tuning.append(std::move(stage));
  }
  all["tuning"] = std::move(tuning);
  all["decisions"] = stats.decisions;
  all["limit"] = stats.limit;
  all["verdict"] = stats.verdict;
  if (const TransferStats transfers = GetTransferStats(); transfers.bytes_wanted > 0) {
    nb::dict store;
    store["requests"] = transfers.requests;
    store["retries"] = transfers.retries;
    store["throttled"] = transfers.throttled;
    store["hedges"] = transfers.hedges;
    store["hedges_won"] = transfers.hedges_won;
    store["bytes_wanted"] = transfers.bytes_wanted;
    store["bytes_moved"] = transfers.bytes_moved;
    all["store"] = std::move(store);
  }
  return all;
}

nb::dict PyIterator::Stats() {
  CheckOpen();
  // While this thread holds the GIL, Close cannot run; nothing here waits for the GIL.
  IteratorStats stats = run_->iterator->stats();
  if (elements_ > 0) {  // do not count elements found ahead
    stats.elements = elements_;
    stats.rows = batch_rows_;
    stats.damaged = damaged_ + stats.dropped_damaged;
  }
  return StatsToPython(stats);
}

void PyIterator::Close() {
  if (forked_ || closed_.exchange(true)) return;
  auto change = std::make_shared<const IteratorChange>(/*makes=*/false);
  {
    nb::ft_lock_guard guard(Open().mutex);
    Open().all.erase(this);
  }
  rows_ = RowViews();
  num_rows_ = at_ = 0;
  // Once the GIL is released, another thread may drop this iterator.
  const auto end = [run = run_, change = std::move(change)] {
    run->iterator->Cancel();
    run->stop.request_stop();
    {
      MutexLock lock(run->mutex);
      run->stopping = true;
      run->changed.NotifyAll();
    }
    if (run->thread.joinable()) run->thread.join();
    // A call of another thread returns now, with an error.
    std::lock_guard<std::timed_mutex> turn(run->use);
    run->iterator.reset();
    MutexLock lock(run->mutex);
    run->elements.clear();
  };
  if (FunctionCall::Inside()) {
    // The thread may be one of this run, which would wait for itself: Python's garbage collector
    // drops objects on any thread. If no thread can be started, the run is leaked.
    absl::StatusOr<std::thread> ending = StartThread(end);
    if (ending.ok()) {
      ending->detach();
    } else {
      new std::shared_ptr<Run>(run_);
    }
  } else {
    // Python functions of this run need the GIL to finish.
    const GilRelease release;
    end();
  }
  DropObjects();
}

void PyIterator::CloseAll() {
  while (true) {
    PyIterator* iterator = nullptr;
    {
      nb::ft_lock_guard guard(Open().mutex);
      if (Open().all.empty()) return;
      iterator = *Open().all.begin();
    }
    iterator->Close();
  }
}

void PyIterator::AfterFork() {
  for (PyIterator* iterator : Open().all) {
    iterator->forked_ = true;
    // Leaked, since the destructors would wait for threads that do not exist in the child.
    new std::shared_ptr<Run>(std::move(iterator->run_));
    new RowViews(std::move(iterator->rows_));
  }
  Open().all.clear();
}

}  // namespace shardfeed::python
