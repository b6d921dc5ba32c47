// Performs random augmentations of images.

#ifndef SHARDFEED_PIPELINE_ROWS_AUGMENT_H_
#define SHARDFEED_PIPELINE_ROWS_AUGMENT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "decode/images/pixels/image_view.h"
#include "decode/images/pixels/moved_pixels.h"
#include "pipeline/rows/augmentations.h"
#include "shardfeed/functions.h"

namespace shardfeed {

// Applies augmentations one after another to images of one size. Immutable; thread-safe.
class ImageAugmenter {
 public:
  // Working memory of one thread, kept from one image to the next.
  struct Memory {
    std::vector<uint8_t> first;
    std::vector<uint8_t> image[2];
    std::vector<uint8_t> bytes;
    std::vector<float> floats;
  };

  // For images [height, width, channels]. InvalidArgument: a parameter is out of its range, or the
  // image is too small for a step; the message names both.
  static absl::StatusOr<std::shared_ptr<const ImageAugmenter>> Make(std::vector<Augmentation> steps,
                                                                    int height, int width,
                                                                    int channels);

  // Size of the images in pixels.
  int height() const { return height_; }
  int width() const { return width_; }
  // [height, width, channels] of the result.
  std::array<int64_t, 3> output_shape() const { return output_shape_; }
  // The steps as torchvision would write them: "RandomHorizontalFlip(p=0.5), RandomErasing(p=0.25,
  // ...)".
  const std::string& text() const { return text_; }

  // `from` and `to` may be the same memory if the shapes are equal. All random numbers are drawn
  // from `random`. `moved`, which has begun with an image of this size, follows; it may be null.
  void Run(const uint8_t* from, uint8_t* to, Random& random, Memory* memory,
           augment::MovedPixels* moved = nullptr) const;

 private:
  ImageAugmenter() = default;

  std::vector<Augmentation> steps_;
  int height_ = 0;
  int width_ = 0;
  int channels_ = 0;
  std::array<int64_t, 3> output_shape_ = {};
  std::string text_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_AUGMENT_H_
