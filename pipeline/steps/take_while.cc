#include <algorithm>
#include <utility>

#include "pipeline/dataset.h"
#include "pipeline/steps/hidden.h"

namespace shardfeed {
namespace {

// Ends before the first row whose last column is not 0, and drops that column.
class TakeWhileStage : public Stage {
 public:
  TakeWhileStage(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> spec)
      : queue_(std::move(input)), spec_(std::move(spec)) {}

  absl::Status Next(Batch* out) override {
    *out = Batch();
    if (ended_) return absl::OkStatus();
    absl::Status status = queue_.Fill();
    if (!status.ok() || queue_.ended()) return status;
    const auto* const ends = reinterpret_cast<const uint8_t*>(queue_.head().columns.back().data);
    const uint8_t* const first = ends + queue_.at();
    const size_t rows = std::find(first, first + queue_.left(), 1) - first;
    if (rows == 0) {
      ended_ = true;
      return absl::OkStatus();
    }
    status = queue_.Take(rows, out);
    DropLastColumn(spec_, out);
    return status;
  }
  std::optional<bool> Await(std::chrono::nanoseconds most) override {
    return ended_ ? true : queue_.Await(most);
  }
  void Save(StateWords* words) const override {
    words->push_back(ended_);
    queue_.Save(words);
  }
  absl::Status Load(StateReader* words) override {
    ended_ = words->ReadUpTo(1) != 0;
    return queue_.Load(words);
  }

 private:
  ElementQueue queue_;
  const std::shared_ptr<const RowSpec> spec_;
  bool ended_ = false;
};

}  // namespace

Dataset Dataset::TakeWhile(FilterFn fn, std::string version) const {
  if (!status_.ok()) return *this;
  Step step = Like("take_while");
  step.length = [](const std::vector<Length>&) {
    return Length::Unknown("take_while ends when its function says so");
  };
  step.counts = true;
  step.sharing = Sharing::kUneven;  // each rank ends by itself
  step.work = OnInput([spec = step.spec](std::unique_ptr<Stage> input, uint64_t /*epoch*/) {
    return std::make_unique<TakeWhileStage>(std::move(input), spec);
  });
  // A damaged record that is skipped has 0 here, so it ends nothing.
  MapFn ends = [fn = std::move(fn)](RowContext& row) {
    row.Out<uint8_t>(0)[0] = !fn(row);
    return absl::OkStatus();
  };
  return WithHidden("take_while", DType::kUInt8, std::move(ends), std::move(version))
      .Then(std::move(step));
}

}  // namespace shardfeed
