// A stage that comes to a place by going there once more.

#ifndef SHARDFEED_PIPELINE_STAGES_REPLAY_STAGE_H_
#define SHARDFEED_PIPELINE_STAGES_REPLAY_STAGE_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "pipeline/stages/stage.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// Gives the next elements, as Stage::Next.
using NextFn = std::function<absl::Status(Batch* out)>;

// Delivers what a function that `make` makes gives. For work that remembers more than a state is to
// have: the state is the number of elements that were delivered. Load makes the function anew, and
// what was delivered before is made again and dropped.
absl::StatusOr<std::unique_ptr<Stage>> MakeReplayStage(
    std::function<absl::StatusOr<NextFn>()> make);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_REPLAY_STAGE_H_
