// Images of a batch mixed with one another, and their labels with them.

#ifndef SHARDFEED_PIPELINE_STAGES_MIXUP_H_
#define SHARDFEED_PIPELINE_STAGES_MIXUP_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "pipeline/stages/parallel_stage.h"
#include "shardfeed/batch.h"
#include "shardfeed/functions.h"

namespace shardfeed {

enum class MixKind {
  // lambda * image + (1 - lambda) * partner. (Zhang et al.: mixup, 2017)
  kMixUp,
  // A rectangle of the partner's, 1 - lambda of the area. (Yun et al.: CutMix, 2019)
  kCutMix,
};

// Mixes each row with the row before it, the first with the last, by one lambda for the batch, from
// Beta(alpha, alpha): as torchvision.transforms.v2.MixUp and CutMix do. The labels become float32
// [num_classes], lambda at the row's class and 1 - lambda at its partner's; kCutMix: lambda is the
// part of the area that stays. Images are [height, width, channels] or, where the last size is
// neither 1 nor 3 and the first is, [channels, height, width]; kMixUp takes values of any shape.
// uint8 is rounded to nearest.
struct MixOptions {
  MixKind kind = MixKind::kMixUp;
  size_t image = 0;  // numbers of columns
  size_t label = 0;
  int64_t num_classes = 0;
  double alpha = 1;
  uint64_t seed = 0;
};

// What the labels' column becomes. InvalidArgument: these columns cannot be mixed so; `step` is
// named in the message.
absl::Status CheckMix(std::string_view step, const RowSpec& spec, const MixOptions& options);
ColumnSpec MixedLabelSpec(const ColumnSpec& label, int64_t num_classes);

// Random numbers depend on the seed, and on the epoch and position of the batch's first row.
// InvalidArgument: a label that is none of the classes.
BatchFn MakeMixFn(MixOptions options);

// From Beta(alpha, alpha), alpha > 0.
double DrawBeta(double alpha, Random& random);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_MIXUP_H_
