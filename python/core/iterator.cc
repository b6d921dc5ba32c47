#include "python/core/iterator.h"

#include <set>
#include <utility>

#include "nanobind/stl/string.h"
#include "nanobind/stl/vector.h"
#include "python/core/errors.h"
#include "python/core/shared_object.h"
#include "python/core/turn.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

// Guarded by the GIL, which fork holds, too.
std::set<PyIterator*>& Open() {
  static auto* open = new std::set<PyIterator*>();
  return *open;
}

}  // namespace

// The iterator and the thread that asks it.
struct PyIterator::Run {
  explicit Run(std::unique_ptr<Iterator> it) : iterator(std::move(it)) {}

  void Work() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stopping || work; });
      if (stopping) {
        status = absl::CancelledError("the iterator was closed");
        busy = false;
        changed.notify_all();
        return;
      }
      const std::function<absl::Status(Iterator&)> now = std::move(work);
      work = nullptr;
      lock.unlock();
      absl::Status result = now(*iterator);
      lock.lock();
      status = std::move(result);
      busy = false;
      changed.notify_all();
    }
  }

  std::unique_ptr<Iterator> iterator;
  std::timed_mutex use;  // held by the thread whose call it is; guards `iterator`, which Close ends
  Batch batch;           // that was asked for

  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::function<absl::Status(Iterator&)> work;
  bool busy = false;  // work is there or being done
  bool stopping = false;
  absl::Status status;  // of the work that was done
  std::thread thread;
};

PyIterator::PyIterator(std::unique_ptr<Iterator> run, ElementForm form)
    : run_(std::make_shared<Run>(std::move(run))), form_(form) {
  Open().insert(this);
}

PyIterator::~PyIterator() { Close(); }

void PyIterator::CheckOpen() const {
  if (forked_) {
    throw std::runtime_error(
        "this iterator was made before fork, and its threads are not in this process; make one "
        "here: iter(dataset)");
  }
  if (closed_) throw nb::value_error("the iterator is closed");
}

void PyIterator::Settle() {
  while (true) {
    {
      nb::gil_scoped_release release;
      std::unique_lock<std::mutex> lock(run_->mutex);
      if (run_->changed.wait_for(lock, kSignalInterval, [this] { return !run_->busy; })) return;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void PyIterator::Do(std::function<absl::Status(Iterator&)> work) {
  {
    nb::gil_scoped_release release;
    std::lock_guard<std::mutex> lock(run_->mutex);
    if (run_->stopping) {
      // Closed by another thread meanwhile, which has waited for the thread that is asked.
      run_->status = absl::CancelledError("the iterator was closed");
    } else {
      if (!run_->thread.joinable()) run_->thread = std::thread([run = run_.get()] { run->Work(); });
      run_->work = std::move(work);
      run_->busy = true;
      run_->changed.notify_all();
    }
  }
  Settle();
}

nb::object PyIterator::Next() {
  CheckOpen();
  const std::shared_ptr<Run> run = run_;
  const Turn turn(run->use);
  CheckOpen();
  DropObjects();
  if (at_ < num_rows_) {
    run->iterator->Advance(1);
    return rows_.Row(at_++);
  }
  // A call that was interrupted has asked for it already.
  if (!started_) {
    started_ = true;
    Do([run = run.get()](Iterator& it) { return it.Peek(&run->batch); });
  } else {
    Settle();
  }
  started_ = false;
  Batch batch = std::move(run->batch);
  run->batch = Batch();
  Check(run->status);
  if (batch.empty()) return nb::object();
  if (batch.batched || form_.blocks) {
    run->iterator->Advance(batch.num_elements());
    return BatchToPython(std::move(batch), form_.bare, form_.writable);
  }
  num_rows_ = batch.rows;
  at_ = 1;
  rows_ = RowViews(std::make_shared<const Batch>(std::move(batch)), form_.bare, form_.writable);
  run->iterator->Advance(1);
  return rows_.Row(0);
}

std::string PyIterator::State() {
  CheckOpen();
  const std::shared_ptr<Run> run = run_;
  const Turn turn(run->use);
  CheckOpen();
  Settle();
  return Check(run->iterator->State());
}

void PyIterator::Load(const std::string& state) {
  CheckOpen();
  const std::shared_ptr<Run> run = run_;
  const Turn turn(run->use);
  CheckOpen();
  Settle();
  rows_ = RowViews();
  num_rows_ = at_ = 0;
  started_ = false;
  run->batch = Batch();
  Do([state](Iterator& it) { return it.Load(state); });
  Check(run->status);
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
  return all;
}

nb::dict PyIterator::Stats() {
  CheckOpen();
  // The GIL keeps Close away; nothing of this waits for it.
  return StatsToPython(run_->iterator->stats());
}

void PyIterator::Close() {
  if (closed_ || forked_) return;
  closed_ = true;
  Open().erase(this);
  rows_ = RowViews();
  {
    // Functions in Python that run for it need the GIL to end.
    nb::gil_scoped_release release;
    run_->iterator->Cancel();
    {
      std::lock_guard<std::mutex> lock(run_->mutex);
      run_->stopping = true;
      run_->changed.notify_all();
    }
    if (run_->thread.joinable()) run_->thread.join();
    // Another thread's call ends now, with an error.
    std::lock_guard<std::timed_mutex> turn(run_->use);
    run_->iterator.reset();
  }
  DropObjects();
}

void PyIterator::CloseAll() {
  while (!Open().empty()) (*Open().begin())->Close();
}

void PyIterator::AfterFork() {
  for (PyIterator* iterator : Open()) {
    iterator->forked_ = true;
    // Never destroyed: that would wait for threads that are not there.
    new std::shared_ptr<Run>(std::move(iterator->run_));
    new RowViews(std::move(iterator->rows_));
  }
  Open().clear();
}

}  // namespace shardfeed::python
