// Encoded images to pixels, cropped and resized, straight into the batch.

#ifndef SHARDFEED_PIPELINE_ROWS_DECODE_IMAGE_H_
#define SHARDFEED_PIPELINE_ROWS_DECODE_IMAGE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "decode/images/image.h"
#include "pipeline/data/random.h"
#include "pipeline/rows/row_step.h"

namespace shardfeed {

enum class CropKind {
  kNone,    // the whole image, squeezed into the size
  kCenter,  // the middle, of the result's shape
  kRandom,  // see RandomResizedCrop
};

// What to do with an image that cannot be decoded.
enum class OnDamage {
  kFail,     // the run ends with an error that names the record
  kReplace,  // another row of the same batch stands in its place, with all its columns
  kZero,     // its pixels are 0 (float: the value 0)
  kAccept,   // of a damaged JPEG what can be decoded is taken, the rest is grey; else as kFail
};

struct DecodeImageOptions {
  ImageOptions image;
  CropKind crop = CropKind::kNone;
  // kCenter: how much of the largest part of that shape. 0.875 is 224 of 256.
  double center_fraction = 0.875;
  // kRandom: parts of the image's area, and widths over heights.
  double scale[2] = {0.08, 1};
  double ratio[2] = {3.0 / 4, 4.0 / 3};
  // How likely left and right change places.
  double flip = 0;
  OnDamage on_damage = OnDamage::kFail;
  uint64_t seed = 0;  // of the crop and of the flip
  // Of the column of pixels. Empty: that of the encoded images, without "/encoded" at its end.
  std::string output;
};

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
