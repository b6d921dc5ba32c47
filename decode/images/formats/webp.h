// Decoding of WebP files with libwebp.

#ifndef SHARDFEED_DECODE_IMAGES_FORMATS_WEBP_H_
#define SHARDFEED_DECODE_IMAGES_FORMATS_WEBP_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "decode/images/formats/raw_samples.h"
#include "media/image_header.h"

namespace shardfeed {

// Implements DecodeWithCodec (codecs.h) for WebP. The part of the canvas that the first frame of an
// animation does not cover is black. Thread-safe.
absl::Status DecodeWebp(std::string_view bytes, const ImageHeader& header, int channels,
                        std::vector<uint8_t>* pixels);

// Implements ReadRawWithCodec (codecs.h) for WebP. Where the first frame of an animation is wholly
// transparent, its colors are 0. Thread-safe.
absl::Status ReadRawWebp(std::string_view bytes, const ImageHeader& header, RawSamples* samples);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_FORMATS_WEBP_H_
