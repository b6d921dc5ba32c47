// A chain's stages, from its steps.

#ifndef SHARDFEED_PIPELINE_PLAN_COMPILE_H_
#define SHARDFEED_PIPELINE_PLAN_COMPILE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "pipeline/plan/step.h"
#include "pipeline/stages/run_context.h"
#include "pipeline/stages/stage.h"

namespace shardfeed {

// The stage of the chain that ends with `step`, for the run of `context`, which knows its sources
// (NumberSources).
//
// Row steps one after another run as one stage, and so does the work on batches behind them. Where
// all rows stay, what puts them into batches goes before them: then they are written to their place
// in the batch at once. What repeats such row steps goes before them too, and so into the reader of
// shards, whose threads go on from one epoch to the next.
absl::StatusOr<std::unique_ptr<Stage>> Compile(const StepPtr& step,
                                               std::shared_ptr<RunContext> context, uint64_t epoch);

// Numbers the chain's sources as they stand in it, so that random numbers do not depend on what is
// opened first. Gives the number of readers of shards that have no budget of their own.
uint64_t NumberSources(const Step& step, RunContext* context);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_PLAN_COMPILE_H_
