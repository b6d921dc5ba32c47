// Streams of MDS shards: blocks of records, and damage.

#include "tfrecord/mds_frames.h"

#include <algorithm>
#include <memory>

#include "io/byte_source.h"
#include "tests/testing/files.h"
#include "tests/testing/mds_shards.h"
#include "tfrecord/example_text.h"
#include "tfrecord/mds_header.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {
namespace {

using testing::Bytes;
using ::testing::ElementsAre;
using testing::MdsConfig;
using testing::MdsSample;
using testing::MdsShard;

class MdsFramesTest : public ::testing::Test {
 protected:
  MdsFramesTest() {
    std::vector<std::string> samples;
    for (const char* text : {"a", "bc", "", "defg", "h"}) samples.push_back(SampleOf(text));
    shard_ = MdsShard(MdsConfig({{"n", "int16", 2}, {"text", "str"}}), samples);
  }

  static std::string SampleOf(const std::string& text) {
    const auto size = static_cast<uint32_t>(text.size());
    return MdsSample({size}, {Bytes<int16_t>({static_cast<int16_t>(size)}), text});
  }
  // The stream of the shard from `record` on.
  RecordStream Open(uint64_t record = 0, size_t block_bytes = 1 << 20) {
    auto header = ParseMdsHeader(shard_, shard_.size());
    EXPECT_OK(header);
    const uint64_t begin = header->offsets[record];
    source_ = std::make_unique<MemorySource>(std::string_view(shard_).substr(begin));
    RecordStreamOptions options;
    options.framing = Framing::kMds;
    options.block_bytes = block_bytes;
    options.first_record = record;
    options.stream_offset = begin - header->offsets[0] + record * kFrameBytes;
    options.mds = std::make_shared<const MdsHeader>(*std::move(header));
    return {source_.get(), options};
  }

  std::string shard_;
  std::unique_ptr<ByteSource> source_;
};

TEST_F(MdsFramesTest, BlocksOfEverySizeDeliverAllSamples) {
  for (const size_t block_bytes : {1, 7, 13, 100, 1 << 20}) {
    for (uint64_t first = 0; first <= 5; ++first) {
      RecordStream stream = Open(first, block_bytes);
      std::vector<std::string> records;
      uint64_t offset = stream.offset();
      RecordsDigest digest(Framing::kMds);
      RecordBlock block;
      while (true) {
        ASSERT_OK(stream.Next(&block));
        if (block.records.empty()) break;
        EXPECT_EQ(block.first_record, first + records.size());
        digest.Add(block.records);
        for (const Record& record : block.records) {
          EXPECT_EQ(record.offset, offset);
          offset += FrameBytes(record, Framing::kMds);
          records.push_back(*ExampleToJson(record.payload));
        }
      }
      std::vector<std::string> expected = {
          R"({"n":[1],"text":["a"]})", R"({"n":[2],"text":["bc"]})", R"({"n":[0],"text":[""]})",
          R"({"n":[4],"text":["defg"]})", R"({"n":[1],"text":["h"]})"};
      expected.erase(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(first));
      EXPECT_EQ(records, expected);
      EXPECT_EQ(stream.offset(), 5 * (kFrameBytes + 6) + 8);
      ASSERT_OK(stream.Next(&block));
      EXPECT_TRUE(block.records.empty());
      // It follows from the header alone.
      RecordsDigest of_header;
      const auto header = ParseMdsHeader(shard_, shard_.size());
      for (uint64_t i = first; i < 5; ++i) {
        of_header.Add(header->SampleBytes(i), header->columns->crc());
      }
      EXPECT_EQ(digest.value(), of_header.value());
    }
  }
}

TEST_F(MdsFramesTest, DamagedSamplesAreToldAndPassed) {
  const auto header = ParseMdsHeader(shard_, shard_.size());
  shard_[header->offsets[1]] = 100;
  shard_[header->offsets[2]] = 100;
  for (const size_t block_bytes : {1, 100}) {
    RecordStream stream = Open(0, block_bytes);
    RecordBlock block;
    ASSERT_OK(stream.Next(&block));
    EXPECT_EQ(block.records.size(), 1u);
    EXPECT_FAILS(stream.Next(&block), kDataLoss,
                 fmt::format("record 1 at byte {}: its column \"text\" has 100 bytes, more than "
                             "the 2 that are left of the sample",
                             header->offsets[1]));
    EXPECT_EQ(stream.defect(), FrameDefect::kMds);
    EXPECT_EQ(stream.record(), 1u);
    EXPECT_EQ(*stream.Recover(), 8u);
    EXPECT_FAILS(stream.Next(&block), kDataLoss,
                 fmt::format("record 2 at byte {}: ", header->offsets[2]));
    EXPECT_EQ(*stream.Recover(), 6u);
    std::vector<std::string> records;
    while (true) {
      ASSERT_OK(stream.Next(&block));
      if (block.records.empty()) break;
      for (const Record& record : block.records) records.push_back(*ExampleToJson(record.payload));
    }
    EXPECT_THAT(records, ElementsAre(R"({"n":[4],"text":["defg"]})", R"({"n":[1],"text":["h"]})"));
    EXPECT_EQ(stream.offset(), 5 * (kFrameBytes + 6) + 8);
  }
}

TEST_F(MdsFramesTest, AFileThatWasCutMeanwhile) {
  auto header = std::make_shared<const MdsHeader>(*ParseMdsHeader(shard_, shard_.size()));
  MemorySource cut(std::string_view(shard_).substr(header->offsets[3], 12));
  RecordStreamOptions options;
  options.framing = Framing::kMds;
  options.first_record = 3;
  options.mds = header;
  RecordStream shorter(&cut, options);
  RecordBlock block;
  ASSERT_OK(shorter.Next(&block));
  EXPECT_EQ(block.records.size(), 1u);
  EXPECT_FAILS(
      shorter.Next(&block), kDataLoss,
      fmt::format("record 4 at byte {}: the file ends before it does", header->offsets[4]));
}

}  // namespace
}  // namespace shardfeed
