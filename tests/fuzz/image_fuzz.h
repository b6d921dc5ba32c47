// What holds for every image, whatever its format.

#ifndef SHARDFEED_TESTS_FUZZ_IMAGE_FUZZ_H_
#define SHARDFEED_TESTS_FUZZ_IMAGE_FUZZ_H_

#include <string_view>
#include <vector>

#include "decode/images/exif.h"
#include "decode/images/formats/codecs.h"
#include "decode/images/formats/raw_samples.h"
#include "decode/images/pixels/colors.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed::testing {

constexpr uint64_t kMaxPixels = 1 << 18;

// The raw samples have one number of channels.
inline void CheckRaw(std::string_view bytes, const ImageHeader& header) {
  const size_t pixels = size_t{header.width} * header.height;
  int accepted = 0;
  for (int channels = 1; channels <= 5; ++channels) {
    RawSamples samples({.channels = channels});
    const absl::Status status = ReadRawWithCodec(bytes, header, &samples);
    if (absl::IsInvalidArgument(status)) continue;
    if (!status.ok()) return;
    FUZZ_EXPECT(++accepted == 1);
    FUZZ_EXPECT(samples.size() == pixels * channels * samples.sample_bytes());
  }
}

// An image other than a JPEG is decoded both in color and in gray or in neither, and the gray is
// that of the colors.
inline void CheckImage(std::string_view bytes) {
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(bytes);
  if (!header.ok()) return;
  const int orientation = ExifOrientation(bytes, header->format);
  FUZZ_EXPECT(orientation >= 1 && orientation <= 8);
  if (header->format == "jpeg" || header->decoded_pixels() > kMaxPixels) return;
  CheckRaw(bytes, *header);
  std::vector<uint8_t> rgb;
  std::vector<uint8_t> gray;
  const absl::Status in_color = DecodeWithCodec(bytes, *header, 3, &rgb);
  const absl::Status in_gray = DecodeWithCodec(bytes, *header, 1, &gray);
  FUZZ_EXPECT(in_color.code() == in_gray.code());
  if (!in_color.ok()) return;
  const size_t pixels = size_t{header->width} * header->height;
  FUZZ_EXPECT(rgb.size() == 3 * pixels && gray.size() == pixels);
  for (size_t i = 0; i < pixels; ++i) {
    FUZZ_EXPECT(gray[i] == GrayOf(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]));
  }
}

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_FUZZ_IMAGE_FUZZ_H_
