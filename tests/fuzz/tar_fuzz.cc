// Members of a tar archive, each read to its end; and its samples, read in place.

#include <algorithm>
#include <string>
#include <vector>

#include "convert/input/tar_reader.h"
#include "tests/fuzz/fuzz.h"
#include "tfrecord/example_reader.h"
#include "tfrecord/tar_frames.h"

namespace shardfeed {
namespace {

// Frames follow one another, each payload is an Example with a key, and a frame alone is read as in
// the archive.
void ReadSamples(std::string_view bytes) {
  std::string archive(bytes);
  std::vector<Record> records;
  const FrameScan scan =
      ScanTarFrames(absl::MakeSpan(archive), 0, /*at_end=*/true, bytes.size(), SIZE_MAX, &records);
  size_t end = 0;
  for (const Record& record : records) {
    FUZZ_EXPECT(record.offset == end);
    const size_t size = record.payload.size() + kFrameBytes;
    size_t keys = 0;
    FUZZ_EXPECT(VisitBytes(record.payload, [&keys](std::string_view name, std::string_view) {
                  keys += name == "__key__";
                }).ok());
    FUZZ_EXPECT(keys == 1);
    std::string frame(bytes.substr(end, size));
    std::string_view alone;
    FUZZ_EXPECT(ReadTarFrame(absl::MakeSpan(frame), end, &alone).empty());
    FUZZ_EXPECT(alone == record.payload);
    end += size;
  }
  FUZZ_EXPECT(scan.consumed == end);
  archive = bytes;
  std::string_view payload;
  if (ReadTarFrame(absl::MakeSpan(archive), 0, &payload).empty()) {
    FUZZ_EXPECT(payload.size() + kFrameBytes == bytes.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ReadSamples(testing::View(data, size));
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
