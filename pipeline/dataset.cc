#include "pipeline/dataset.h"

#include <utility>

#include "fmt/format.h"
#include "pipeline/plan/fingerprint.h"
#include "pipeline/plan/length.h"
#include "pipeline/rows/row_program.h"
#include "reader/reader.h"

namespace shardfeed {

Dataset Dataset::Then(Step step) const {
  if (!status_.ok()) return *this;
  if (step.inputs.empty() && step_ != nullptr) step.inputs = {step_};
  for (const StepPtr& input : step.inputs) step.may_await |= input->may_await;
  return Dataset(std::make_shared<const Step>(std::move(step)));
}

Step Dataset::Like(std::string name) const {
  Step step;
  step.name = step.text = std::move(name);
  step.identity = Identity(step.name);
  step.spec = step_->spec;
  step.batched = step_->batched;
  return step;
}

Dataset Dataset::ThenOnRows(Step step, std::shared_ptr<const RowStep> row_step) const {
  if (batched()) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "{}: expected rows, but the elements here are batches: put it before batch, or unbatch "
        "first",
        step.name)));
  }
  for (const ColumnSpec& output : row_step->outputs()) {
    for (int64_t size : output.shape) {
      if (size >= 1) continue;
      return Dataset(absl::InvalidArgumentError(
          fmt::format("{}: column '{}' has a shape with {}", step.name, output.name, size)));
    }
  }
  absl::StatusOr<std::shared_ptr<const RowProgram>> program =
      RowProgram::Make(step_->spec, {row_step});
  if (!program.ok()) return Dataset(program.status());
  step.spec = (*program)->output();
  step.work = RowWork{std::move(row_step)};
  return Then(std::move(step));
}

absl::Status Dataset::CheckAlike(std::string_view step, const std::vector<Dataset>& datasets) {
  if (datasets.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: there are no datasets", step));
  }
  for (const Dataset& ds : datasets) {
    if (!ds.status().ok()) return ds.status();
    if (ds.spec() != datasets[0].spec() || ds.batched() != datasets[0].batched()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the datasets have different columns: {}{}, and {}{}", step,
                      datasets[0].batched() ? "batches of " : "", RowSpecText(datasets[0].spec()),
                      ds.batched() ? "batches of " : "", RowSpecText(ds.spec())));
    }
  }
  return absl::OkStatus();
}

std::vector<StepPtr> Dataset::StepsOf(const std::vector<Dataset>& datasets) {
  std::vector<StepPtr> steps;
  steps.reserve(datasets.size());
  for (const Dataset& ds : datasets) steps.push_back(ds.step_);
  return steps;
}

const RowSpec& Dataset::spec() const {
  static const auto* none = new RowSpec();
  return step_ == nullptr ? *none : *step_->spec;
}

bool Dataset::batched() const { return step_ != nullptr && step_->batched; }

namespace {

// What the chain reads if shards are its only source, otherwise null.
const ShardsWork* OnlyShards(const Step* step) {
  while (step != nullptr && step->inputs.size() == 1) step = step->inputs[0].get();
  return step == nullptr ? nullptr : step->as<ShardsWork>();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ShardTable>> Dataset::table() const {
  const ShardsWork* const shards = OnlyShards(step_.get());
  if (shards == nullptr) return nullptr;
  return shards->table->Get();
}

absl::StatusOr<std::vector<uint64_t>> Dataset::RecordsAt(
    const std::vector<uint64_t>& positions) const {
  absl::StatusOr<std::shared_ptr<const ShardTable>> records = table();
  if (!records.ok()) return records.status();
  ReaderOptions options;
  options.order = OnlyShards(step_.get())->reader.order;
  const absl::StatusOr<std::unique_ptr<Reader>> reader =
      Reader::Open(*std::move(records), std::move(options));
  if (!reader.ok()) return reader.status();
  std::vector<uint64_t> numbers;
  numbers.reserve(positions.size());
  for (uint64_t position : positions) numbers.push_back((*reader)->RecordAt(0, position));
  return numbers;
}

absl::Status Dataset::AddNumbers(const std::vector<uint64_t>& numbers,
                                 shardfeed::Batch* rows) const {
  absl::StatusOr<std::shared_ptr<const ShardTable>> records = table();
  if (!records.ok()) return records.status();
  const ShardsWork& shards = *OnlyShards(step_.get());
  if (!shards.numbers.any()) return absl::OkStatus();
  RecordNumbers(shards.numbers, shards.reader.order.mixture.get(), **records).AddTo(numbers, rows);
  return absl::OkStatus();
}

std::string Dataset::Text() const {
  return step_ == nullptr ? std::string(status_.message()) : ChainText(*step_);
}

absl::StatusOr<Length> Dataset::CountElements() const {
  if (!status_.ok()) return status_;
  return LengthOf(*step_);
}

absl::StatusOr<uint64_t> Dataset::Fingerprint() const {
  if (!status_.ok()) return status_;
  return FingerprintOf(*step_, Coverage::kElements);
}

Dataset Dataset::WithSource(const Dataset& source) const {
  if (!status_.ok()) return *this;
  if (!source.status_.ok()) return source;
  if (const ShardsWork* shards = step_->as<ShardsWork>()) {
    if (shards->reader.order.kind == OrderSpec::Kind::kSequential && shards->reader.world == 1 &&
        shards->reader.epochs == 1) {
      return source;
    }
    return Dataset(absl::InvalidArgumentError(
        fmt::format("{} already delivers its records in an order of its own, or those of a rank",
                    step_->text)));
  }
  const RowWork* const work = step_->as<RowWork>();
  const bool by_row = work != nullptr && !work->step->filters();
  const bool select = step_->name == "select" && !batched();
  if ((!by_row && !select) || step_->random) {
    return Dataset(absl::InvalidArgumentError(
        step_->random
            ? fmt::format("{} takes random numbers or an index by a record's place in an epoch",
                          step_->text)
            : fmt::format("rows can be numbered only after steps on single rows, which {} is not",
                          step_->text)));
  }
  Dataset input = Dataset(step_->inputs[0]).WithSource(source);
  if (!input.status_.ok()) return input;
  Step step = *step_;
  step.inputs = {input.step_};
  return input.Then(std::move(step));
}

absl::StatusOr<std::unique_ptr<Iterator>> Dataset::Start(const RunOptions& options) const {
  if (!status_.ok()) return status_;
  return Iterator::Start(step_, options);
}

}  // namespace shardfeed
