// An MDS shard: its header is refused, or its samples are read as Examples or refused one by one.

#include <memory>
#include <string>

#include "io/byte_source.h"
#include "tests/fuzz/fuzz.h"
#include "tfrecord/example_reader.h"
#include "tfrecord/mds_header.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = testing::View(data, size);
  absl::StatusOr<MdsHeader> header = ParseMdsHeader(bytes, size);
  if (!header.ok()) return 0;
  FUZZ_EXPECT(header->offsets.back() == size);
  for (uint64_t i = 0; i < header->samples(); ++i) FUZZ_EXPECT(header->SampleBytes(i) > 0);
  MemorySource source(bytes.substr(header->offsets.front()));
  RecordStreamOptions options;
  options.framing = Framing::kMds;
  options.block_bytes = 64;
  options.mds = std::make_shared<const MdsHeader>(*std::move(header));
  const MdsHeader& shard = *options.mds;
  RecordStream stream(&source, options);
  uint64_t samples = 0;
  while (samples < shard.samples()) {
    FUZZ_EXPECT(stream.record() == samples);
    RecordBlock block;
    if (!stream.Next(&block).ok()) {
      FUZZ_EXPECT(stream.defect() == FrameDefect::kMds);
      FUZZ_EXPECT(*stream.Recover() == shard.SampleBytes(samples++));
      continue;
    }
    FUZZ_EXPECT(!block.records.empty());
    for (const Record& record : block.records) {
      const uint64_t sample_bytes = shard.SampleBytes(samples++);
      FUZZ_EXPECT(FrameBytes(record, Framing::kMds) == sample_bytes + kFrameBytes);
      FUZZ_EXPECT(record.payload.size() <= shard.columns->MaxExampleBytes(1, sample_bytes));
      FUZZ_EXPECT(VisitBytes(record.payload, [](std::string_view, std::string_view) {}).ok());
    }
  }
  RecordBlock block;
  FUZZ_EXPECT(stream.Next(&block).ok() && block.records.empty());
  return 0;
}

}  // namespace shardfeed
