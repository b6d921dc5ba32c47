// TIFF by libtiff, which is opened when the first such image comes.

#ifndef SHARDFEED_DECODE_IMAGES_TIFF_H_
#define SHARDFEED_DECODE_IMAGES_TIFF_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "decode/images/image_header.h"

namespace shardfeed {

// DecodeWithCodec (codecs.h) for TIFF: the first page, as it is stored, whatever its orientation.
// Of colours that are stored multiplied by their alpha, the colours. Thread-safe.
absl::Status DecodeTiff(std::string_view bytes, const ImageHeader& header, int channels,
                        std::vector<uint8_t>* pixels);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_TIFF_H_
