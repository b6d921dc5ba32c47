#include "tfrecord/riegeli_chunk.h"

#include "fmt/format.h"
#include "tests/testing/array_record_files.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::AppendRiegeli;
using testing::ArrayRecordFile;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RiegeliChunk;
using testing::RiegeliStart;
using testing::SimpleRiegeliChunk;
using testing::Varint;

// The records of a chunk, or what is wrong with it.
std::string ReadAll(std::string_view bytes, uint64_t begin, CrcCheck check,
                    std::vector<std::string>* records) {
  RiegeliChunkHeader header;
  std::string scratch;
  std::string_view data;
  std::string wrong = ReadRiegeliChunk(bytes, begin, check, &scratch, &header, &data);
  SimpleChunk chunk;
  if (wrong.empty()) wrong = ParseSimpleChunk(header, data, &chunk);
  if (!wrong.empty()) return wrong;
  std::string decoded(chunk.decoded_bytes, '\0');
  wrong = DecodeSimpleChunk(chunk, decoded.data());
  if (!wrong.empty()) return wrong;
  uint64_t at = 0;
  for (const uint64_t size : chunk.sizes) {
    records->push_back(decoded.substr(at, size));
    at += size;
  }
  EXPECT_EQ(at, decoded.size());
  return {};
}

std::string Wrong(std::string_view bytes, uint64_t begin, CrcCheck check = CrcCheck::kAll) {
  std::vector<std::string> records;
  return ReadAll(bytes, begin, check, &records);
}

TEST(RiegeliChunkTest, TheSpecifiedFirstBytesAreThoseOfAFile) {
  // As the specification lists them.
  constexpr char kStart[] =
      "\x83\xaf\x70\xd1\x0d\x88\x4a\x3f\x00\x00\x00\x00\x00\x00\x00\x00"
      "\x40\x00\x00\x00\x00\x00\x00\x00\x91\xba\xc2\x3c\x92\x87\xe1\xa9"
      "\x00\x00\x00\x00\x00\x00\x00\x00\xe1\x9f\x13\xc0\xe9\xb1\xc3\x72"
      "\x73\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
  const std::string start(kStart, kRiegeliStartBytes);
  EXPECT_EQ(RiegeliStart(), start);
  EXPECT_TRUE(IsRiegeliFile(start + "more"));
  EXPECT_FALSE(IsRiegeliFile(start.substr(0, 63)));
  std::string damaged = start;
  damaged[60] ^= 1;
  EXPECT_FALSE(IsRiegeliFile(damaged));
}

