// AVIF and HEIC: the part that is shown lies in the image, and decoding holds what CheckImage
// expects, with libheif if it is installed.

#include "media/heif_header.h"
#include "tests/fuzz/image_fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = testing::View(data, size);
  const absl::StatusOr<HeifHeader> header = ReadHeifHeader(bytes);
  if (header.ok()) {
    FUZZ_EXPECT(header->width > 0 && header->height > 0);
    FUZZ_EXPECT(uint64_t{header->left} + header->width <= header->stored_width);
    FUZZ_EXPECT(uint64_t{header->top} + header->height <= header->stored_height);
    FUZZ_EXPECT(header->chroma >= 0 && header->chroma <= 3);
  }
  if (!HeifFormatOf(bytes).empty()) testing::CheckImage(bytes);
  return 0;
}

}  // namespace shardfeed
