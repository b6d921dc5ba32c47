// The Python iterator over a run of a dataset.

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

// The form of elements.
struct ElementForm {
  bool bare = false;      // whether elements are the value of a single column rather than a dict
  bool writable = false;  // arrays may be written to
  bool blocks = false;    // rows are delivered in the batches in which they are available
};

// All functions are called with the GIL and release it while they wait. Several threads may call
// them on one iterator, one after another.
//
// If the run supports waiting with a timeout, the caller's thread takes elements itself and checks
// for signals (Ctrl-C) in between. Otherwise a thread of the iterator calls the run: an interrupted
// call leaves its work running, and the next call takes the result. That thread also finds the next
// elements ahead when one is delivered, so that small ones are not limited by thread switches. In a
// child after fork, where the run's threads do not exist, all functions raise.
class PyIterator {
 public:
  PyIterator(std::unique_ptr<Iterator> run, ElementForm form);
  ~PyIterator();

  // Returns the next element, or null at the end. If `convert` is valid, calls it with the element
  // and returns its result. A failure or an interrupt before that leaves the element for the next
  // call.
  nanobind::object Next(nanobind::handle convert);
  std::string State();
  void Load(const std::string& state);
  // The epoch that the run began with, or that of the run whose state was loaded.
  uint64_t Epoch();
  // Number of padding rows in the last delivered element; for a row, 1 or 0.
  uint64_t padded() const { return padded_; }
  // Rows of the last delivered element whose records were damaged; for a row, 0 or none.
  const std::vector<uint32_t>& damaged() const { return last_damaged_; }
  nanobind::dict Stats();
  void Close();
  bool closed() const { return closed_; }

  // Closes all open iterators; called by an exit handler of Python.
  static void CloseAll();
  // Call in a child after fork: abandons all runs, whose threads do not exist there.
  static void AfterFork();

 private:
  struct Run;
  struct Element;

  nanobind::object NextBatch(Element element, nanobind::handle convert);
  static nanobind::object Finished(nanobind::object element, nanobind::handle convert);
  // Starts `work` on the run's thread and does not wait. Call with the GIL, as the next two.
  void Begin(std::function<absl::Status(Iterator&)> work);
  // Starts finding the next element.
  void Ask();
  // Starts finding the next element unless that is in progress or enough are ahead.
  void AskAhead();
  // Takes an element that the run has available.
  Element TakeHere();
  // Waits for the next element, without the GIL.
  Element Take();
  // Waits for the work to end, without the GIL; raises what a signal handler raises.
  void Settle();
  void CheckOpen() const;
  // Raises the error of a call or, if the iterator was closed meanwhile, the error for that.
  void CheckCall(const absl::Status& status) const;

  std::shared_ptr<Run> run_;
  const ElementForm form_;
  std::atomic<bool> closed_ = false;
  bool forked_ = false;
  bool asks_ = false;  // whether the run's thread made the last call
  // Rows that are available, and how many of them were delivered.
  RowViews rows_;
  size_t num_rows_ = 0;
  size_t num_real_ = 0;                 // number of rows that are not padding
  std::vector<uint32_t> damaged_rows_;  // the damaged ones among the rows
  size_t at_ = 0;
  std::atomic<uint64_t> padded_ = 0;
  std::vector<uint32_t> last_damaged_;  // accessed with the GIL held
  // Counts of delivered batches.
  uint64_t elements_ = 0;
  uint64_t batch_rows_ = 0;
  uint64_t damaged_ = 0;
  uint64_t elements_since_state_ = 0;
  std::string state_;  // state after the delivered element, if the iterator has advanced further
};

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_ITERATOR_H_
