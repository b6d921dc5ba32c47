#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/replay_stage.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {
namespace {

class Scanner {
 public:
  Scanner(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> outputs, FlatMapFn fn,
          std::shared_ptr<const RunContext> context)
      : queue_(std::move(input)), context_(std::move(context)) {
    work_ = MakeFlatMapFn(std::move(outputs), [this, fn = std::move(fn)](
                                                  const Batch& in, size_t row, RowEmitter& out) {
      row_ = row;
      if (!std::binary_search(before_.damaged.begin(), before_.damaged.end(), row)) {
        return fn(in, row, out);
      }
      // A damaged record keeps its place, without values.
      out.Begin();
      return absl::OkStatus();
    });
  }

  absl::Status Next(Batch* out) {
    *out = Batch();
    if (!failed_.ok()) return failed_;
    absl::Status status = queue_.Take(kRows, out);
    if (!status.ok() || out->empty()) return status;
    before_ = *out;
    out->damaged.clear();
    row_ = 0;
    status = work_(*out);
    const Batch in = std::exchange(before_, Batch());
    if (absl::IsCancelled(status)) return status;
    if (status.ok() && out->rows != in.rows) {
      return absl::InvalidArgumentError(
          fmt::format("scan: the function must return one row for each, but returned {} for {}",
                      out->rows, in.rows));
    }
    if (!status.ok()) {
      failed_ =
          absl::Status(status.code(), context_->Prefix(in, row_) + std::string(status.message()));
      // Deliver the rows before it first.
      if (out->empty()) return failed_;
    }
    Batch kept = in.Slice(0, out->rows);
    out->origins = std::move(kept.origins);
    out->reordered = std::move(kept.reordered);
    out->damaged = std::move(kept.damaged);
    out->padded = kept.padded;
    return absl::OkStatus();
  }

 private:
  // Limit on rows made at once, since the consumer may want only one.
  static constexpr size_t kRows = 64;

  ElementQueue queue_;
  const std::shared_ptr<const RunContext> context_;
  BatchFn work_;
  Batch before_;    // the input rows in work
  size_t row_ = 0;  // next row of the batch
  absl::Status failed_;
};

}  // namespace

Dataset Dataset::Scan(RowSpec output, std::function<FlatMapFn()> make, std::string version) const {
  if (!status_.ok()) return *this;
  if (batched()) {
    return Dataset(absl::InvalidArgumentError(
        "scan: expected rows, but the elements here are batches: put it before batch, or unbatch "
        "first"));
  }
  Step step = Like("scan");
  step.text = fmt::format("scan({})", NamesText(output));
  step.identity.AddIf(!version.empty(), "version", version);
  step.spec = std::make_shared<const RowSpec>(std::move(output));
  step.counts = true;
  step.sharing = Sharing::kUneven;  // the step depends on the elements of the rank
  step.work = StageWork{[make = std::move(make), spec = step.spec](const StageInputs& inputs) {
    return MakeReplayStage([make, spec, input = inputs.factories[0], context = inputs.context,
                            epoch = inputs.epoch]() -> absl::StatusOr<NextFn> {
      absl::StatusOr<std::unique_ptr<Stage>> stage = input(epoch);
      if (!stage.ok()) return stage.status();
      auto scanner = std::make_shared<Scanner>(*std::move(stage), spec, make(), context);
      return [scanner](shardfeed::Batch* out) { return scanner->Next(out); };
    });
  }};
  return Then(std::move(step));
}

}  // namespace shardfeed
