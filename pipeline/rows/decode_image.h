// Encoded images to pixels, cropped and resized, straight into the batch.

#ifndef SHARDFEED_PIPELINE_ROWS_DECODE_IMAGE_H_
#define SHARDFEED_PIPELINE_ROWS_DECODE_IMAGE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "decode/images/image.h"
#include "pipeline/rows/row_step.h"
#include "shardfeed/functions.h"
#include "shardfeed/images.h"

namespace shardfeed {

// The part of an image that torchvision's RandomResizedCrop takes: an area and a logarithm of the
// ratio are drawn until the part fits, ten times at most; then the largest part in the middle that
// keeps to the ratio's bounds.
ImageBox RandomResizedCrop(ImageSize size, const double (&scale)[2], const double (&ratio)[2],
                           Random& random);

// The step that decodes the column `feature`, which it drops. With kReplace and kZero it also has a
// column OUTPUT/valid, a uint8 of 1 for each image that was decoded and 0 for each that was not.
// Random numbers are those of (seed, source, epoch, position), as RowContext's.
//
// InvalidArgument: an option that makes no sense.
absl::StatusOr<std::shared_ptr<const RowStep>> MakeDecodeImageStep(
    const std::string& feature, const DecodeImageOptions& options);

// "image/encoded, 224x224, crop=random, flip=0.5": what differs from the defaults.
std::string DecodeImageText(const std::string& feature, const DecodeImageOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_DECODE_IMAGE_H_
