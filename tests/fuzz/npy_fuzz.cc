// NPY, in memory and as a file to convert: values lie inside the bytes, and their number matches
// the shape.

#include "convert/sources/npy.h"
#include "decode/features/npy.h"
#include "tests/fuzz/source_fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = testing::View(data, size);
  if (const auto array = ParseNpy(bytes); array.ok()) {
    FUZZ_EXPECT(array->values.empty() ||
                (array->values.data() >= bytes.data() &&
                 array->values.data() + array->values.size() <= bytes.data() + size));
    unsigned __int128 expected = DTypeSize(array->dtype);
    for (const int64_t length : array->shape) {
      FUZZ_EXPECT(length >= 0);
      if (length == 0) expected = 0;
    }
    for (const int64_t length : array->shape) {
      if (expected > 0) expected *= length;
      FUZZ_EXPECT(expected <= size);
    }
    FUZZ_EXPECT(array->values.size() == expected);
  }
  const testing::FuzzFile file("a.npy", bytes);
  const auto source = MakeNpySource({file.path()});
  if (source.ok()) testing::RunSource(**source, /*skip_defects=*/false);
  return 0;
}

}  // namespace shardfeed
