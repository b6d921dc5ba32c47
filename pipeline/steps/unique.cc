#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/replay_stage.h"
#include "pipeline/steps/keys.h"

namespace shardfeed {
namespace {

class UniqueRows {
 public:
  UniqueRows(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> spec, size_t column,
             std::shared_ptr<RunContext> context)
      : queue_(std::move(input)),
        spec_(std::move(spec)),
        keys_((*spec_)[column], column),
        context_(std::move(context)) {}

  absl::Status Next(Batch* out) {
    BatchBuilder builder(spec_);
    while (builder.rows() == 0) {
      absl::Status status = queue_.Fill();
      if (!status.ok()) return status;
      if (queue_.ended()) break;
      const Batch& head = queue_.head();
      builder.Append(head, 0, 0);
      for (size_t row = queue_.at(); row < head.rows; ++row) {
        if (std::binary_search(head.damaged.begin(), head.damaged.end(), row)) {
          ++context_->dropped_damaged;
          continue;
        }
        const std::string_view key = keys_.Read(head, row);
        if (seen_.contains(key)) continue;
        seen_.emplace(key);
        builder.AppendMore(row, 1);
      }
      queue_.Advance(queue_.left());
    }
    *out = builder.Finish(/*batched=*/false);
    return absl::OkStatus();
  }

 private:
  ElementQueue queue_;
  const std::shared_ptr<const RowSpec> spec_;
  KeyReader keys_;
  const std::shared_ptr<RunContext> context_;
  std::unordered_set<std::string, KeyHash, std::equal_to<>> seen_;
};

}  // namespace

Dataset Dataset::Unique(std::string column) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = KeyColumn("unique", spec(), column, batched());
  if (!number.ok()) return Dataset(number.status());
  Step step = Like("unique");
  step.text = fmt::format("unique({})", column);
  step.identity.Add("column", column);
  step.length = [](const std::vector<Length>&) { return Length::Unknown("unique drops elements"); };
  step.counts = true;
  step.sharing = Sharing::kUneven;  // the step depends on the elements of the rank
  step.work = StageWork{[n = *number, spec = step.spec](const StageInputs& inputs) {
    return MakeReplayStage([n, spec, make = inputs.factories[0], epoch = inputs.epoch,
                            context = inputs.context]() -> absl::StatusOr<NextFn> {
      absl::StatusOr<std::unique_ptr<Stage>> input = make(epoch);
      if (!input.ok()) return input.status();
      auto unique = std::make_shared<UniqueRows>(*std::move(input), spec, n, context);
      return [unique](shardfeed::Batch* out) { return unique->Next(out); };
    });
  }};
  return Then(std::move(step));
}

}  // namespace shardfeed
