// Decoding of GIF files with giflib.

#ifndef SHARDFEED_DECODE_IMAGES_FORMATS_GIF_H_
#define SHARDFEED_DECODE_IMAGES_FORMATS_GIF_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "decode/images/formats/raw_samples.h"
#include "media/image_header.h"

namespace shardfeed {

// Implements DecodeWithCodec (codecs.h) for the first image of a GIF. The part of the canvas that
// it does not cover is black. Thread-safe.
absl::Status DecodeGif(std::string_view bytes, const ImageHeader& header, int channels,
                       std::vector<uint8_t>* pixels);

// Implements ReadRawWithCodec (codecs.h) for the first image of a GIF. Where it does not cover the
// canvas, indices are 0. Thread-safe.
absl::Status ReadRawGif(std::string_view bytes, const ImageHeader& header, RawSamples* samples);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_FORMATS_GIF_H_
