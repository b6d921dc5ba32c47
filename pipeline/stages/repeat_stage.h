// The epochs of a stream, one after another.

#ifndef SHARDFEED_PIPELINE_STAGES_REPEAT_STAGE_H_
#define SHARDFEED_PIPELINE_STAGES_REPEAT_STAGE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "pipeline/stages/stage.h"

namespace shardfeed {

// The input's epochs, `epochs` of them (0: without end), one after another from `epoch` on.
absl::StatusOr<std::unique_ptr<Stage>> MakeRepeatStage(StageFactory input, uint64_t epochs,
                                                       uint64_t epoch);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_REPEAT_STAGE_H_
