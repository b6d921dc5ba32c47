// PNG, WebP, TIFF, BMP and GIF: an image is decoded both in color and in gray or in neither, and
// the gray is that of the colors. Its raw samples have one number of channels.

#include "tests/fuzz/image_fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  testing::CheckImage(testing::View(data, size));
  return 0;
}

}  // namespace shardfeed
