// A run of a dataset, as Python iterates over it.

#ifndef SHARDFEED_PYTHON_CORE_ITERATOR_H_
#define SHARDFEED_PYTHON_CORE_ITERATOR_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "nanobind/nanobind.h"
#include "pipeline/dataset.h"
#include "python/core/batches.h"

namespace shardfeed::python {

nanobind::dict StatsToPython(const IteratorStats& stats);

// What elements look like.
struct ElementForm {
  bool bare = false;      // whether elements are the value of a single column rather than a dict
  bool writable = false;  // arrays may be written to
  bool blocks = false;    // rows come as the batches in which they stand ready
};

// All functions are called with the GIL and let it go while they wait; those of one iterator may be
// called from several threads, one after another.
//
// Where the run can wait for a while only, the caller's thread takes elements itself, and looks for
// signals (Ctrl-C) in between. Other runs are asked on a thread of their own: an interrupted call
// leaves its work under way, and the next call takes what it gives. There, the next elements are
// looked for when one is handed out: small ones come as quickly as threads change. In a child after
// fork, where the run's threads are not, all functions raise.
class PyIterator {
 public:
  PyIterator(std::unique_ptr<Iterator> run, ElementForm form);
  ~PyIterator();

  // The next element; null at the end. `convert`, if it is valid, is called with it, and its result
  // given. What fails or is interrupted before that leaves the element for the next call.
  nanobind::object Next(nanobind::handle convert);
  std::string State();
  void Load(const std::string& state);
  // That the run began with, or the run whose state was loaded.
  uint64_t Epoch();
  // How many rows of the element delivered last are padding; of a row, 1 or 0.
  uint64_t padded() const { return padded_; }
  nanobind::dict Stats();
  void Close();
  bool closed() const { return closed_; }

  // Those that are not closed; by an exit handler of Python.
  static void CloseAll();
  // In a child: gives up all runs, whose threads are not there.
  static void AfterFork();

 private:
  struct Run;
  struct Element;

  nanobind::object NextBatch(Element element, nanobind::handle convert);
  static nanobind::object Finished(nanobind::object element, nanobind::handle convert);
  // Lets the run's thread do `work`, and does not wait. All three with the GIL.
  void Begin(std::function<absl::Status(Iterator&)> work);
  // The same of looking for the next element.
  void Ask();
  // The same if that one is not being looked for, and few are there.
  void AskAhead();
  // What the run has at hand.
  Element TakeHere();
  // The next element that is there, without the GIL until it is.
  Element Take();
  // Waits for the work, without the GIL; raises what a signal handler raises.
  void Settle();
  void CheckOpen() const;
  // Raises the error of a call: that it was closed meanwhile, if it was.
  void CheckCall(const absl::Status& status) const;

  std::shared_ptr<Run> run_;
  const ElementForm form_;
  std::atomic<bool> closed_ = false;
  bool forked_ = false;
  bool asks_ = false;  // the run was last asked on its thread
  // Rows that stand ready, and how many of them were delivered.
  RowViews rows_;
  size_t num_rows_ = 0;
  size_t num_real_ = 0;  // number of rows that are not padding
  size_t at_ = 0;
  std::atomic<uint64_t> padded_ = 0;
  // Of batches that were delivered.
  uint64_t elements_ = 0;
  uint64_t batch_rows_ = 0;
  uint64_t damaged_ = 0;
  uint64_t elements_since_state_ = 0;
  std::string state_;  // state after the delivered element, if the iterator is further ahead
};

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_ITERATOR_H_
