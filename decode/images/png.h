// Decoding of PNG files with libpng.

#ifndef SHARDFEED_DECODE_IMAGES_PNG_H_
#define SHARDFEED_DECODE_IMAGES_PNG_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "decode/images/image_header.h"

namespace shardfeed {

// Implements DecodeWithCodec (codecs.h) for PNG. Chunks that describe colour (gAMA, sRGB, iCCP ...)
// are ignored. Thread safe.
absl::Status DecodePng(std::string_view bytes, const ImageHeader& header, int channels,
                       std::vector<uint8_t>* pixels);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_PNG_H_