TEST(RiegeliChunkTest, EndsAreThoseOfTheSpecification) {
  // The formulas of the specification.
  constexpr uint64_t kUsable = kRiegeliBlockBytes - kRiegeliBlockHeaderBytes;
  for (const uint64_t begin : {0, 25, 64, 40'000, 65'535, 65'536, 65'561, 131'000}) {
    ASSERT_TRUE(CanBeginChunk(begin));
    for (const uint64_t bytes :
         {1, 24, 40, 25'536, 65'471, 65'472, 65'511, 65'512, 65'513, 131'024, 1'000'000}) {
      const uint64_t blocks = (bytes + (begin + kUsable - 1) % kRiegeliBlockBytes) / kUsable;
      EXPECT_EQ(RiegeliEnd(begin, bytes), begin + bytes + blocks * kRiegeliBlockHeaderBytes)
          << begin << " " << bytes;
    }
    EXPECT_EQ(RiegeliEnd(begin, 0), begin);
  }
  for (const uint64_t begin : {1, 24, 65'537, 65'560}) EXPECT_FALSE(CanBeginChunk(begin));
}

TEST(RiegeliChunkTest, PaddingMakesRoomForTheNumbersOfRecords) {
  RiegeliChunkHeader header;
  EXPECT_EQ(RiegeliChunkEnd(64, header), 104);
  header.records = 41;
  EXPECT_EQ(RiegeliChunkEnd(64, header), 105);
  header.records = 65'536 - 64;
  EXPECT_EQ(RiegeliChunkEnd(64, header), 65'536);
  header.records += 1;
  EXPECT_EQ(RiegeliChunkEnd(64, header), 65'536 + 25);
  header.records += 24;
  EXPECT_EQ(RiegeliChunkEnd(64, header), 65'536 + 25);
  header.records += 1;
  EXPECT_EQ(RiegeliChunkEnd(64, header), 65'536 + 26);
}

TEST(RiegeliChunkTest, RecordsAnywhereInBlocksAreRead) {
  for (const uint64_t before : {0, 1, 400, 65'000, 65'400, 65'447, 65'448}) {
    std::string file = RiegeliStart();
    AppendRiegeli(RiegeliChunk('p', 0, 0, std::string(before, 'p')), 0, &file);
    const uint64_t begin = file.size();
    const std::vector<std::string> written = {std::string(1000, 'a'), "",
                                              std::string(100'000, 'b')};
    AppendRiegeli(SimpleRiegeliChunk(written), 3, &file);
    for (const CrcCheck check : {CrcCheck::kNone, CrcCheck::kHeader, CrcCheck::kAll}) {
      std::vector<std::string> records;
      EXPECT_THAT(ReadAll(std::string_view(file).substr(begin), begin, check, &records), IsEmpty());
      EXPECT_EQ(records, written);
    }
  }
}

class ChunkDamageTest : public ::testing::Test {
 protected:
  // A chunk that begins at byte 64 and is interrupted at the bytes 65,536 and 131,072.
  ChunkDamageTest() {
    file_ = RiegeliStart();
    AppendRiegeli(SimpleRiegeliChunk({std::string(140'000, 'a')}), 1, &file_);
  }
  std::string_view chunk() const { return std::string_view(file_).substr(kRiegeliStartBytes); }
  std::string WrongNow(CrcCheck check = CrcCheck::kAll) const {
    return Wrong(chunk(), kRiegeliStartBytes, check);
  }
  std::string file_;
};

TEST_F(ChunkDamageTest, HashesAreChecked) {
  ASSERT_THAT(WrongNow(), IsEmpty());
  file_[70'000] ^= 1;
  EXPECT_THAT(WrongNow(), HasSubstr("hash of the chunk's data expected 0x"));
  EXPECT_THAT(WrongNow(CrcCheck::kHeader), IsEmpty());
  file_[70'000] ^= 1;
  file_[kRiegeliStartBytes] ^= 1;
  EXPECT_THAT(WrongNow(), HasSubstr("hash of the chunk's header expected 0x"));
  EXPECT_THAT(WrongNow(CrcCheck::kNone), IsEmpty());
}

TEST_F(ChunkDamageTest, BlockHeadersAreCompared) {
  file_[65'536] ^= 1;
  EXPECT_THAT(WrongNow(), HasSubstr("block header at byte 65536: hash expected 0x"));
  EXPECT_THAT(WrongNow(CrcCheck::kNone), IsEmpty());
  std::string header;
  AppendLittleEndian<uint64_t>(65'536 - 100, &header);
  AppendLittleEndian<uint64_t>(10, &header);
  file_.replace(65'536, kRiegeliBlockHeaderBytes, testing::WithHash(header));
  EXPECT_EQ(WrongNow(),
            fmt::format("block header at byte 65536: says that the chunk is from byte 100 to byte "
                        "65546, but it is from byte 64 to byte {}",
                        file_.size()));
}

TEST_F(ChunkDamageTest, ChunksThatAreCutOffAreRefused) {
  for (const size_t bytes : {0, 39}) {
    EXPECT_EQ(Wrong(chunk().substr(0, bytes), kRiegeliStartBytes),
              "the header of the chunk is cut off");
  }
  EXPECT_EQ(Wrong(chunk().substr(0, 40), kRiegeliStartBytes),
            "the chunk says that it has 140005 bytes of data and 1 records, more than the 40 bytes "
            "up to where it must end have room for");
  EXPECT_EQ(Wrong(chunk(), 65'540), "no chunk can begin within a block header");
}

// What is wrong with a chunk of this data.
std::string WrongData(uint64_t records, uint64_t decoded_bytes, const std::string& data,
                      char type = 'r') {
  std::string file = RiegeliStart();
  AppendRiegeli(RiegeliChunk(type, records, decoded_bytes, data), records, &file);
  return Wrong(std::string_view(file).substr(kRiegeliStartBytes), kRiegeliStartBytes);
}

TEST(SimpleChunkTest, LiesAreRefused) {
  const std::string none(1, '\0');
  EXPECT_THAT(WrongData(2, 3, none + "\x02\x01\x02" + "abc"), IsEmpty());
  EXPECT_EQ(WrongData(1, 0, "", 't'),
            "a transposed chunk, which cannot be read; write the file again with transpose:false");
  EXPECT_EQ(WrongData(0, 0, "", 'p'), "a chunk of type 0x70, which has no records");
  EXPECT_EQ(WrongData(1, 0, ""), "the chunk has no data");
  EXPECT_EQ(WrongData(1, 0, "q"), "the chunk has an unknown compression, 0x71");
  EXPECT_EQ(WrongData(1, 0, none), "the sizes of the chunk's records are cut off");
  EXPECT_EQ(WrongData(1, 0, none + "\x05\x01"), "the sizes of the chunk's records are cut off");
  for (const std::string sizes : {"\x01\x03", "\x02\x01\x01", "\x03\x01\x01\x01", "\x02\x01\x82"}) {
    EXPECT_EQ(WrongData(2, 3, none + sizes + "abc"),
              "the sizes of the chunk's records are not those of 2 records of 3 bytes");
  }
  EXPECT_EQ(WrongData(2, 3, none + "\x02\x01\x02" + "abcd"),
            "the chunk has 4 bytes of records, but their sizes are 3 bytes");
}

TEST(SimpleChunkTest, LiesOfCompressedChunksAreRefused) {
  for (const std::string name : {"Zstandard", "Brotli", "Snappy"}) {
    const std::string code(1, name == "Zstandard" ? 'z' : name == "Brotli" ? 'b' : 's');
    const auto with_sizes = [&](const std::string& sizes, const std::string& values) {
      return WrongData(2, 3, code + Varint(sizes.size()) + sizes + values);
    };
    EXPECT_EQ(with_sizes(Varint(21) + "ab", ""),
              "the sizes of the chunk's 2 records have 21 bytes");
    EXPECT_EQ(with_sizes(Varint(2) + "ab", ""),
              fmt::format("the sizes of the chunk's records are not what {} compresses to 2 bytes",
                          name));
  }
  // Snappy: two sizes as a literal.
  const std::string sizes = std::string("\x02\x02\x04\x01\x02");
  const std::string start = "s" + Varint(sizes.size()) + sizes;
  const std::string values = std::string("\x03\x08") + "abc";
  EXPECT_THAT(WrongData(2, 3, start + Varint(3) + values), IsEmpty());
  EXPECT_EQ(WrongData(2, 3, start + Varint(1'000'000'000) + values),
            "the chunk has 1000000000 bytes of records, but their sizes are 3 bytes");
  EXPECT_EQ(WrongData(2, 3, start + Varint(3) + "\x04" + values),
            "the chunk is not what Snappy compresses to 3 bytes");
}

TEST(SimpleChunkTest, CompressedValuesThatAreCutOffAreRefused) {
  for (const auto& [name, compression] :
       {std::pair("zstd", "Zstandard"), {"brotli", "Brotli"}, {"snappy", "Snappy"}}) {
    const std::string file =
        testing::ReadBytes(fmt::format("testdata/array_record/{}.array_record", name));
    RiegeliChunkHeader header;
    std::string scratch;
    std::string_view data;
    ASSERT_THAT(ReadRiegeliChunk(std::string_view(file).substr(kRiegeliStartBytes),
                                 kRiegeliStartBytes, CrcCheck::kAll, &scratch, &header, &data),
                IsEmpty());
    SimpleChunk chunk;
    ASSERT_THAT(ParseSimpleChunk(header, data, &chunk), IsEmpty());
    std::string decoded(chunk.decoded_bytes, '\0');
    EXPECT_THAT(DecodeSimpleChunk(chunk, decoded.data()), IsEmpty());
    chunk.values.remove_suffix(1);
    EXPECT_EQ(DecodeSimpleChunk(chunk, decoded.data()),
              fmt::format("the chunk is not what {} compresses to {} bytes", compression,
                          chunk.decoded_bytes));
  }
}

}  // namespace
}  // namespace shardfeed
