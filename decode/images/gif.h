// GIF by giflib.

#ifndef SHARDFEED_DECODE_IMAGES_GIF_H_
#define SHARDFEED_DECODE_IMAGES_GIF_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "decode/images/image_header.h"

namespace shardfeed {

// DecodeWithCodec (codecs.h) for GIF: the first image. What it does not cover of its canvas is
// black. Thread-safe.
absl::Status DecodeGif(std::string_view bytes, const ImageHeader& header, int channels,
                       std::vector<uint8_t>* pixels);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_GIF_H_
