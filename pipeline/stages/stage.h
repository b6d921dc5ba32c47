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
  // The next number. After the last one, returns 0 and is not ok() any more.
  uint64_t Read() {
    if (at_ < words_.size()) return words_[at_++];
    status_.Update(
        absl::InvalidArgumentError("the state is not one of this chain: it is too short"));
    return 0;
  }
  // The next number, which must be at most `most`. A larger one makes status() an error and reads
  // as `most`.
  uint64_t ReadUpTo(uint64_t most);
  bool ok() const { return status_.ok(); }
  bool at_end() const { return at_ == words_.size(); }
  // OK, or an InvalidArgument for the first wrong number.
  const absl::Status& status() const { return status_; }

 private:
  const StateWords& words_;
  size_t at_ = 0;
  absl::Status status_;
};

// Delivers batches in sequence. They are a function of the recipe and the state: after Load of what
// Save wrote, the same elements follow, although rows that are not `batched` may be divided
// differently.
//
// Called by one thread at a time, not always the same one.
class Stage {
 public:
  virtual ~Stage() = default;

  // Sets `*out` to the next rows or the next batch, or to one without rows at the end and whenever
  // called after it. After an error the stage must not be used any more.
  virtual absl::Status Next(Batch* out) = 0;

  // Waits until Next would not block: for a batch, the end or an error. Returns false if that takes
  // longer than `most`, and nullopt immediately if the stage cannot tell.
  virtual std::optional<bool> Await(std::chrono::nanoseconds /*most*/) { return std::nullopt; }

  // Writes the state after the last batch that Next delivered or, if that is not a place to resume
  // from, Beyond() elements before it.
  virtual void Save(StateWords* words) const = 0;
  virtual uint64_t Beyond() const { return 0; }
  virtual absl::Status Load(StateReader* words) = 0;

  // Advances `state`, which Save wrote, by `elements` elements, so that it is the same for any
  // number of ranks. Returns false, without a change, if that is not possible without reading.
  virtual bool Advance(uint64_t /*elements*/, StateWords* /*state*/) const { return false; }
  // The same past the row that came from `last`, and those before it, whatever a filter drops.
  virtual bool AdvancePast(const RowOrigin& /*last*/, StateWords* /*state*/) const { return false; }
};

// Makes the stage of an input for an epoch, whose number determines orders and random numbers.
using StageFactory = std::function<absl::StatusOr<std::unique_ptr<Stage>>(uint64_t epoch)>;

// At the end of a stage's input: FailedPrecondition if `elements` elements are still to be dropped
// after Load.
absl::Status CheckNothingToSkip(uint64_t elements);

// The output of a stage by elements instead of batches, with a state at every element.
class ElementQueue {
 public:
  explicit ElementQueue(std::unique_ptr<Stage> input) : input_(std::move(input)) {}

  // Ensures that there is an element, unless the input has ended.
  absl::Status Fill();
  // Waits until Fill would not block, as Stage::Await does.
  std::optional<bool> Await(std::chrono::nanoseconds most);
  // After Fill: whether there are no more elements.
  bool ended() const { return ended_; }
  // The batch with the next element, which is its element number at().
  const Batch& head() const { return head_; }
  size_t at() const { return at_; }
  size_t left() const { return head_.num_elements() - at_; }
  void Advance(size_t elements) {
    at_ += elements;
    // Dropping the batch returns its memory.
    if (left() == 0) Drop();
  }

  // Moves up to `elements` (at least 1) elements to `*out` as one batch, or none at the end.
  absl::Status Take(size_t elements, Batch* out);

  void Save(StateWords* words) const;
  absl::Status Load(StateReader* words);

 private:
  // Where element at() - 1 of head_ comes from, if it is a row.
  std::optional<RowOrigin> OriginOfLast() const;
  // Keeps that origin before head_ is dropped.
  void RememberLast();
  void Drop() {
    RememberLast();
    head_ = Batch();
    at_ = 0;
  }

  std::unique_ptr<Stage> input_;
  StateWords before_;    // the input's state before head_
  uint64_t beyond_ = 0;  // Beyond() of that state
  Batch head_;
  size_t at_ = 0;
  std::optional<RowOrigin> last_;  // origin of the last element taken before head_, if known
  uint64_t skip_ = 0;              // elements to drop, after Load
  bool ended_ = false;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_STAGE_H_
