// Decoding of TIFF files with libtiff, which is loaded when the first one comes.

#ifndef SHARDFEED_DECODE_IMAGES_FORMATS_TIFF_H_
#define SHARDFEED_DECODE_IMAGES_FORMATS_TIFF_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "decode/images/formats/raw_samples.h"
#include "media/image_header.h"

namespace shardfeed {

// Implements DecodeWithCodec (codecs.h) for the first page of a TIFF, ignoring its orientation.
// Colors that are stored premultiplied by their alpha are divided by it. Thread-safe.
absl::Status DecodeTiff(std::string_view bytes, const ImageHeader& header, int channels,
                        std::vector<uint8_t>* pixels);

// Implements ReadRawWithCodec (codecs.h) for the first page of a TIFF: unsigned samples of 1, 2, 4,
// 8 and 16 bits in any number of channels, the extra ones included. Nothing is inverted or divided
// by alpha; only colors that are compressed as JPEG become RGB. Thread-safe.
absl::Status ReadRawTiff(std::string_view bytes, const ImageHeader& header, RawSamples* samples);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_FORMATS_TIFF_H_
