#include "tfrecord/array_record_footer.h"

#include "base/little_endian.h"
#include "fmt/format.h"
#include "tests/testing/array_record_files.h"
#include "tests/testing/files.h"
#include "tfrecord/array_record_decoder.h"

namespace shardfeed {
namespace {

using testing::AppendRiegeli;
using testing::ArrayRecordEntry;
using testing::ArrayRecordFile;
using testing::ArrayRecordFooterChunk;
using testing::ArrayRecordTestRecord;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kArrayRecordTestRecords;
using testing::RiegeliStart;
using testing::SimpleRiegeliChunk;

absl::StatusOr<ArrayRecordFooter> FooterOf(std::string_view file) {
  const absl::StatusOr<uint64_t> offset = ParseArrayRecordPostscript(
      file.substr(file.size() - std::min<size_t>(file.size(), kRiegeliBlockBytes)), file.size());
  if (!offset.ok()) return offset.status();
  return ParseArrayRecordFooter(file.substr(*offset), *offset);
}

std::string Wrong(std::string_view file) {
  const auto footer = FooterOf(file);
  EXPECT_FALSE(footer.ok());
  return std::string(footer.status().message());
}

// The records of a file, chunk by chunk.
std::vector<std::string> RecordsOf(std::string_view file, const ArrayRecordFooter& footer) {
  std::vector<std::string> records;
  ArrayRecordDecoder decoder;
  for (const ArrayRecordChunk& chunk : footer.chunks) {
    EXPECT_EQ(chunk.first_record, records.size());
    EXPECT_THAT(
        decoder.Open(chunk, file.substr(chunk.begin, chunk.end - chunk.begin), CrcCheck::kAll),
        IsEmpty());
    std::string decoded(chunk.decoded_bytes, '\0');
    EXPECT_THAT(decoder.Decode(decoded.data()), IsEmpty());
    for (size_t at = 0; const uint64_t size : decoder.sizes()) {
      records.push_back(decoded.substr(at, size));
      at += size;
    }
  }
  return records;
}

TEST(ArrayRecordFooterTest, FilesOfTheReferenceOfEveryCompressionAreRead) {
  std::vector<std::string> expected;
  for (uint64_t i = 0; i < kArrayRecordTestRecords; ++i) {
    expected.push_back(ArrayRecordTestRecord(i));
  }
  for (const auto& [name, group] :
       {std::pair("uncompressed", 1), {"zstd", 3}, {"brotli", 4}, {"snappy", 7}}) {
    const std::string file =
        testing::ReadBytes(fmt::format("testdata/array_record/{}.array_record", name));
    const auto footer = FooterOf(file);
    ASSERT_OK(footer);
    EXPECT_EQ(footer->records(), expected.size());
    EXPECT_EQ(footer->chunks[1].first_record, group);
    EXPECT_EQ(RecordsOf(file, *footer), expected) << name;
  }
}

TEST(ArrayRecordFooterTest, FilesOfTheTestsAreThoseOfTheReference) {
  std::vector<std::string> records;
  for (uint64_t i = 0; i < kArrayRecordTestRecords; ++i) {
    records.push_back(ArrayRecordTestRecord(i));
  }
  const std::string file = ArrayRecordFile(records, 1);
  const std::string reference =
      testing::ReadBytes("testdata/array_record/uncompressed.array_record");
  const auto footer = FooterOf(file);
  ASSERT_OK(footer);
  EXPECT_EQ(file.size(), reference.size());
  const uint64_t end = footer->chunks.back().end;
  EXPECT_EQ(file.substr(0, end), reference.substr(0, end));
}

TEST(ArrayRecordFooterTest, ChunksAreFoundByTheirRecords) {
  std::vector<ArrayRecordEntry> entries;
  const std::string file = ArrayRecordFile({"a", "bb", "ccc", "dddd", "e"}, 2, &entries);
  const auto footer = FooterOf(file);
  ASSERT_OK(footer);
  ASSERT_EQ(footer->chunks.size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(footer->chunks[i].begin, entries[i].begin);
    EXPECT_EQ(footer->chunks[i].decoded_bytes, entries[i].decoded_bytes);
  }
  for (uint64_t record = 0; record < 5; ++record) EXPECT_EQ(footer->ChunkOf(record), record / 2);
  // The frames of a chunk have all its bytes.
  EXPECT_EQ(footer->chunks[0].FrameBytes(0), 2 + 16);
  EXPECT_EQ(footer->chunks[0].FrameBytes(1), 1 + 16);
}

TEST(ArrayRecordFooterTest, AFileWithoutRecordsHasNoChunks) {
  const auto footer = FooterOf(ArrayRecordFile({}, 1));
  ASSERT_OK(footer);
  EXPECT_THAT(footer->chunks, IsEmpty());
  EXPECT_EQ(footer->records(), 0);
}

TEST(ArrayRecordFooterTest, FilesThatAreCutOffAreRefused) {
  const std::string file = ArrayRecordFile({std::string(200'000, 'a')}, 1);
  EXPECT_EQ(
      Wrong(file.substr(0, file.size() - 1)),
      "the file has 327679 bytes, but ArrayRecord files have a multiple of 65536, and at least "
      "twice that; the file was cut off, or Riegeli wrote it without ArrayRecord's footer; "
      "write it again with ArrayRecordWriter");
  EXPECT_THAT(Wrong(file.substr(0, 65536)), HasSubstr("the file has 65536 bytes"));
  EXPECT_THAT(Wrong(file.substr(0, 2 * 65536)),
              HasSubstr("no postscript at byte 65536: hash of the chunk's header expected 0x"));
}

TEST(ArrayRecordFooterTest, LyingPostscriptsAreRefused) {
  const auto with_postscript = [](const std::string& postscript) {
    std::string file = RiegeliStart();
    testing::PadRiegeli(&file);
    AppendRiegeli(postscript, 3, &file);
    testing::PadRiegeli(&file);
    return Wrong(file);
  };
  EXPECT_THAT(with_postscript(testing::ArrayRecordPostscriptChunk(64, 5)),
              HasSubstr("no postscript at byte 65536: it lacks the magic number of ArrayRecord"));
  EXPECT_THAT(with_postscript(SimpleRiegeliChunk({"\x08"})), HasSubstr("lacks the magic number"));
  EXPECT_THAT(with_postscript(SimpleRiegeliChunk({})), HasSubstr("lacks the magic number"));
  EXPECT_THAT(with_postscript(SimpleRiegeliChunk({std::string(600, 'a')})),
              HasSubstr("it has 600 bytes, more than the 512 that it can need"));
  for (const uint64_t offset : {uint64_t{63}, uint64_t{65536}, UINT64_MAX}) {
    EXPECT_EQ(with_postscript(testing::ArrayRecordPostscriptChunk(offset)),
              fmt::format("the postscript at byte 65536 says that the footer begins at byte {}, "
                          "which is not between the first chunk and the postscript",
                          offset));
  }
}

TEST(ArrayRecordFooterTest, LyingFootersAreRefused) {
  const auto with_footer = [](const std::string& footer) {
    std::string file = RiegeliStart();
    AppendRiegeli(SimpleRiegeliChunk({"abc"}), 1, &file);
    testing::EndArrayRecord(footer, 9, &file);
    return Wrong(file);
  };
  EXPECT_EQ(with_footer(SimpleRiegeliChunk({})),
            "the footer at byte 110: it does not begin with the metadata of ArrayRecord");
  EXPECT_THAT(with_footer(SimpleRiegeliChunk({"abc"})),
              HasSubstr("does not begin with the metadata"));
  EXPECT_THAT(with_footer(SimpleRiegeliChunk({std::string(70'000, 'a')})),
              HasSubstr("it has 70000 bytes, more than the 65646 that it can need"));
  EXPECT_EQ(with_footer(ArrayRecordFooterChunk({{64, 3, 1}}, 1, 1, 2)),
            "ArrayRecord of version 2, of which only 1 can be read");
  EXPECT_THAT(with_footer(ArrayRecordFooterChunk({{64, 3, 1}}, 2, 1)),
              HasSubstr("its metadata says that there are 2 chunks, but it lists 1"));
  EXPECT_THAT(with_footer(ArrayRecordFooterChunk({{64, 3, 1}}, 1, 2)),
              HasSubstr("its metadata says that there are 2 records, but its chunks have 1"));
  for (const uint64_t begin : {uint64_t{0}, uint64_t{110}, UINT64_MAX}) {
    EXPECT_EQ(with_footer(ArrayRecordFooterChunk({{begin, 3, 1}}, 1, 1)),
              fmt::format("the footer at byte 110: chunk 0 begins at byte {}, which is not between "
                          "the one before it, at byte 64, and the footer",
                          begin));
  }
  EXPECT_THAT(with_footer(ArrayRecordFooterChunk({{64, 3, 1}, {64, 3, 1}}, 2, 2)),
              HasSubstr("chunk 1 begins at byte 64, which is not between"));
  EXPECT_EQ(
      with_footer(ArrayRecordFooterChunk({{64, 3, 0}}, 1, 0)),
      "the footer at byte 110: the chunk at byte 64 has 0 records of 3 bytes, which cannot be");
  EXPECT_THAT(with_footer(ArrayRecordFooterChunk({{64, 3, 47}}, 1, 47)),
              HasSubstr("has 47 records of 3 bytes, which cannot be"));
  EXPECT_THAT(with_footer(ArrayRecordFooterChunk({{64, UINT64_MAX, 1}}, 1, 1)),
              HasSubstr("has 1 records of 18446744073709551615 bytes, which cannot be"));
  EXPECT_THAT(with_footer(ArrayRecordFooterChunk({{64, 3, 1}, {110, 3, 1}}, 2, 2)),
              HasSubstr("chunk 1 begins at byte 110, which is not between"));
  // Chunks that have no room for a header.
  EXPECT_THAT(with_footer(ArrayRecordFooterChunk({{71, 3, 1}}, 1, 1)),
              HasSubstr("chunk 0 begins at byte 71, which is not between"));
  EXPECT_THAT(with_footer(ArrayRecordFooterChunk({{64, 3, 1}, {70, 3, 1}}, 2, 2)),
              HasSubstr("chunk 1 begins at byte 70, which is not between"));
  const std::string metadata = "\x0a\x06\x08\x01\x10\x01\x18\x01";
  EXPECT_THAT(with_footer(SimpleRiegeliChunk({metadata, "\x08"})),
              HasSubstr("what it says about chunk 0 is not an ArrayRecordFooter"));
  std::string endless;
  AppendLittleEndian<uint64_t>(uint64_t{1} << 61, &endless);
  endless.resize(32);
  EXPECT_THAT(with_footer(testing::WithHash(endless)),
              HasSubstr("the footer at byte 110: it has 2305843009213693952 bytes of data"));
  std::string broken = ArrayRecordFooterChunk({{64, 3, 1}}, 1, 1);
  broken.back() ^= 1;
  EXPECT_THAT(with_footer(broken), HasSubstr("the footer at byte 110: hash of the chunk's data"));
}

TEST(ArrayRecordDecoderTest, ChunksThatTheFooterDoesNotDescribeAreRefused) {
  const std::string file = ArrayRecordFile({"abc", "de"}, 2);
  ArrayRecordChunk chunk = FooterOf(file)->chunks[0];
  const std::string_view bytes =
      std::string_view(file).substr(chunk.begin, chunk.end - chunk.begin);
  ArrayRecordDecoder decoder;
  EXPECT_THAT(decoder.Open(chunk, bytes, CrcCheck::kAll), IsEmpty());
  EXPECT_THAT(decoder.sizes(), ElementsAre(3, 2));
  chunk.records = 3;
  EXPECT_EQ(decoder.Open(chunk, bytes, CrcCheck::kAll),
            "the chunk has 2 records of 5 bytes, but the footer, or the index made from it, says "
            "3 of 5 bytes");
  chunk.records = 2;
  chunk.decoded_bytes = 6;
  EXPECT_EQ(decoder.Open(chunk, bytes, CrcCheck::kAll),
            "the chunk has 2 records of 5 bytes, but the footer, or the index made from it, says "
            "2 of 6 bytes");
}

TEST(ArrayRecordChunkTest, CompressedChunksAreBounded) {
  const std::string file = testing::ReadBytes("testdata/array_record/zstd.array_record");
  const ArrayRecordFooter footer = *FooterOf(file);
  ArrayRecordChunk chunk = footer.chunks[footer.ChunkOf(9)];  // with a large record
  EXPECT_OK(chunk.CheckSize(chunk.decoded_bytes));
  EXPECT_FAILS(
      chunk.CheckSize(chunk.decoded_bytes - 1), kResourceExhausted,
      fmt::format("record {} at byte {}: its chunk has {} bytes of records, but "
                  "max_record_bytes allows at most {} if they are compressed",
                  chunk.first_record, chunk.begin, chunk.decoded_bytes, chunk.decoded_bytes - 1));
  // The size of the file bounds a chunk that is not compressed.
  chunk.end = chunk.begin + chunk.decoded_bytes;
  EXPECT_OK(chunk.CheckSize(0));
}

}  // namespace
}  // namespace shardfeed
