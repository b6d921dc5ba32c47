#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/packing.h"
#include "pipeline/steps/columns.h"
#include "pipeline/steps/planned_rows.h"

namespace shardfeed {
namespace {

// The maximum number of elements around a step.
constexpr int64_t kMostAround = 1 << 16;

absl::StatusOr<StepsLayout> LayoutOf(const RowSpec& spec, bool batched,
                                     const StepsOptions& options) {
  StepsLayout layout;
  RowSpec rows;
  for (const StepColumn& wanted : options.columns) {
    absl::StatusOr<size_t> number = RowColumn("steps", spec, wanted.column, batched);
    if (!number.ok()) return number.status();
    const ColumnSpec& column = spec[*number];
    if (!column.ragged) {
      return absl::InvalidArgumentError(
          fmt::format("steps: column '{}' must have one element for each step, but it is {}",
                      wanted.column, RowSpecText({column})));
    }
    const int64_t end = wanted.end.value_or(wanted.begin + 1);
    if (wanted.begin < -kMostAround || end > kMostAround || end <= wanted.begin) {
      return absl::InvalidArgumentError(fmt::format(
          "steps: column '{}': the elements from step + {} to step + {} must be at least "
          "one, and within {} of it",
          wanted.column, wanted.begin, end - 1, kMostAround));
    }
    layout.parts.push_back({.column = *number, .begin = wanted.begin, .end = end});
    ColumnSpec& row = rows.emplace_back(column);
    row.ragged = false;
    if (wanted.end) row.shape.insert(row.shape.begin(), end - wanted.begin);
  }
  for (size_t i = 0; options.ends == StepEnds::kRepeat && i < options.columns.size(); ++i) {
    StepsLayout::Part& part = layout.parts[i];
    if (!options.columns[i].end) continue;
    part.mask = static_cast<int>(rows.size());
    rows.push_back({rows[i].name + "_mask", DType::kUInt8, {part.end - part.begin}, false});
  }
  if (!options.number.empty()) {
    layout.number = static_cast<int>(rows.size());
    rows.push_back({options.number, DType::kInt32, {}, false});
  }
  for (size_t c = 0; c < spec.size(); ++c) {
    if (spec[c].ragged) continue;
    layout.kept.push_back(c);
    rows.push_back(spec[c]);
  }
  if (absl::Status status = CheckNames("steps", rows); !status.ok()) return status;
  layout.spec = std::make_shared<const RowSpec>(std::move(rows));
  return layout;
}

}  // namespace

Dataset Dataset::Steps(StepsOptions options) const {
  if (!status_.ok()) return *this;
  if (options.columns.empty()) {
    return Dataset(absl::InvalidArgumentError("steps: there are no columns"));
  }
  if (options.lengths.empty()) {
    return Dataset(absl::InvalidArgumentError("steps: the lengths have no name"));
  }
  absl::StatusOr<StepsLayout> layout = LayoutOf(spec(), batched(), options);
  if (!layout.ok()) return Dataset(layout.status());
  PackSpec pack = {.lengths = options.lengths,
                   .length = 1,
                   .how = PackSpec::How::kSteps,
                   .window = options.window};
  Step step = Like("steps");
  step.text = "steps(";
  for (const StepColumn& column : options.columns) {
    if (options.ends == StepEnds::kDrop) {
      const int64_t last = column.end.value_or(column.begin + 1) - 1;
      pack.steps_before =
          std::max<uint64_t>(pack.steps_before, std::max<int64_t>(0, -column.begin));
      pack.steps_after = std::max<uint64_t>(pack.steps_after, std::max<int64_t>(0, last));
    }
    step.text += fmt::format("{}, ", column.column);
    step.identity.Add("column", column.column)
        .Add("begin", column.begin)
        .Add("end", column.end.value_or(column.begin));
  }
  step.text += fmt::format("lengths={})", options.lengths);
  step.identity.Add("repeat_ends", options.ends == StepEnds::kRepeat);
  step.spec = layout->spec;
  Dataset input = WithPlannedRows("steps", pack);
  if (!input.status_.ok()) return input;
  // The length is that of the shards, which count rows.
  step.work = OnPlannedRows(
      "steps", [layout = *layout](std::unique_ptr<Stage> stage,
                                  std::shared_ptr<const PackPlan> plan, const StageInputs& inputs) {
        return MakePlannedStepsStage(std::move(stage), layout, std::move(plan), inputs.context);
      });
  return input.Then(std::move(step));
}

}  // namespace shardfeed
