// Repeats a stream for several epochs.

#ifndef SHARDFEED_PIPELINE_STAGES_REPEAT_STAGE_H_
#define SHARDFEED_PIPELINE_STAGES_REPEAT_STAGE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "pipeline/stages/stage.h"

namespace shardfeed {

// Delivers `epochs` epochs of the input (0: without end), beginning with `epoch`.
absl::StatusOr<std::unique_ptr<Stage>> MakeRepeatStage(StageFactory input, uint64_t epochs,
                                                       uint64_t epoch);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_REPEAT_STAGE_H_
