#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {
namespace {

class SkipStage : public Stage {
 public:
  SkipStage(std::unique_ptr<Stage> input, uint64_t count)
      : queue_(std::move(input)), count_(count), left_(count) {}

  absl::Status Next(Batch* out) override {
    while (left_ > 0) {
      absl::Status status = queue_.Fill();
      if (!status.ok()) return status;
      if (queue_.ended()) break;
      const uint64_t n = std::min<uint64_t>(left_, queue_.left());
      queue_.Advance(n);
      left_ -= n;
    }
    return queue_.Take(SIZE_MAX, out);
  }
  std::optional<bool> Await(std::chrono::nanoseconds most) override {
    return left_ > 0 ? std::nullopt : queue_.Await(most);
  }
  void Save(StateWords* words) const override {
    words->push_back(left_);
    queue_.Save(words);
  }
  absl::Status Load(StateReader* words) override {
    left_ = words->ReadUpTo(count_);
    return queue_.Load(words);
  }

 private:
  ElementQueue queue_;
  const uint64_t count_;
  uint64_t left_;
};

}  // namespace

Dataset Dataset::Skip(uint64_t count) const {
  if (!status_.ok()) return *this;
  Step step = Like("skip");
  step.text = fmt::format("skip({})", count);
  step.identity.Add("count", count);
  step.length = [count](const std::vector<Length>& inputs) {
    if (!inputs[0].known()) return inputs[0];
    return Length::Of(inputs[0].elements - std::min(inputs[0].elements, count));
  };
  step.counts = true;
  step.sharing = Sharing::kUneven;  // the step counts the elements of the rank
  step.work = OnInput([count](std::unique_ptr<Stage> input, uint64_t /*epoch*/) {
    return std::make_unique<SkipStage>(std::move(input), count);
  });
  return Then(std::move(step));
}

}  // namespace shardfeed
