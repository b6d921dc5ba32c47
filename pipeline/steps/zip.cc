#include <algorithm>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {
namespace {

class ZipStage : public Stage {
 public:
  ZipStage(std::vector<std::unique_ptr<Stage>> inputs, std::shared_ptr<const RowSpec> spec)
      : spec_(std::move(spec)) {
    for (auto& input : inputs) queues_.emplace_back(std::move(input));
  }

  absl::Status Next(Batch* out) override {
    *out = Batch();
    size_t n = SIZE_MAX;
    for (ElementQueue& queue : queues_) {
      absl::Status status = queue.Fill();
      if (!status.ok()) return status;
      if (queue.ended()) return absl::OkStatus();
      n = std::min(n, queue.left());
    }
    for (size_t i = 0; i < queues_.size(); ++i) {
      Batch part;
      absl::Status status = queues_[i].Take(n, &part);
      if (!status.ok()) return status;
      if (i == 0) {
        *out = std::move(part);
        continue;
      }
      if (part.rows != out->rows) {
        return absl::InvalidArgumentError("zip: batches of different sizes cannot be combined");
      }
      out->columns.insert(out->columns.end(), part.columns.begin(), part.columns.end());
      out->memory.insert(out->memory.end(), part.memory.begin(), part.memory.end());
      out->padded = std::max(out->padded, part.padded);
      std::vector<uint32_t> damaged;
      std::set_union(out->damaged.begin(), out->damaged.end(), part.damaged.begin(),
                     part.damaged.end(), std::back_inserter(damaged));
      out->damaged = std::move(damaged);
    }
    out->spec = spec_;
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override {
    for (const ElementQueue& queue : queues_) queue.Save(words);
  }
  absl::Status Load(StateReader* words) override {
    for (ElementQueue& queue : queues_) {
      absl::Status status = queue.Load(words);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const RowSpec> spec_;
  std::vector<ElementQueue> queues_;
};

}  // namespace

Dataset Dataset::Zip(std::vector<Dataset> datasets) {
  if (datasets.empty()) return Dataset(absl::InvalidArgumentError("zip: there are no datasets"));
  RowSpec all;
  for (const Dataset& ds : datasets) {
    if (!ds.status().ok()) return ds;
    if (ds.batched() != datasets[0].batched()) {
      return Dataset(
          absl::InvalidArgumentError("zip: some datasets have rows, others have batches"));
    }
    for (const ColumnSpec& s : ds.spec()) {
      if (FindColumn(all, s.name) >= 0) {
        return Dataset(absl::InvalidArgumentError(
            fmt::format("zip: two datasets have a column '{}'; rename one with map", s.name)));
      }
      all.push_back(s);
    }
  }
  Step step = datasets[0].Like("zip");
  step.inputs = StepsOf(datasets);
  step.spec = std::make_shared<const RowSpec>(std::move(all));
  step.length = [](const std::vector<Length>& inputs) {
    Length least = Length::Endless();
    for (const Length& length : inputs) {
      if (length.kind == Length::Kind::kUnknown) return length;
      if (length.known() && (!least.known() || length.elements < least.elements)) least = length;
    }
    return least;
  };
  step.sharing = Sharing::kUneven;  // the inputs' parts may have different lengths
  step.work = StageWork{
      [spec = step.spec](const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<Stage>> {
        std::vector<std::unique_ptr<Stage>> stages;
        for (const StageFactory& make : inputs.factories) {
          absl::StatusOr<std::unique_ptr<Stage>> stage = make(inputs.epoch);
          if (!stage.ok()) return stage;
          stages.push_back(*std::move(stage));
        }
        return std::make_unique<ZipStage>(std::move(stages), spec);
      }};
  return datasets[0].Then(std::move(step));
}

}  // namespace shardfeed
