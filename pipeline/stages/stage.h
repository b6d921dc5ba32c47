// One step of a chain while it runs.

#ifndef SHARDFEED_PIPELINE_STAGES_STAGE_H_
#define SHARDFEED_PIPELINE_STAGES_STAGE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// The state of a chain: some numbers for each stage, one after another.
using StateWords = std::vector<uint64_t>;

class StateReader {
 public:
  explicit StateReader(const StateWords& words) : words_(words) {}
  // The next number; 0, and not ok() any more, behind the last.
  uint64_t Read() {
    if (at_ < words_.size()) return words_[at_++];
    status_.Update(
        absl::InvalidArgumentError("the state is not one of this chain: it is too short"));
    return 0;
  }
  // The next number, which no stage saves above `most`. One that is above makes status() an error
  // and reads as `most`.
  uint64_t ReadUpTo(uint64_t most);
  bool ok() const { return status_.ok(); }
  bool at_end() const { return at_ == words_.size(); }
  // InvalidArgument: the first that went wrong.
  const absl::Status& status() const { return status_; }

 private:
  const StateWords& words_;
  size_t at_ = 0;
  absl::Status status_;
};

// Delivers batches one after another. What it delivers is a function of its recipe and its state:
// after Load of what Save wrote, the same elements follow, though perhaps cut into other batches
// where they are not `batched`.
//
// The calls of one stage come from one thread at a time, not always the same.
class Stage {
 public:
  virtual ~Stage() = default;

  // The next rows, or the next batch; one without rows at the end, and each time after it.
  // After an error the stage is not to be used any more.
  virtual absl::Status Next(Batch* out) = 0;

  // Waits until Next need not wait: for a batch, the end or an error. False: not within `most`.
  // Nothing, and at once: this stage cannot tell.
  virtual std::optional<bool> Await(std::chrono::nanoseconds /*most*/) { return std::nullopt; }

  // Where the stage stands: behind the last batch that Next delivered or, where there is no place
  // to come back to, Beyond() elements before that.
  virtual void Save(StateWords* words) const = 0;
  virtual uint64_t Beyond() const { return 0; }
  virtual absl::Status Load(StateReader* words) = 0;

  // Moves `state`, which Save wrote, over so many further elements, such that it is the same for
  // any number of ranks. False, and nothing changed, where that cannot be told without reading.
  virtual bool Advance(uint64_t /*elements*/, StateWords* /*state*/) const { return false; }
};

// Makes the stage of an input, for an epoch. The epoch's number keys random steps and orders.
using StageFactory = std::function<absl::StatusOr<std::unique_ptr<Stage>>(uint64_t epoch)>;

// At the end of a stage's input: FailedPrecondition if there are `elements` still to be dropped
// after Load.
absl::Status CheckNothingToSkip(uint64_t elements);

// A stage's output, taken by elements instead of batches, with a state at every element.
class ElementQueue {
 public:
  explicit ElementQueue(std::unique_ptr<Stage> input) : input_(std::move(input)) {}

  // Makes sure that there is an element, unless the input has ended.
  absl::Status Fill();
  // Waits until Fill need not wait, as Stage::Await.
  std::optional<bool> Await(std::chrono::nanoseconds most);
  // Behind Fill: whether there is none.
  bool ended() const { return ended_; }
  // The batch that holds the next element, as its element number at().
  const Batch& head() const { return head_; }
  size_t at() const { return at_; }
  size_t left() const { return head_.num_elements() - at_; }
  void Advance(size_t elements) {
    at_ += elements;
    // Whoever drops it gives its memory back.
    if (left() == 0) Drop();
  }

  // Moves up to `elements` (at least one) out, in one piece. None at the end.
  absl::Status Take(size_t elements, Batch* out);

  void Save(StateWords* words) const;
  absl::Status Load(StateReader* words);

 private:
  void Drop() {
    head_ = Batch();
    at_ = 0;
  }

  std::unique_ptr<Stage> input_;
  StateWords before_;    // the input's state before head_
  uint64_t beyond_ = 0;  // Beyond() of that state
  Batch head_;
  size_t at_ = 0;
  uint64_t skip_ = 0;  // elements to drop, after Load
  bool ended_ = false;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_STAGE_H_
