// Random augmentations of images, and of what belongs to them, as a step of a chain.

#ifndef SHARDFEED_PIPELINE_ROWS_AUGMENT_STEP_H_
#define SHARDFEED_PIPELINE_ROWS_AUGMENT_STEP_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pipeline/rows/augment.h"
#include "pipeline/rows/row_step.h"
#include "shardfeed/images.h"

namespace shardfeed {

// The step that augments the column `column` of rows of `spec`, which has the shape of the
// augmenter's images, and the columns of `joint`. Random numbers depend on the seed, the epoch and
// the row's position, not on `joint`.
//
// InvalidArgument: a column of `joint` does not exist or cannot be what it is named for.
absl::StatusOr<std::shared_ptr<const RowStep>> MakeAugmentStep(
    const std::string& column, const RowSpec& spec, std::shared_ptr<const ImageAugmenter> augmenter,
    uint64_t seed, const JointColumns& joint = {});

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_AUGMENT_STEP_H_
