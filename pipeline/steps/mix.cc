#include <optional>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "pipeline/dataset.h"
#include "pipeline/random.h"

namespace shardfeed {
namespace {

// Elements that are gathered from inputs in turn before they are handed on.
constexpr size_t kGathered = 256;

// Appends the queue's next element to what is gathered. Batches are handed on one by one.
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

class MixStage : public Stage {
 public:
  MixStage(std::vector<StageFactory> inputs, std::vector<double> weights,
           std::vector<Exhausted> exhausted, std::shared_ptr<const RowSpec> spec, uint64_t seed,
           uint64_t epoch)
      : factories_(std::move(inputs)),
        weights_(std::move(weights)),
        exhausted_(std::move(exhausted)),
        spec_(std::move(spec)),
        seed_(seed),
        epoch_(epoch),
        inputs_(factories_.size()) {}

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
      const int i = Draw();
      if (i < 0) break;
      Input& input = inputs_[i];
      absl::Status status = input.queue->Fill();
      if (!status.ok()) return status;
      if (!input.queue->ended()) {
        gathered.Add(*input.queue);
        input.any = true;
        ++drawn_;
        continue;
      }
      if (exhausted_[i] == Exhausted::kStop) {
        stopped_ = true;
      } else if (exhausted_[i] == Exhausted::kRepeat && input.any) {
        if (status = Open(i, input.round + 1); !status.ok()) return status;
        input.any = false;
      } else {
        // What is empty cannot be repeated.
        input.gone = true;
      }
    }
    *out = gathered.Finish();
    return absl::OkStatus();
  }

  void Save(StateWords* words) const override {
    words->push_back(drawn_);
    words->push_back(stopped_);
    for (const Input& input : inputs_) {
      words->push_back(input.round);
      words->push_back(input.any);
      words->push_back(input.gone);
      if (!input.gone) input.queue->Save(words);
    }
  }
  absl::Status Load(StateReader* words) override {
    drawn_ = words->Read();
    stopped_ = words->ReadUpTo(1) != 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      absl::Status status = Open(i, words->Read());
      if (!status.ok()) return status;
      inputs_[i].any = words->ReadUpTo(1) != 0;
      inputs_[i].gone = words->ReadUpTo(1) != 0;
      if (inputs_[i].gone) continue;
      if (status = inputs_[i].queue->Load(words); !status.ok()) return status;
    }
    return words->status();
  }

 private:
  struct Input {
    std::optional<ElementQueue> queue;
    uint64_t round = 0;  // its epoch, counted from epoch_
    bool any = false;    // it has given an element in this round
    bool gone = false;
  };

  // The input of the next element; -1 when all are gone.
  int Draw() const {
    double total = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) total += inputs_[i].gone ? 0 : weights_[i];
    if (total <= 0) return -1;
    double at = Random(seed_, epoch_, drawn_).Uniform() * total;
    int last = -1;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].gone || weights_[i] <= 0) continue;
      last = static_cast<int>(i);
      if (at < weights_[i]) break;
      at -= weights_[i];
    }
    return last;
  }

  const std::vector<StageFactory> factories_;
  const std::vector<double> weights_;
  const std::vector<Exhausted> exhausted_;
  const std::shared_ptr<const RowSpec> spec_;
  const uint64_t seed_;
  const uint64_t epoch_;
  std::vector<Input> inputs_;
  uint64_t drawn_ = 0;
  bool stopped_ = false;
};

}  // namespace

Dataset Dataset::Mix(std::vector<Dataset> datasets, std::vector<double> weights, uint64_t seed,
                     std::vector<Exhausted> exhausted) {
  if (absl::Status status = CheckAlike("mix", datasets); !status.ok()) {
    return Dataset(std::move(status));
  }
  double total = 0;
  for (double weight : weights) {
    if (!(weight >= 0)) {
      return Dataset(absl::InvalidArgumentError(fmt::format("mix: a weight is {}", weight)));
    }
    total += weight;
  }
  if (weights.size() != datasets.size() || !(total > 0)) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("mix: {} datasets take as many weights, not all 0; there are {}",
                    datasets.size(), weights.size())));
  }
  if (exhausted.size() == 1) exhausted.resize(datasets.size(), exhausted[0]);
  if (exhausted.size() != datasets.size()) {
    return Dataset(absl::InvalidArgumentError(
        "mix: say what happens at a dataset's end once for all, or for each"));
  }
  Step step = datasets[0].Like("mix");
  step.text = fmt::format("mix([{}], seed={})", fmt::join(weights, ", "), seed);
  step.identity.Add("weights", weights).Add("seed", seed).Add("exhausted", exhausted);
  step.inputs = StepsOf(datasets);
  step.length = [weights, exhausted](const std::vector<Length>& inputs) {
    // What has no weight is never drawn.
    uint64_t elements = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (weights[i] == 0) continue;
      if (!inputs[i].known()) return inputs[i];
      if (exhausted[i] == Exhausted::kRepeat && inputs[i].elements > 0) return Length::Endless();
      if (exhausted[i] == Exhausted::kStop) {
        return Length::Unknown("a mix ends when the draws have it so");
      }
      elements += inputs[i].elements;
    }
    return Length::Of(elements);
  };
  step.sharing = Sharing::kUneven;  // each rank draws its own
  step.work = StageWork{
      [=, spec = step.spec](const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<Stage>> {
        auto stage = std::make_unique<MixStage>(inputs.factories, weights, exhausted, spec, seed,
                                                inputs.epoch);
        if (absl::Status status = stage->OpenAll(); !status.ok()) return status;
        return stage;
      }};
  return datasets[0].Then(std::move(step));
}

}  // namespace shardfeed
