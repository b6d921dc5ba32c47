// Decoding of AVIF and HEIC files with libheif, which is loaded when the first one comes.

#ifndef SHARDFEED_DECODE_IMAGES_FORMATS_HEIF_H_
#define SHARDFEED_DECODE_IMAGES_FORMATS_HEIF_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "decode/images/formats/raw_samples.h"
#include "media/image_header.h"

namespace shardfeed {

// Implements DecodeWithCodec (codecs.h) for the primary image of an AVIF or HEIC file: the part of
// it that is shown (HeifHeader), without rotating or mirroring it. Colors that are stored
// premultiplied by their alpha are divided by it. Throws std::bad_alloc for a lack of
// memory. Thread-safe.
absl::Status DecodeHeif(std::string_view bytes, const ImageHeader& header, int channels,
                        std::vector<uint8_t>* pixels);

// Implements ReadRawWithCodec (codecs.h) for the primary image. Gray samples are as stored; of
// colors, which are stored as YCbCr, RGB with as many bits. Throws as DecodeHeif. Thread-safe.
absl::Status ReadRawHeif(std::string_view bytes, const ImageHeader& header, RawSamples* samples);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_FORMATS_HEIF_H_
