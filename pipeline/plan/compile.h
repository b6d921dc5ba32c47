// Makes the stages of a chain from its steps.

#ifndef SHARDFEED_PIPELINE_PLAN_COMPILE_H_
#define SHARDFEED_PIPELINE_PLAN_COMPILE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "pipeline/plan/step.h"
#include "pipeline/stages/run_context.h"
#include "pipeline/stages/stage.h"

namespace shardfeed {

// Makes the stage of the chain that ends with `step`, for the run of `context`, which knows its
// sources (NumberSources).
//
// Consecutive row steps run as one stage, together with the work on batches that follows them, but
// those after a step that replaces rows run as another. If no row is dropped, batching happens
// before them, so that they write directly into the batch. A
// repeat after such row steps also moves before them, and thereby into the reader of shards, whose
// threads continue from one epoch to the next.
absl::StatusOr<std::unique_ptr<Stage>> Compile(const StepPtr& step,
                                               std::shared_ptr<RunContext> context, uint64_t epoch);

// Numbers the sources in the order of the chain, so that random numbers do not depend on which is
// opened first. Returns the number of shard readers without a budget of their own.
uint64_t NumberSources(const Step& step, RunContext* context);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_PLAN_COMPILE_H_
