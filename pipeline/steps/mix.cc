#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "pipeline/data/random_stream.h"
#include "pipeline/dataset.h"
#include "pipeline/steps/mixing.h"
#include "shardfeed/functions.h"

namespace shardfeed {
namespace {

double TotalOf(const std::vector<double>& weights, const std::vector<bool>& gone) {
  double total = 0;
  for (size_t i = 0; i < weights.size(); ++i) total += gone[i] ? 0 : weights[i];
  return total;
}

// Draws the input at random by weight.
class ByChance : public InputChoice {
 public:
  ByChance(std::vector<double> weights, uint64_t seed, uint64_t epoch)
      : weights_(std::move(weights)), seed_(seed), epoch_(epoch) {}

  absl::StatusOr<int> Next(const std::vector<bool>& gone, uint64_t number) override {
    const double total = TotalOf(weights_, gone);
    if (total <= 0) return -1;
    double at = Random(StreamSeed(RandomStream::kMix, seed_), epoch_, number).Uniform() * total;
    int last = -1;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (gone[i] || weights_[i] <= 0) continue;
      last = static_cast<int>(i);
      if (at < weights_[i]) break;
      at -= weights_[i];
    }
    return last;
  }

 private:
  const std::vector<double> weights_;
  const uint64_t seed_;
  const uint64_t epoch_;
};

// Chooses the input that lacks most of its share of the elements so far and the next one; on a tie,
// the first. Counts from where an input last ended.
class ByDeficit : public InputChoice {
 public:
  explicit ByDeficit(std::vector<double> weights)
      : weights_(std::move(weights)), counts_(weights_.size()) {}

  absl::StatusOr<int> Next(const std::vector<bool>& gone, uint64_t) override {
    const double total = TotalOf(weights_, gone);
    uint64_t elements = 1;
    for (uint64_t count : counts_) elements += count;
    int most = -1;
    double most_deficit = 0;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (gone[i] || weights_[i] <= 0) continue;
      const double deficit =
          weights_[i] * static_cast<double>(elements) / total - static_cast<double>(counts_[i]);
      if (most >= 0 && deficit <= most_deficit) continue;
      most = static_cast<int>(i);
      most_deficit = deficit;
    }
    return most;
  }
  void Took(int input) override { ++counts_[input]; }
  void Went(int) override { counts_.assign(counts_.size(), 0); }

  void Save(StateWords* words) const override {
    words->insert(words->end(), counts_.begin(), counts_.end());
  }
  absl::Status Load(StateReader* words) override {
    for (uint64_t& count : counts_) count = words->ReadUpTo(UINT64_MAX / (counts_.size() + 1));
    return words->status();
  }

 private:
  const std::vector<double> weights_;
  std::vector<uint64_t> counts_;
};

}  // namespace

Dataset Dataset::Mix(std::vector<Dataset> datasets, std::vector<double> weights, uint64_t seed,
                     std::vector<Exhausted> exhausted, bool exact) {
  if (absl::Status status = CheckAlike("mix", datasets); !status.ok()) {
    return Dataset(std::move(status));
  }
  double total = 0;
  for (double weight : weights) {
    if (!(weight >= 0) || std::isinf(weight)) {
      return Dataset(absl::InvalidArgumentError(
          fmt::format("mix: a weight must be a number of at least 0, got {}", weight)));
    }
    total += weight;
  }
  if (weights.size() != datasets.size()) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "mix: got {} weight{} for {} dataset{}", weights.size(), weights.size() == 1 ? "" : "s",
        datasets.size(), datasets.size() == 1 ? "" : "s")));
  }
  if (!(total > 0)) return Dataset(absl::InvalidArgumentError("mix: all weights are 0"));
  absl::StatusOr<std::vector<Exhausted>> ends =
      ExhaustedOfEach("mix", std::move(exhausted), datasets.size());
  if (!ends.ok()) return Dataset(ends.status());
  exhausted = *std::move(ends);
  Step step = datasets[0].Like("mix");
  step.text = fmt::format("mix([{}], {})", fmt::join(weights, ", "),
                          exact ? "exact" : fmt::format("seed={}", seed));
  // An exact mix draws no random numbers.
  step.identity.Add("weights", weights)
      .Add("seed", exact ? 0 : StreamSeed(RandomStream::kMix, seed))
      .Add("exhausted", exhausted);
  step.identity.AddIf(exact, "exact", exact);
  step.inputs = StepsOf(datasets);
  step.length = [weights, exhausted](const std::vector<Length>& inputs) {
    // Inputs without weight are never drawn.
    uint64_t elements = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (weights[i] == 0) continue;
      if (!inputs[i].known()) return inputs[i];
      if (exhausted[i] == Exhausted::kRepeat && inputs[i].elements > 0) return Length::Endless();
      if (exhausted[i] == Exhausted::kStop) {
        return Length::Unknown("the length of a mix depends on its random draws");
      }
      elements += inputs[i].elements;
    }
    return Length::Of(elements);
  };
  step.sharing = Sharing::kUneven;  // each rank draws its own
  step.work =
      MixInputs(datasets.size(), exhausted, step.spec,
                [=](const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<InputChoice>> {
                  if (exact) return std::make_unique<ByDeficit>(weights);
                  return std::make_unique<ByChance>(weights, seed, inputs.epoch);
                });
  return datasets[0].Then(std::move(step));
}

}  // namespace shardfeed
