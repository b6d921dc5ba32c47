// A stage that resumes by repeating its work.

#ifndef SHARDFEED_PIPELINE_STAGES_REPLAY_STAGE_H_
#define SHARDFEED_PIPELINE_STAGES_REPLAY_STAGE_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "pipeline/stages/stage.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// Returns the next elements, as Stage::Next does.
using NextFn = std::function<absl::Status(Batch* out)>;

// Delivers what a function made by `make` returns. For work with more state than a state document
// should hold: the state is the number of elements delivered, and Load makes a new function and
// drops that many elements.
absl::StatusOr<std::unique_ptr<Stage>> MakeReplayStage(
    std::function<absl::StatusOr<NextFn>()> make);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_REPLAY_STAGE_H_
