// IDX files are converted or refused.

#include "convert/sources/idx.h"
#include "tests/fuzz/source_fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const testing::FuzzFile file("images", testing::View(data, size));
  const auto source = MakeIdxSource({file.path()});
  if (source.ok()) testing::RunSource(**source, /*skip_defects=*/false);
  return 0;
}

}  // namespace shardfeed
