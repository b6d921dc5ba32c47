// Steps whose rows are planned from the lengths of records: pack and batch_by_length.

#ifndef SHARDFEED_PIPELINE_STEPS_PLANNED_ROWS_H_
#define SHARDFEED_PIPELINE_STEPS_PLANNED_ROWS_H_

#include <functional>
#include <memory>
#include <string>

#include "pipeline/plan/step.h"
#include "pipeline/stages/stage.h"
#include "reader/plan/pack_plan.h"

namespace shardfeed {

// The work of the step `name`, whose input is a chain of Dataset::WithPlannedRows: a stage made
// from the input's stage and the plan. InvalidArgument in a run: the run is not deterministic.
StageWork OnPlannedRows(std::string name,
                        std::function<std::unique_ptr<Stage>(std::unique_ptr<Stage> stage,
                                                             std::shared_ptr<const PackPlan> plan,
                                                             const StageInputs& inputs)>
                            make);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STEPS_PLANNED_ROWS_H_
