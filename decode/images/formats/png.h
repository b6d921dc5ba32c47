// Decoding and encoding of PNG files with libpng.

#ifndef SHARDFEED_DECODE_IMAGES_FORMATS_PNG_H_
#define SHARDFEED_DECODE_IMAGES_FORMATS_PNG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "decode/images/formats/raw_samples.h"
#include "media/image_header.h"

namespace shardfeed {

// Implements DecodeWithCodec (codecs.h) for PNG. Chunks that describe color (gAMA, sRGB, iCCP ...)
// are ignored. Thread-safe.
absl::Status DecodePng(std::string_view bytes, const ImageHeader& header, int channels,
                       std::vector<uint8_t>* pixels);

// Implements ReadRawWithCodec (codecs.h) for PNG. Thread-safe.
absl::Status ReadRawPng(std::string_view bytes, const ImageHeader& header, RawSamples* samples);

// Encodes `height` rows of `width` RGB pixels without gaps as PNG. Thread-safe. InvalidArgument:
// libpng refuses the size. ResourceExhausted: not enough memory.
absl::Status EncodePng(const uint8_t* pixels, uint32_t width, uint32_t height, std::string* png);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_FORMATS_PNG_H_
