// Members of a tar archive, each read to its end.

#include "convert/input/tar_reader.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const testing::FuzzFile file("a.tar", testing::View(data, size));
  auto reader = BinaryReader::Open(file.path());
  if (!reader.ok()) return 0;
  TarReader tar(*std::move(reader), file.path());
  TarMember member;
  // A compressed archive may have many more members than bytes.
  for (int i = 0; i < 1000; ++i) {
    const auto found = tar.Next(&member);
    if (!found.ok() || !*found) return 0;
    if (!tar.compressed()) FUZZ_EXPECT(member.offset <= size);
    uint64_t left = member.size;
    while (left > 0 && left < 1 << 20) {
      const size_t wanted = left < 1000 ? left : 1000;
      const auto read = tar.Read(wanted);
      if (!read.ok()) return 0;
      FUZZ_EXPECT(read->size() == wanted);
      left -= wanted;
    }
  }
  return 0;
}

}  // namespace shardfeed
