#include <algorithm>
#include <utility>

#include "base/work_stop.h"
#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/steps/mixing.h"

namespace shardfeed {
namespace {

// Chooses by the elements of another input, which are numbers of inputs.
class ByNumbers : public InputChoice {
 public:
  ByNumbers(std::unique_ptr<Stage> numbers, std::shared_ptr<const RunContext> context)
      : numbers_(std::move(numbers)), context_(std::move(context)) {}

  absl::StatusOr<int> Next(const std::vector<bool>& gone, uint64_t) override {
    // The choice may be endless.
    if (std::find(gone.begin(), gone.end(), false) == gone.end()) return -1;
    while (true) {
      if (WorkStop::Token().stop_requested()) {
        return absl::CancelledError("the run was cancelled");
      }
      absl::Status status = numbers_.Fill();
      if (!status.ok()) return status;
      if (numbers_.ended()) return -1;
      const int64_t number = numbers_.head().Values<int64_t>(0)[numbers_.at()];
      if (number < 0 || number >= gone.size()) {
        return absl::InvalidArgumentError(
            fmt::format("{}choose: dataset {} does not exist: there are {}, numbered from 0",
                        context_->Prefix(numbers_.head(), numbers_.at()), number, gone.size()));
      }
      if (!gone[number]) return static_cast<int>(number);
      numbers_.Advance(1);
    }
  }
  void Took(int) override { numbers_.Advance(1); }
  void Went(int) override { numbers_.Advance(1); }

  void Save(StateWords* words) const override { numbers_.Save(words); }
  absl::Status Load(StateReader* words) override { return numbers_.Load(words); }

 private:
  ElementQueue numbers_;
  const std::shared_ptr<const RunContext> context_;
};

}  // namespace

Dataset Dataset::Choose(std::vector<Dataset> datasets, const Dataset& choice,
                        std::vector<Exhausted> exhausted) {
  if (absl::Status status = CheckAlike("choose", datasets); !status.ok()) {
    return Dataset(std::move(status));
  }
  if (!choice.status().ok()) return choice;
  if (choice.batched() || choice.spec().size() != 1 || choice.spec()[0].dtype != DType::kInt64 ||
      choice.spec()[0].ragged || !choice.spec()[0].shape.empty()) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("choose: the choice must have a single int64 column, the number of a "
                    "dataset, but has {}{}",
                    choice.batched() ? "batches of " : "", RowSpecText(choice.spec()))));
  }
  absl::StatusOr<std::vector<Exhausted>> ends =
      ExhaustedOfEach("choose", std::move(exhausted), datasets.size());
  if (!ends.ok()) return Dataset(ends.status());
  exhausted = *std::move(ends);
  Step step = datasets[0].Like("choose");
  step.identity.Add("exhausted", exhausted);
  step.inputs = StepsOf(datasets);
  step.inputs.push_back(choice.step_);
  step.length = [exhausted](const std::vector<Length>& inputs) {
    for (size_t i = 0; i < exhausted.size(); ++i) {
      const bool repeats =
          exhausted[i] == Exhausted::kRepeat && inputs[i].known() && inputs[i].elements > 0;
      if (!repeats && inputs[i].kind != Length::Kind::kEndless) {
        return Length::Unknown("choose delivers as many elements as its choice allows");
      }
    }
    return inputs.back();
  };
  // Each rank would need the part of the choice that matches its parts of the inputs.
  step.counts = true;
  step.sharing = Sharing::kUneven;
  step.work = MixInputs(
      datasets.size(), exhausted, step.spec,
      [](const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<InputChoice>> {
        absl::StatusOr<std::unique_ptr<Stage>> numbers = inputs.factories.back()(inputs.epoch);
        if (!numbers.ok()) return numbers.status();
        return std::make_unique<ByNumbers>(*std::move(numbers), inputs.context);
      });
  return datasets[0].Then(std::move(step));
}

}  // namespace shardfeed
