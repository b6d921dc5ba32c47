// Columns that one part of a step makes for another, invisible to users.

#ifndef SHARDFEED_PIPELINE_STEPS_HIDDEN_H_
#define SHARDFEED_PIPELINE_STEPS_HIDDEN_H_

#include <memory>
#include <string>
#include <string_view>

#include "pipeline/stages/stage.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// The name of such a column of the step `step`, different from those in `spec`.
std::string HiddenName(const RowSpec& spec, std::string_view step);

// Removes the last column; `spec` is that of the others. Its values stay in memory.
void DropLastColumn(std::shared_ptr<const RowSpec> spec, Batch* batch);
// The same for everything that a stage delivers.
std::unique_ptr<Stage> MakeDropLastColumnStage(std::unique_ptr<Stage> input,
                                               std::shared_ptr<const RowSpec> spec);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STEPS_HIDDEN_H_
