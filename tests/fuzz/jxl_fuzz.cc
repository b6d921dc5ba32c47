// JPEG XL: libjxl, if it is installed, agrees with the header that is read without it, or finds
// damage; and decoding holds what CheckImage expects.

#include <vector>

#include "decode/images/formats/codecs.h"
#include "media/image_header.h"
#include "media/jxl_header.h"
#include "tests/fuzz/image_fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = testing::View(data, size);
  const absl::StatusOr<JxlHeader> header = ReadJxlHeader(bytes);
  if (header.ok()) {
    FUZZ_EXPECT(header->width > 0 && header->height > 0);
    FUZZ_EXPECT(header->color_channels == 1 || header->color_channels == 3);
  }
  if (!IsJxl(bytes)) return 0;
  testing::CheckImage(bytes);
  // If a container has several codestreams, the two may take different ones.
  const absl::StatusOr<ImageHeader> image = ReadImageHeader(bytes);
  if (!image.ok() || image->decoded_pixels() > testing::kMaxPixels || bytes.front() == 0) return 0;
  std::vector<uint8_t> pixels;
  const absl::Status status = DecodeWithCodec(bytes, *image, 3, &pixels);
  FUZZ_EXPECT(status.message().find("but its header says") == status.message().npos);
  return 0;
}

}  // namespace shardfeed
