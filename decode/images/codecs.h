// Whole images that are not JPEGs as pixels: PNG by libpng, WebP by libwebp, GIF by giflib, TIFF by
// libtiff, which is opened when the first such image comes, and BMP. PNGs are made by OpenCV.

#ifndef SHARDFEED_DECODE_IMAGES_CODECS_H_
#define SHARDFEED_DECODE_IMAGES_CODECS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "decode/images/image_header.h"

namespace shardfeed {

// Decodes `bytes`, whose header is `header`, into rows of RGB (`channels` 3) or grey (1) pixels
// without gaps; `header`'s size is that of the image. Of 16-bit samples the upper byte is taken,
// transparency is left out: the colours under it are taken as they stand. Of an animation or of
// several pages, the first. What a GIF's first image does not cover of its canvas is black.
// Thread safe.
//
// DataLoss: cut off or damaged. Unimplemented: a kind that the codec cannot decode, or its library
// is not installed. ResourceExhausted: no memory. Messages do not have the file's name.
absl::Status DecodeWithCodec(std::string_view bytes, const ImageHeader& header, int channels,
                             std::vector<uint8_t>* pixels);

// The PNG of `height` rows of `width` RGB pixels without gaps. Thread safe. Unimplemented: OpenCV's
// codecs are not installed.
absl::Status EncodePng(const uint8_t* pixels, uint32_t width, uint32_t height, std::string* png);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_CODECS_H_
