#include "pipeline/stages/repeat_stage.h"

#include <utility>

namespace shardfeed {
namespace {

class RepeatStage : public Stage {
 public:
  RepeatStage(StageFactory input, uint64_t epochs, uint64_t epoch)
      : factory_(std::move(input)), epochs_(epochs), first_(epoch) {}

  absl::Status Open(uint64_t round) {
    round_ = round;
    any_ = false;
    input_ = nullptr;
    if (epochs_ > 0 && round >= epochs_) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<Stage>> input = factory_(first_ + round);
    if (!input.ok()) return input.status();
    input_ = *std::move(input);
    return absl::OkStatus();
  }

  absl::Status Next(Batch* out) override {
    *out = Batch();
    while (input_ != nullptr) {
      absl::Status status = input_->Next(out);
      if (!status.ok()) return status;
      if (!out->empty()) {
        any_ = true;
        return absl::OkStatus();
      }
      // An empty input would be repeated forever.
      if (!any_) break;
      if (status = Open(round_ + 1); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override {
    words->push_back(round_);
    words->push_back(any_);
    if (input_ != nullptr) input_->Save(words);
  }
  uint64_t Beyond() const override { return input_ == nullptr ? 0 : input_->Beyond(); }
  absl::Status Load(StateReader* words) override {
    absl::Status status = Open(epochs_ > 0 ? words->ReadUpTo(epochs_) : words->Read());
    any_ = words->ReadUpTo(1) != 0;
    if (!status.ok() || input_ == nullptr) return status;
    return input_->Load(words);
  }

 private:
  const StageFactory factory_;
  const uint64_t epochs_;
  const uint64_t first_;
  uint64_t round_ = 0;
  bool any_ = false;  // whether this round has delivered an element
  std::unique_ptr<Stage> input_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Stage>> MakeRepeatStage(StageFactory input, uint64_t epochs,
                                                       uint64_t epoch) {
  auto stage = std::make_unique<RepeatStage>(std::move(input), epochs, epoch);
  if (absl::Status status = stage->Open(0); !status.ok()) return status;
  return stage;
}

}  // namespace shardfeed
