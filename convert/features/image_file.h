// Image files: their names, and the features of each.

#ifndef SHARDFEED_CONVERT_FEATURES_IMAGE_FILE_H_
#define SHARDFEED_CONVERT_FEATURES_IMAGE_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "convert/features/image_rewriter.h"
#include "media/image_header.h"
#include "shardfeed/examples.h"

namespace shardfeed {

// Approximate size of an image's record without the image.
inline constexpr uint64_t kOtherFeatureBytes = 250;

// Whether the name has the suffix of an image: jpg, jpeg, png, bmp, webp, gif, tif, tiff, avif,
// heic, heif or jxl, in any case.
bool IsImageName(std::string_view path);
// Returns "jpg, jpeg, ...", for messages.
std::string ImageSuffixes();

// Adds image/encoded (the borrowed result of `rewriter`), image/filename (`name`), image/format,
// image/height and image/width of the image `bytes`, which were read from `path`. If `original` is
// set, it receives the header of `bytes`. Thread-safe.
//
// DataLoss, with `path`: not an image, or damaged before its size is known. Others: those of
// ImageRewriter.
absl::Status AddImage(const std::string& path, std::string_view name, std::string_view bytes,
                      const ImageRewriter& rewriter, ExampleBuilder& builder,
                      ImageHeader* original = nullptr);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_IMAGE_FILE_H_
