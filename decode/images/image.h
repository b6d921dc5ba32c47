// Decodes parts of images of any format, resized, in the layout and type that a network takes.

#ifndef SHARDFEED_DECODE_IMAGES_IMAGE_H_
#define SHARDFEED_DECODE_IMAGES_IMAGE_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "decode/images/formats/raw_samples.h"
#include "decode/images/jpeg/jpeg.h"
#include "decode/images/pixels/normalize.h"
#include "decode/images/pixels/resample.h"
#include "shardfeed/images.h"

namespace shardfeed {

// InvalidArgument: an option is invalid; the message names it.
absl::Status CheckImageOptions(const ImageOptions& options);

struct ImageSize {
  uint32_t width = 0;
  uint32_t height = 0;
};

struct ImageBox {
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t width = 0;
  uint32_t height = 0;
};

// Decodes one image after another, reusing its memory. Not thread-safe: use one for each thread.
//
// Only the part of a JPEG that the box needs is decoded (see JpegDecoder). If the box is at least
// 2, 4 or 8 times larger than the result in both directions, it is decoded at 1/2, 1/4 or 1/8 of
// its size (except for kNearest, raw samples and without dct_scaling). All other images are decoded
// whole.
class ImageDecoder {
 public:
  // CheckImageOptions must accept the options.
  explicit ImageDecoder(const ImageOptions& options);
  ~ImageDecoder();
  ImageDecoder(const ImageDecoder&) = delete;
  ImageDecoder& operator=(const ImageDecoder&) = delete;

  // Reads the header and returns the image's size, after its Exif orientation is applied if
  // `orient` is set. `bytes` must remain unchanged until the last Decode. DataLoss: not an image of
  // a format that ReadImageHeader knows. ResourceExhausted: it has more than max_pixels.
  absl::StatusOr<ImageSize> Open(std::string_view bytes);

  // Writes `box` of the image that was opened last, resized, to `out`, without gaps. The box is not
  // empty and lies inside the image. `flip` exchanges left and right. InvalidArgument: the image
  // does not store the samples that `raw` options ask for. Other errors are those of JpegDecoder,
  // DecodeWithCodec and RawSamples::Start; after one the content of `out` is unspecified.
  absl::Status Decode(const ImageBox& box, bool flip, void* out);

  // As Decode, for a part of the image resized to `resized`: writes `box`, which lies inside that
  // and has the size of the result.
  absl::Status DecodeResized(const ImageSize& resized, const ImageBox& box, bool flip, void* out);

  // Size of a result in bytes.
  size_t result_bytes() const;
  // Bytes of memory that are kept for the next image.
  size_t kept_bytes() const { return pixels_.capacity() + raw_.kept_bytes(); }

 private:
  // A part of the image that may begin and end within a pixel.
  struct Region {
    double x;
    double y;
    double width;
    double height;
  };
  // DataLoss, too: the JPEG is not as large as its header says.
  absl::Status DecodeJpeg(const JpegCrop& crop, uint8_t* pixels, size_t row_bytes);
  // `box` has all pixels that matter for `region`.
  absl::Status DecodeLevels(const Region& region, const ImageBox& box, bool flip, void* out);
  // Writes the given columns and rows of the image.
  absl::Status DecodeRaw(const std::vector<uint32_t>& columns, const std::vector<uint32_t>& rows,
                         bool flip, void* out);

  const ImageOptions options_;
  JpegDecoder jpeg_;
  Resampler resampler_;
  std::unique_ptr<Normalizer> normalizer_;  // null: resized pixels are the result
  std::string_view bytes_;
  bool is_jpeg_ = false;
  bool decoded_ = false;  // pixels_ or raw_ holds the whole image
  std::string_view format_;
  ImageSize stored_;       // size as stored in the file
  uint32_t channels_ = 0;  // as stored; 0: the header does not tell
  int orientation_ = 1;
  std::vector<uint8_t> pixels_;
  RawSamples raw_;
  std::vector<uint8_t> resized_;
  std::vector<uint8_t> turned_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_IMAGE_H_
