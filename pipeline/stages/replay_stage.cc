#include "pipeline/stages/replay_stage.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/work_stop.h"

namespace shardfeed {
namespace {

class ReplayStage : public Stage {
 public:
  explicit ReplayStage(std::function<absl::StatusOr<NextFn>()> make) : make_(std::move(make)) {}

  absl::Status Open() {
    absl::StatusOr<NextFn> next = make_();
    if (!next.ok()) return next.status();
    next_ = *std::move(next);
    begun_ = false;
    return absl::OkStatus();
  }

  absl::Status Next(Batch* out) override {
    begun_ = true;
    while (true) {
      *out = Batch();
      if (WorkStop::Token().stop_requested()) {
        return absl::CancelledError("the run was cancelled");
      }
      absl::Status status = next_(out);
      if (!status.ok()) return status;
      if (out->empty()) return CheckNothingToSkip(skip_);
      const uint64_t elements = out->num_elements();
      const uint64_t dropped = std::min(skip_, elements);
      skip_ -= dropped;
      if (dropped == elements) continue;
      if (dropped > 0) *out = out->Slice(dropped, elements - dropped);
      delivered_ += elements - dropped;
      return absl::OkStatus();
    }
  }
  void Save(StateWords* words) const override { words->push_back(delivered_); }
  absl::Status Load(StateReader* words) override {
    delivered_ = skip_ = words->Read();
    return begun_ ? Open() : absl::OkStatus();
  }

 private:
  const std::function<absl::StatusOr<NextFn>()> make_;
  NextFn next_;
  bool begun_ = false;
  uint64_t delivered_ = 0;
  uint64_t skip_ = 0;  // elements to drop, after Load
};

}  // namespace

absl::StatusOr<std::unique_ptr<Stage>> MakeReplayStage(
    std::function<absl::StatusOr<NextFn>()> make) {
  auto stage = std::make_unique<ReplayStage>(std::move(make));
  if (absl::Status status = stage->Open(); !status.ok()) return status;
  return stage;
}

}  // namespace shardfeed
