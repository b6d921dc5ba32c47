// Crops beside libjpeg's whole image, and seekable rewriting beside libjpeg's coefficients. Five
// bytes choose the crop; the JPEG follows.

#include <cstring>
#include <vector>

#include "decode/images/jpeg/jpeg.h"
#include "decode/images/jpeg/seekable_jpeg.h"
#include "media/image_header.h"
#include "tests/decode/jpeg_images.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 6) return 0;
  const std::string jpeg(testing::View(data + 5, size - 5));
  const auto header = ReadImageHeader(jpeg);
  if (!header.ok() || header->format != "jpeg") return 0;
  if (uint64_t{header->width} * header->height > 1 << 16) return 0;

  SeekableJpegOptions rewriting;
  rewriting.max_scans = 20;
  std::string seekable;
  (void)IsSeekable(jpeg);
  const auto result = MakeSeekable(jpeg, rewriting, &seekable);
  if (result.ok() && result->outcome == SeekableJpeg::Outcome::kRewritten) {
    FUZZ_EXPECT(IsSeekable(seekable));
    FUZZ_EXPECT(testing::Coefficients(seekable) == testing::Coefficients(jpeg));
  }

  const int denominator = 1 << data[0] % 4;
  const uint32_t width = (header->width + denominator - 1) / denominator;
  const uint32_t height = (header->height + denominator - 1) / denominator;
  JpegCrop crop;
  crop.scale_denominator = denominator;
  crop.x = data[1] % width;
  crop.y = data[2] % height;
  crop.width = 1 + data[3] % (width - crop.x);
  crop.height = 1 + data[4] % (height - crop.y);
  std::vector<uint8_t> pixels(uint64_t{3} * crop.width * crop.height);
  JpegDecoderOptions options;
  options.max_scans = 20;
  options.accept_damaged = (data[0] & 4) != 0;
  const auto decoder = std::make_unique<JpegDecoder>(options);
  const bool ok = decoder->DecodeCrop(jpeg, crop, pixels.data(), 3 * crop.width).ok();
  if (header->channels == 4) return 0;  // libjpeg does not convert CMYK to RGB.
  const testing::Pixels whole = testing::DecodeByLibjpeg(jpeg, JCS_RGB, denominator);
  // Damage outside the crop is not checked; an intact image must be right.
  if (!whole.error.empty() || whole.warnings > 0) return 0;
  FUZZ_EXPECT(ok);
  FUZZ_EXPECT(whole.width == width && whole.height == height && whole.channels == 3);
  for (uint32_t y = 0; y < crop.height; ++y) {
    FUZZ_EXPECT(std::memcmp(pixels.data() + 3 * crop.width * y,
                            whole.values.data() + 3 * (width * (crop.y + y) + crop.x),
                            3 * crop.width) == 0);
  }
  return 0;
}

}  // namespace shardfeed
