#include <algorithm>
#include <utility>

#include "pipeline/dataset.h"

namespace shardfeed {
namespace {

class ConcatenateStage : public Stage {
 public:
  ConcatenateStage(std::vector<StageFactory> inputs, uint64_t epoch)
      : inputs_(std::move(inputs)), epoch_(epoch) {}

  absl::Status Open(size_t number) {
    number_ = number;
    input_ = nullptr;
    if (number == inputs_.size()) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<Stage>> input = inputs_[number](epoch_);
    if (!input.ok()) return input.status();
    input_ = *std::move(input);
    return absl::OkStatus();
  }

  absl::Status Next(Batch* out) override {
    *out = Batch();
    while (input_ != nullptr) {
      absl::Status status = input_->Next(out);
      if (!status.ok() || !out->empty()) return status;
      if (status = Open(number_ + 1); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override {
    words->push_back(number_);
    if (input_ != nullptr) input_->Save(words);
  }
  uint64_t Beyond() const override { return input_ == nullptr ? 0 : input_->Beyond(); }
  absl::Status Load(StateReader* words) override {
    absl::Status status = Open(words->ReadUpTo(inputs_.size()));
    if (!status.ok() || input_ == nullptr) return status;
    return input_->Load(words);
  }

 private:
  const std::vector<StageFactory> inputs_;
  const uint64_t epoch_;
  size_t number_ = 0;
  std::unique_ptr<Stage> input_;
};

}  // namespace

Dataset Dataset::Concatenate(std::vector<Dataset> datasets) {
  if (absl::Status status = CheckAlike("concatenate", datasets); !status.ok()) {
    return Dataset(std::move(status));
  }
  Step step = datasets[0].Like("concatenate");
  step.inputs = StepsOf(datasets);
  step.length = SumOfLengths;
  step.sharing = Sharing::kUneven;  // the inputs' parts may have different lengths
  step.work = StageWork{[](const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<Stage>> {
    auto stage = std::make_unique<ConcatenateStage>(inputs.factories, inputs.epoch);
    if (absl::Status status = stage->Open(0); !status.ok()) return status;
    return stage;
  }};
  return datasets[0].Then(std::move(step));
}

}  // namespace shardfeed
