// Checks, text and identity of JointColumns, for the steps that have them.

#ifndef SHARDFEED_PIPELINE_ROWS_JOINT_COLUMNS_H_
#define SHARDFEED_PIPELINE_ROWS_JOINT_COLUMNS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/data/identity.h"
#include "shardfeed/images.h"

namespace shardfeed {

// InvalidArgument: a column is named for two purposes, or is the image itself; only points may be
// box columns too. The message names `step` and the column.
absl::Status CheckJointNames(std::string_view step, const std::string& image,
                             const JointColumns& joint);

// The bytes of a mask's pixel of `num_values` values of type `dtype` that all are `fill`.
// InvalidArgument: the type cannot hold it, or is not a type of masks.
absl::StatusOr<std::string> MaskPixel(std::string_view step, DType dtype, size_t num_values,
                                      double fill);

// The columns and options that differ from the defaults, each after ", ": ", masks=[mask]".
std::string JointText(const JointColumns& joint);

// Adds nothing if `joint` names no columns, so that a step without them keeps its identity.
void AddJointColumns(const JointColumns& joint, Identity* identity);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_JOINT_COLUMNS_H_
