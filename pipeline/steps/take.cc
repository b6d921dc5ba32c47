#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {
namespace {

class TakeStage : public Stage {
 public:
  TakeStage(std::unique_ptr<Stage> input, uint64_t count)
      : queue_(std::move(input)), count_(count) {}

  absl::Status Next(Batch* out) override {
    *out = Batch();
    if (taken_ == count_) return absl::OkStatus();
    absl::Status status = queue_.Take(count_ - taken_, out);
    taken_ += out->num_elements();
    return status;
  }
  std::optional<bool> Await(std::chrono::nanoseconds most) override {
    return taken_ == count_ ? true : queue_.Await(most);
  }
  void Save(StateWords* words) const override {
    words->push_back(taken_);
    queue_.Save(words);
  }
  absl::Status Load(StateReader* words) override {
    taken_ = words->ReadUpTo(count_);
    return queue_.Load(words);
  }

 private:
  ElementQueue queue_;
  const uint64_t count_;
  uint64_t taken_ = 0;
};

}  // namespace

Dataset Dataset::Take(uint64_t count) const {
  if (!status_.ok()) return *this;
  Step step = Like("take");
  step.text = fmt::format("take({})", count);
  step.identity.Add("count", count);
  step.length = [count](const std::vector<Length>& inputs) {
    if (inputs[0].kind == Length::Kind::kUnknown) return inputs[0];
    return Length::Of(inputs[0].known() ? std::min(inputs[0].elements, count) : count);
  };
  step.counts = true;
  step.sharing = Sharing::kUneven;  // the step counts the elements of the rank
  step.work = OnInput([count](std::unique_ptr<Stage> input, uint64_t /*epoch*/) {
    return std::make_unique<TakeStage>(std::move(input), count);
  });
  return Then(std::move(step));
}

}  // namespace shardfeed
