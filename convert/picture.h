// Pictures as files: how they are named, and the features that each gives.

#ifndef SHARDFEED_CONVERT_PICTURE_H_
#define SHARDFEED_CONVERT_PICTURE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tfrecord/example_builder.h"

namespace shardfeed {

// Whether the name ends like that of a picture: jpg, jpeg, png, bmp, webp, gif, tif, tiff, in any
// case.
bool IsPictureName(std::string_view path);
// "jpg, jpeg, ...", for messages.
std::string PictureSuffixes();

// Adds image/encoded (the bytes, borrowed), image/filename (`name`), image/format, image/height and
// image/width of the picture `bytes`, which were read from `path`. Thread safe.
//
// DataLoss, with `path`: not a picture, or damaged before its size is told.
absl::Status AddPicture(const std::string& path, std::string_view name, std::string_view bytes,
                        ExampleBuilder& builder);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_PICTURE_H_
