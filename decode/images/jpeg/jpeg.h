// Rectangles of JPEG images as pixels.
//
// The pixels are those that libjpeg-turbo gives for the whole image (accurate integer DCT, smooth
// upsampling of the chroma), bit for bit; only the work for the rest is saved.

#ifndef SHARDFEED_DECODE_IMAGES_JPEG_JPEG_H_
#define SHARDFEED_DECODE_IMAGES_JPEG_JPEG_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "shardfeed/images.h"

namespace shardfeed {

struct JpegCrop {
  // The image is scaled by 1/1, 1/2, 1/4 or 1/8 first, in its transform, which is cheaper than to
  // decode it whole. Sizes are rounded up.
  int scale_denominator = 1;
  // In pixels of the scaled image, and inside of it.
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t width = 0;
  uint32_t height = 0;
  // 3: RGB. 1: grey, by ITU-R BT.601. Colour is made of grey, and RGB of CMYK without a profile:
  // (255 - C) * (255 - K) / 255, with Adobe's inverted CMYK understood.
  int channels = 3;
};

// How an image was decoded.
enum class JpegPath {
  kRestarts,  // decoded only the restart intervals that the crop touches
  kSkipped,   // the entropy-coded data up to the crop's end, the pixels only under it
  kLibjpeg,   // decoded by libjpeg alone: progressive, arithmetic, several scans, damaged
};

// Decodes one image after another with the same memory. Not thread safe: have one for each
// thread. Large; keep it on the heap.
class JpegDecoder {
 public:
  explicit JpegDecoder(const JpegDecoderOptions& options = {});
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Writes the rows of the crop to `pixels`, each `row_bytes` after the one before, channels
  // interleaved. An Exif orientation is not applied.
  //
  // An image is damaged if libjpeg warns of it; with accept_damaged, the pixels are those that
  // libjpeg makes of it. Data that the crop does not take is not looked at, so damage elsewhere is
  // no error. With the last pixel of the image, the crop takes all that follows it, up to EOI.
  //
  // InvalidArgument: the crop is empty or not inside of the image, or an option is wrong.
  // DataLoss: not a JPEG, cut off or damaged. Unimplemented: a kind of JPEG that cannot be decoded.
  // ResourceExhausted: a limit of the options, or memory. Messages do not have the file's name: the
  // caller knows that. After an error `pixels` holds nothing of use.
  absl::Status DecodeCrop(std::string_view jpeg, const JpegCrop& crop, uint8_t* pixels,
                          size_t row_bytes);

  // Of the last image that was decoded.
  JpegPath path() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_JPEG_H_
