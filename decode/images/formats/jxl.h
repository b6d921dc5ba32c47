// Decoding of JPEG XL files with libjxl, which is loaded when the first one comes.

#ifndef SHARDFEED_DECODE_IMAGES_FORMATS_JXL_H_
#define SHARDFEED_DECODE_IMAGES_FORMATS_JXL_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "decode/images/formats/raw_samples.h"
#include "media/image_header.h"

namespace shardfeed {

// Implements DecodeWithCodec (codecs.h), without turning the image. Colors that are stored as XYB,
// which is what lossy encoders do, become sRGB; others are taken as they are stored, whatever their
// profile says. Colors that are multiplied by their alpha are divided by it. Thread-safe.
absl::Status DecodeJxl(std::string_view bytes, const ImageHeader& header, int channels,
                       std::vector<uint8_t>* pixels);

// Implements ReadRawWithCodec (codecs.h): gray or RGB, then all extra channels in their order, each
// of as many bits as the file says. Thread-safe.
absl::Status ReadRawJxl(std::string_view bytes, const ImageHeader& header, RawSamples* samples);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_FORMATS_JXL_H_
