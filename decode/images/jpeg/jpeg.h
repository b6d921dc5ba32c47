// Decodes rectangles of JPEG images.
//
// The pixels are bit for bit those that libjpeg-turbo produces for the whole image (accurate
// integer DCT, smooth upsampling of the chroma), but the work for the rest of the image is saved.

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
  // The image is first scaled by 1/1, 1/2, 1/4 or 1/8 in its transform, which is cheaper than
  // decoding it at full size. Sizes are rounded up.
  int scale_denominator = 1;
  // In pixels of the scaled image; must lie inside it.
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t width = 0;
  uint32_t height = 0;
  // 3 for RGB, 1 for gray by ITU-R BT.601. Gray images are converted to RGB if asked for. CMYK is
  // converted without a profile: (255 - C) * (255 - K) / 255, with Adobe's inverted CMYK
  // recognized.
  int channels = 3;
};

// How an image was decoded.
enum class JpegPath {
  kRestarts,  // only the restart intervals that the crop touches were decoded
  kSkipped,   // entropy decoding up to the end of the crop, pixels only for the crop
  kLibjpeg,   // libjpeg alone: progressive, arithmetic, several scans, or damaged
};

// Decodes one image after another, reusing its memory. Not thread-safe: use one for each thread.
// Large, so keep it on the heap.
class JpegDecoder {
 public:
  explicit JpegDecoder(const JpegDecoderOptions& options = {});
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Writes the rows of the crop to `pixels`, `row_bytes` apart, with interleaved channels. An Exif
  // orientation is not applied.
  //
  // An image is damaged if libjpeg warns about it; with accept_damaged, the pixels are those that
  // libjpeg makes of it. Data that the crop does not need is not checked, so damage elsewhere is no
  // error. A crop that includes the last pixel of the image also checks what follows, up to EOI.
  //
  // InvalidArgument: the crop is empty or not inside the image, or an option is invalid. DataLoss:
  // not a JPEG, cut off or damaged. Unimplemented: a kind of JPEG that cannot be decoded.
  // ResourceExhausted: a limit of the options is exceeded, or there is not enough memory. Messages
  // do not name the file, which the caller knows. After an error the content of `pixels` is
  // unspecified.
  absl::Status DecodeCrop(std::string_view jpeg, const JpegCrop& crop, uint8_t* pixels,
                          size_t row_bytes);

  // How the last image was decoded.
  JpegPath path() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_JPEG_H_
