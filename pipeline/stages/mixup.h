// Mixes the images of a batch and their labels with one another.

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
  // Pastes a rectangle of the partner, 1 - lambda of the area. (Yun et al.: CutMix, 2019)
  kCutMix,
};

// Mixes each row with the preceding one (the first with the last) by one lambda per batch, drawn
// from Beta(alpha, alpha), as torchvision.transforms.v2.MixUp and CutMix do. Labels become float32
// [num_classes], with lambda at the class of the row and 1 - lambda at that of its partner; for
// kCutMix, lambda is the fraction of the area that stays. Images are [height, width, channels] or,
// if the last size is neither 1 nor 3 and the first is, [channels, height, width]; kMixUp accepts
// any shape. uint8 values are rounded to nearest.
struct MixOptions {
  MixKind kind = MixKind::kMixUp;
  size_t image = 0;  // numbers of columns
  size_t label = 0;
  int64_t num_classes = 0;
  double alpha = 1;
  uint64_t seed = 0;
};

// The column that the labels become. InvalidArgument: these columns cannot be mixed; the message
// names `step`.
absl::Status CheckMix(std::string_view step, const RowSpec& spec, const MixOptions& options);
ColumnSpec MixedLabelSpec(const ColumnSpec& label, int64_t num_classes);

// Random numbers depend on the seed, and on the epoch and position of the first row of the batch.
// InvalidArgument: a label is not one of the classes.
BatchFn MakeMixFn(MixOptions options);

// Draws from Beta(alpha, alpha), alpha > 0.
double DrawBeta(double alpha, Random& random);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_MIXUP_H_
