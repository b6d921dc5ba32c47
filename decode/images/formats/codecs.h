// Decodes whole images other than JPEGs: PNG with libpng, WebP with libwebp, GIF with giflib, and
// BMP; TIFF with libtiff, AVIF and HEIC with libheif, and JPEG XL with libjxl, each of which is
// loaded when the first such image comes.

#ifndef SHARDFEED_DECODE_IMAGES_FORMATS_CODECS_H_
#define SHARDFEED_DECODE_IMAGES_FORMATS_CODECS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "decode/images/formats/raw_samples.h"
#include "media/image_header.h"

namespace shardfeed {

// Decodes `bytes`, whose header is `header`, into rows of RGB (`channels` 3) or gray (1) pixels
// without gaps; `header` must have the size of the image. Of 16-bit samples the upper byte is
// taken. Transparency is ignored: the stored colors are taken unblended. Of an animation or of
// several pages, the first is decoded. The part of a GIF's canvas that its first image does not
// cover is black. Thread-safe.
//
// DataLoss: cut off or damaged. Unimplemented: a kind that the codec cannot decode, or the codec's
// library is not installed. ResourceExhausted: not enough memory. Messages do not name the file.
absl::Status DecodeWithCodec(std::string_view bytes, const ImageHeader& header, int channels,
                             std::vector<uint8_t>* pixels);

// Reads the samples of the first image as they are stored, without scaling: palette indices, 16
// bits, alpha as a channel beside the colors, values of ink. Errors are those of DecodeWithCodec
// and of RawSamples::Start. Thread-safe.
absl::Status ReadRawWithCodec(std::string_view bytes, const ImageHeader& header,
                              RawSamples* samples);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_FORMATS_CODECS_H_
