#include "pipeline/plan/compile.h"

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipeline/stages/batching.h"
#include "pipeline/stages/repeat_stage.h"
#include "pipeline/stages/sources.h"

namespace shardfeed {
namespace {

// The first epoch of the input of a repeat, in the given epoch of the repeat, so that a repeat of a
// repeat has new epochs.
uint64_t FirstEpoch(uint64_t epoch, uint64_t epochs) { return epochs > 0 ? epoch * epochs : epoch; }

absl::StatusOr<std::unique_ptr<Stage>> MakeShards(const Step& step, ReaderOptions reader,
                                                  const std::shared_ptr<RunContext>& context,
                                                  uint64_t epoch) {
  const uint64_t first = FirstEpoch(epoch, reader.epochs.value_or(0));
  const ShardsWork& shards = *step.as<ShardsWork>();
  return MakeShardsStage(shards.table, std::move(reader), shards.numbers, first,
                         context->sources.at(&step), &step, context);
}

absl::StatusOr<std::unique_ptr<Stage>> MakeRepeated(const StepPtr& step, uint64_t epochs,
                                                    const std::shared_ptr<RunContext>& context,
                                                    uint64_t epoch) {
  if (const ShardsWork* shards = step->as<ShardsWork>(); shards && shards->reader.epochs == 1) {
    ReaderOptions reader = shards->reader;
    reader.epochs = epochs == 0 ? std::nullopt : std::optional(epochs);
    return MakeShards(*step, std::move(reader), context, epoch);
  }
  return MakeRepeatStage([step, context](uint64_t e) { return Compile(step, context, e); }, epochs,
                         FirstEpoch(epoch, epochs));
}

// The steps that run as one stage: row steps, batches of their rows, and work on these, from the
// last to the first, which is the order in which they are found.
struct Fused {
  std::vector<const Step*> on_batches;
  const BatchWork* batch = nullptr;
  std::vector<const Step*> on_rows;
  const RepeatWork* repeat = nullptr;
  StepPtr input;  // input of the first of the steps
};

Fused Fuse(const StepPtr& step) {
  Fused fused;
  StepPtr at = step;
  for (; at->as<BatchFnWork>() || at->as<PrefetchWork>(); at = at->inputs[0]) {
    fused.on_batches.push_back(at.get());
  }
  const bool on_rows = at->as<RowWork>() != nullptr;
  fused.batch = at->as<BatchWork>();
  if (fused.batch != nullptr) at = at->inputs[0];
  bool filters = false;
  fused.input = at;
  for (;; fused.input = fused.input->inputs[0]) {
    const RowWork* const row = fused.input->as<RowWork>();
    const RepeatWork* const repeat = fused.input->as<RepeatWork>();
    if (row != nullptr && !(fused.repeat && row->step->filters())) {
      fused.on_rows.push_back(fused.input.get());
      filters |= row->step->filters();
    } else if (repeat != nullptr && !fused.input->batched && !filters && !fused.repeat) {
      fused.repeat = repeat;
    } else {
      break;
    }
  }
  const bool one_stage =
      !fused.on_rows.empty() && (on_rows || at->as<RepeatWork>() || (fused.batch && !filters));
  if (!one_stage) {
    fused.on_rows.clear();
    fused.repeat = at->as<RepeatWork>();
    fused.input = fused.repeat ? at->inputs[0] : at;
  }
  return fused;
}

void AddName(std::string_view name, std::string* names) {
  if (!names->empty()) *names += '+';
  *names += name;
}

// Returns the row steps of the fused stage. Those that must be a stage of their own before it are
// added to `*stage`.
absl::StatusOr<ParallelSteps> AddRowSteps(const Fused& fused,
                                          const std::shared_ptr<RunContext>& context,
                                          std::unique_ptr<Stage>* stage) {
  ParallelSteps steps;
  std::vector<std::shared_ptr<const RowStep>> row_steps;
  std::shared_ptr<const RowSpec> spec = fused.input->spec;
  bool carries_errors = false;
  for (auto it = fused.on_rows.rbegin(); it != fused.on_rows.rend(); ++it) {
    const RowStep& row_step = *row_steps.emplace_back((*it)->as<RowWork>()->step);
    AddName((*it)->name, &steps.name);
    steps.one_to_one &= !row_step.filters();
    const bool ends = std::next(it) == fused.on_rows.rend();
    // Which row takes the place of another is known once the whole batch is decoded, and later
    // functions are to see that row.
    const bool cuts =
        !ends && row_step.replaces() && !(*std::next(it))->as<RowWork>()->step->catches();
    if (!ends && !cuts) continue;
    const RowStep& last = *fused.on_rows.front()->as<RowWork>()->step;
    if (cuts && last.catches()) {
      row_steps.push_back(last.CatchBefore(*(*it)->spec));
      steps.one_to_one = false;
    }
    absl::StatusOr<std::shared_ptr<const RowProgram>> program =
        RowProgram::Make(spec, std::exchange(row_steps, {}), carries_errors);
    if (!program.ok()) return program.status();
    spec = (*program)->output();
    carries_errors = last.catches();
    steps.rows = *std::move(program);
    if (ends) break;
    steps.input_may_await = (*it)->may_await;
    *stage = MakeParallelStage(std::move(*stage), std::exchange(steps, {}), *it, context);
  }
  return steps;
}

absl::StatusOr<std::unique_ptr<Stage>> CompileFused(const StepPtr& step,
                                                    std::shared_ptr<RunContext> context,
                                                    uint64_t epoch) {
  const Fused fused = Fuse(step);
  absl::StatusOr<std::unique_ptr<Stage>> input =
      fused.repeat ? MakeRepeated(fused.input, fused.repeat->epochs, context, epoch)
                   : Compile(fused.input, context, epoch);
  if (!input.ok()) return input;
  std::unique_ptr<Stage> stage = *std::move(input);
  if (fused.batch != nullptr) {
    stage = MakeBatchStage(std::move(stage), fused.input->spec, fused.batch->size,
                           fused.batch->drop_remainder, context->allocator);
  }
  if (fused.on_rows.empty() && fused.on_batches.empty()) return stage;

  absl::StatusOr<ParallelSteps> row_steps = AddRowSteps(fused, context, &stage);
  if (!row_steps.ok()) return row_steps.status();
  ParallelSteps steps = *std::move(row_steps);
  steps.input_may_await = step->may_await;
  if (fused.batch != nullptr && steps.rows != nullptr) AddName("batch", &steps.name);
  for (auto it = fused.on_batches.rbegin(); it != fused.on_batches.rend(); ++it) {
    AddName((*it)->name, &steps.name);
    if (const PrefetchWork* prefetch = (*it)->as<PrefetchWork>()) steps.prefetch = prefetch->count;
    const BatchFnWork* const work = (*it)->as<BatchFnWork>();
    if (work == nullptr) continue;
    steps.batches.push_back(work->fn);
    if ((*it)->makes_parts && context->merged) {
      steps.batches.push_back([merged = *context->merged](Batch& batch) {
        merged.DropDelivered(&batch);
        return absl::OkStatus();
      });
    }
    steps.one_to_one &= !work->changes_count;
    steps.at_most_one &= !work->changes_count;
  }
  return MakeParallelStage(std::move(stage), std::move(steps), step.get(), std::move(context));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Stage>> Compile(const StepPtr& step,
                                               std::shared_ptr<RunContext> context,
                                               uint64_t epoch) {
  if (const ShardsWork* shards = step->as<ShardsWork>()) {
    return MakeShards(*step, shards->reader, context, epoch);
  }
  if (const SourceWork* source = step->as<SourceWork>()) {
    const uint32_t number = context->sources.at(step.get());
    if (source->describe) {
      context->SetDescriber(number, [describe = source->describe](uint64_t, uint64_t position) {
        return describe(position);
      });
    }
    return source->make(epoch, number);
  }
  const StageWork* const work = step->as<StageWork>();
  if (work == nullptr) return CompileFused(step, std::move(context), epoch);
  StageInputs inputs;
  for (const StepPtr& input : step->inputs) {
    inputs.factories.push_back([input, context](uint64_t e) { return Compile(input, context, e); });
  }
  inputs.context = std::move(context);
  inputs.epoch = epoch;
  inputs.step = step.get();
  return work->make(inputs);
}

uint64_t NumberSources(const Step& step, RunContext* context) {
  uint64_t readers = 0;
  if (step.inputs.empty()) {
    const auto number = static_cast<uint32_t>(context->sources.size());
    const bool added = context->sources.try_emplace(&step, number).second;
    const ShardsWork* const shards = step.as<ShardsWork>();
    readers += added && shards != nullptr && shards->reader.budget_bytes == 0;
  }
  for (const StepPtr& input : step.inputs) readers += NumberSources(*input, context);
  return readers;
}

}  // namespace shardfeed
