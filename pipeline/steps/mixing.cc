#include "pipeline/steps/mixing.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "pipeline/data/batch_builder.h"

namespace shardfeed {
namespace {

// The number of elements that are gathered from inputs before they are delivered.
constexpr size_t kGathered = 256;

// Gathers the next elements of queues. Batches are delivered one by one.
class Gatherer {
 public:
  explicit Gatherer(std::shared_ptr<const RowSpec> spec) : builder_(std::move(spec)) {}

  void Add(ElementQueue& queue) {
    batched_ = queue.head().batched;
    if (batched_) {
      builder_.Append(queue.head(), 0, queue.head().rows);
    } else {
      builder_.Append(queue.head(), queue.at(), 1);
    }
    queue.Advance(1);
  }
  bool full() const { return batched_ ? builder_.rows() > 0 : builder_.rows() >= kGathered; }
  Batch Finish() { return builder_.Finish(batched_); }

 private:
  BatchBuilder builder_;
  bool batched_ = false;
};

class MixingStage : public Stage {
 public:
  MixingStage(std::vector<StageFactory> inputs, std::vector<Exhausted> exhausted,
              std::shared_ptr<const RowSpec> spec, std::unique_ptr<InputChoice> choice,
              uint64_t epoch)
      : factories_(std::move(inputs)),
        exhausted_(std::move(exhausted)),
        spec_(std::move(spec)),
        choice_(std::move(choice)),
        epoch_(epoch),
        inputs_(factories_.size()),
        gone_(factories_.size()) {}

  absl::Status Open(size_t i, uint64_t round) {
    inputs_[i].round = round;
    absl::StatusOr<std::unique_ptr<Stage>> stage = factories_[i](epoch_ + round);
    if (!stage.ok()) return stage.status();
    inputs_[i].queue.emplace(*std::move(stage));
    return absl::OkStatus();
  }
  absl::Status OpenAll() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (absl::Status status = Open(i, 0); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Next(Batch* out) override {
    Gatherer gathered(spec_);
    while (!stopped_ && !gathered.full()) {
      const absl::StatusOr<int> chosen = choice_->Next(gone_, drawn_);
      if (!chosen.ok()) return chosen.status();
      const int i = *chosen;
      if (i < 0) break;
      Input& input = inputs_[i];
      absl::Status status = input.queue->Fill();
      if (!status.ok()) return status;
      if (!input.queue->ended()) {
        gathered.Add(*input.queue);
        input.any = true;
        choice_->Took(i);
        ++drawn_;
        continue;
      }
      if (exhausted_[i] == Exhausted::kStop) {
        stopped_ = true;
      } else if (exhausted_[i] == Exhausted::kRepeat && input.any) {
        if (status = Open(i, input.round + 1); !status.ok()) return status;
        input.any = false;
      } else {
        // An empty input cannot be repeated.
        gone_[i] = true;
        choice_->Went(i);
      }
    }
    *out = gathered.Finish();
    return absl::OkStatus();
  }

  void Save(StateWords* words) const override {
    words->push_back(drawn_);
    words->push_back(stopped_);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      words->push_back(inputs_[i].round);
      words->push_back(inputs_[i].any);
      words->push_back(gone_[i]);
      if (!gone_[i]) inputs_[i].queue->Save(words);
    }
    choice_->Save(words);
  }
  absl::Status Load(StateReader* words) override {
    drawn_ = words->Read();
    stopped_ = words->ReadUpTo(1) != 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      absl::Status status = Open(i, words->Read());
      if (!status.ok()) return status;
      inputs_[i].any = words->ReadUpTo(1) != 0;
      gone_[i] = words->ReadUpTo(1) != 0;
      if (gone_[i]) continue;
      if (status = inputs_[i].queue->Load(words); !status.ok()) return status;
    }
    absl::Status status = choice_->Load(words);
    return status.ok() ? words->status() : status;
  }

 private:
  struct Input {
    std::optional<ElementQueue> queue;
    uint64_t round = 0;  // epoch of the input, counted from epoch_
    bool any = false;    // whether it has delivered an element in this round
  };

  const std::vector<StageFactory> factories_;
  const std::vector<Exhausted> exhausted_;
  const std::shared_ptr<const RowSpec> spec_;
  const std::unique_ptr<InputChoice> choice_;
  const uint64_t epoch_;
  std::vector<Input> inputs_;
  std::vector<bool> gone_;
  uint64_t drawn_ = 0;
  bool stopped_ = false;
};

}  // namespace

absl::StatusOr<std::vector<Exhausted>> ExhaustedOfEach(std::string_view step,
                                                       std::vector<Exhausted> exhausted,
                                                       size_t datasets) {
  if (exhausted.size() == 1) exhausted.resize(datasets, exhausted[0]);
  if (exhausted.size() != datasets) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: expected what happens at a dataset's end once for all datasets, or for each", step));
  }
  return exhausted;
}

StageWork MixInputs(
    size_t inputs, std::vector<Exhausted> exhausted, std::shared_ptr<const RowSpec> spec,
    std::function<absl::StatusOr<std::unique_ptr<InputChoice>>(const StageInputs&)> choice) {
  return {[inputs, exhausted = std::move(exhausted), spec = std::move(spec),
           choice = std::move(choice)](
              const StageInputs& all) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<InputChoice>> chooser = choice(all);
    if (!chooser.ok()) return chooser.status();
    auto stage = std::make_unique<MixingStage>(
        std::vector(all.factories.begin(), all.factories.begin() + inputs), exhausted, spec,
        *std::move(chooser), all.epoch);
    if (absl::Status status = stage->OpenAll(); !status.ok()) return status;
    return stage;
  }};
}

}  // namespace shardfeed
