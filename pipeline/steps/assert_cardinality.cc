#include <utility>

#include "base/count_text.h"
#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {
namespace {

class CountStage : public Stage {
 public:
  CountStage(std::unique_ptr<Stage> input, uint64_t count)
      : queue_(std::move(input)), count_(count) {}

  absl::Status Next(Batch* out) override {
    absl::Status status = queue_.Take(SIZE_MAX, out);
    if (!status.ok()) return status;
    delivered_ += out->num_elements();
    if (out->empty() ? delivered_ == count_ : delivered_ <= count_) return absl::OkStatus();
    return absl::FailedPreconditionError(fmt::format(
        "assert_cardinality: the epoch has {}{}, and {} asserted", out->empty() ? "" : "at least ",
        CountText(delivered_, "element"), count_ == 1 ? "1 was" : fmt::format("{} were", count_)));
  }
  std::optional<bool> Await(std::chrono::nanoseconds most) override { return queue_.Await(most); }
  void Save(StateWords* words) const override {
    words->push_back(delivered_);
    queue_.Save(words);
  }
  absl::Status Load(StateReader* words) override {
    delivered_ = words->Read();  // another count may have been asserted there; Next tells
    return queue_.Load(words);
  }

 private:
  ElementQueue queue_;
  const uint64_t count_;
  uint64_t delivered_ = 0;
};

}  // namespace

Dataset Dataset::AssertCardinality(uint64_t count) const {
  if (!status_.ok()) return *this;
  Step step = Like("assert_cardinality");
  step.text = fmt::format("assert_cardinality({})", count);
  // The count is no part of the identity: that of a rank's part depends on the rank, and the
  // elements are the same.
  step.length = [count](const std::vector<Length>&) { return Length::Of(count); };
  step.counts = true;
  step.sharing = Sharing::kUneven;  // the step counts the elements of the rank
  step.work = OnInput([count](std::unique_ptr<Stage> input, uint64_t /*epoch*/) {
    return std::make_unique<CountStage>(std::move(input), count);
  });
  return Then(std::move(step));
}

}  // namespace shardfeed
