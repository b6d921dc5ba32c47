// Images as files: how they are named, and the features that each gives.

#ifndef SHARDFEED_CONVERT_FEATURES_IMAGE_FILE_H_
#define SHARDFEED_CONVERT_FEATURES_IMAGE_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "convert/features/image_rewriter.h"
#include "shardfeed/examples.h"

namespace shardfeed {

// What an image's record takes beside the image, about.
inline constexpr uint64_t kOtherFeatureBytes = 250;

// Whether the name ends like that of an image: jpg, jpeg, png, bmp, webp, gif, tif, tiff, in any
// case.
bool IsImageName(std::string_view path);
// "jpg, jpeg, ...", for messages.
std::string ImageSuffixes();

// Adds image/encoded (what `rewriter` makes of the bytes, borrowed), image/filename (`name`),
// image/format, image/height and image/width of the image `bytes`, which were read from `path`.
// Thread safe.
//
// DataLoss, with `path`: not an image, or damaged before its size is told. Others: those of
// ImageRewriter.
absl::Status AddImage(const std::string& path, std::string_view name, std::string_view bytes,
                      const ImageRewriter& rewriter, ExampleBuilder& builder);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_IMAGE_FILE_H_
