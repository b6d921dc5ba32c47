// Decodes, crops and resizes images directly into the batch.

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
// ratio are drawn until the part fits, at most ten times; then it is the largest central part
// within the bounds of the ratio.
ImageBox RandomResizedCrop(ImageSize size, const double (&scale)[2], const double (&ratio)[2],
                           Random& random);

// The step that decodes the column `feature` of rows of `spec`, and masks and views, and removes
// the encoded images. Boxes and points change with the image. With kReplace and kZero it adds a
// uint8 column OUTPUT/valid, which is 1 for each row whose images were decoded and 0 for each whose
// were not: then all of them are 0, boxes are empty and points too, or 0. Random numbers depend on
// (seed, source, epoch, position), as in RowContext.
//
// InvalidArgument: an invalid option, or boxes or points that cannot be that. Columns of images are
// not checked.
absl::StatusOr<std::shared_ptr<const RowStep>> MakeDecodeImageStep(
    const std::string& feature, const RowSpec& spec, const DecodeImageOptions& options);

// The options that differ from the defaults: "image/encoded, 224x224, crop=random, flip=0.5".
std::string DecodeImageText(const std::string& feature, const DecodeImageOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_DECODE_IMAGE_H_
