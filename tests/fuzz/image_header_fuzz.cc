// ReadImageHeader on any bytes.

#include "media/image_header.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto header = ReadImageHeader(testing::View(data, size));
  if (header.ok()) FUZZ_EXPECT(header->width > 0 && header->height > 0 && header->channels <= 4);
  return 0;
}

}  // namespace shardfeed
