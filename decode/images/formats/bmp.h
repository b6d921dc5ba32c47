// Decoding of BMP files of Windows and OS/2.

#ifndef SHARDFEED_DECODE_IMAGES_FORMATS_BMP_H_
#define SHARDFEED_DECODE_IMAGES_FORMATS_BMP_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "decode/images/formats/raw_samples.h"
#include "media/image_header.h"

namespace shardfeed {

// Implements DecodeWithCodec (codecs.h) for BMP of 1, 2, 4, 8, 16, 24 and 32 bits, uncompressed,
// with bit masks or run-length encoded. A value v of n bits becomes v * 255 / (2^n - 1), rounded
// down, as in Pillow. Pixels that the runs skip have the first color of the palette. Thread-safe.
//
// Format: BITMAPINFOHEADER and its successors,
// https://learn.microsoft.com/windows/win32/gdi/bitmap-storage
absl::Status DecodeBmp(std::string_view bytes, const ImageHeader& header, int channels,
                       std::vector<uint8_t>* pixels);

// Implements ReadRawWithCodec (codecs.h) for BMP: indices of a palette, or red, green, blue and, if
// there is a mask for it, alpha. Pixels that the runs skip have index 0. Thread-safe.
absl::Status ReadRawBmp(std::string_view bytes, const ImageHeader& header, RawSamples* samples);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_FORMATS_BMP_H_
