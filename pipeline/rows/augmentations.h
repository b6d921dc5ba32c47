// Names and checks of random augmentations of images. The parameters are in shardfeed/images.h.

#ifndef SHARDFEED_PIPELINE_ROWS_AUGMENTATIONS_H_
#define SHARDFEED_PIPELINE_ROWS_AUGMENTATIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardfeed/images.h"

namespace shardfeed {
namespace augment {

// "RandomHorizontalFlip(p=0.5), RandomErasing(p=0.25, ...)", as torchvision would write them.
std::string Describe(const std::vector<Augmentation>& steps);

struct OutputSize {
  int height = 0;
  int width = 0;
};
// The size of the result for images [height, width, channels]. InvalidArgument: a parameter is out
// of its range, or the image is too small for a step; the message names both.
absl::StatusOr<OutputSize> Check(const std::vector<Augmentation>& steps, int height, int width,
                                 int channels);

}  // namespace augment
}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_AUGMENTATIONS_H_
