#include "tfrecord/framing.h"

#include <random>

#include "tests/testing/files.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {
namespace {

std::string Hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

std::string Frames(const std::vector<std::string>& payloads) {
  std::string bytes;
  for (const std::string& payload : payloads) AppendFrame(payload, &bytes);
  return bytes;
}

TEST(Crc32c, KnownVectors) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(Crc32c, EightBytesAtOnceAgreeWithTheLibrary) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = random() >> (random() % 64);
    char bytes[8];
    StoreLittleEndian(value, bytes);
    EXPECT_EQ(Crc32cU64(value), Crc32c({bytes, 8}));
    EXPECT_EQ(ExtendCrc32cU64(77, value), ExtendCrc32c(77, {bytes, 8}));
  }
}

TEST(Crc32c, ExtendingEqualsTheWhole) {
  std::string bytes(10000, 'a');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  for (size_t cut : {0, 1, 7, 4096, 9999}) {
    EXPECT_EQ(ExtendCrc32c(Crc32c(bytes.substr(0, cut)), bytes.substr(cut)), Crc32c(bytes));
  }
}

TEST(Crc32c, UnmaskIsTheReverseOfMask) {
  for (uint32_t crc : {0u, 1u, 0xe3069283u, 0xffffffffu}) EXPECT_EQ(UnmaskCrc(MaskCrc(crc)), crc);
}

TEST(Framing, WritesWhatTensorFlowWrites) {
  EXPECT_EQ(Frames({""}), Hex("000000000000000029039807d8ea82a2"));
  EXPECT_EQ(Frames({"abc"}), Hex("0300000000000000b099490e6162636e57f121"));
}

TEST(Framing, ScansAllRecords) {
  const std::string bytes = Frames({"abc", "", std::string(1000, 'x')});
  std::vector<Record> records;
  const FrameScan scan = ScanFrames(bytes, 100, true, CrcCheck::kAll, SIZE_MAX, &records);
  EXPECT_EQ(scan.consumed, bytes.size());
  EXPECT_EQ(scan.defect, FrameDefect::kNone);
  EXPECT_EQ(scan.frame_bytes, 0);
  ASSERT_EQ(records.size(), 3);
  EXPECT_EQ(records[0].payload, "abc");
  EXPECT_EQ(records[1].payload, "");
  EXPECT_EQ(records[1].offset, 119);
  EXPECT_EQ(records[2].payload.size(), 1000);
}

TEST(Framing, StopsAtTheGivenNumberOfRecords) {
  const std::string bytes = Frames({"a", "b", "c"});
  std::vector<Record> records;
  EXPECT_EQ(ScanFrames(bytes, 0, true, CrcCheck::kAll, 2, &records).consumed, 34);
  EXPECT_EQ(records.size(), 2);
}

// The defect that a scan reports for "abc" and a second frame of ten bytes, truncated to `size`
// bytes.
FrameDefect DefectAfterCut(size_t size, bool at_end, uint64_t* frame_bytes) {
  const std::string bytes = Frames({"abc", "0123456789"}).substr(0, 19 + size);
  std::vector<Record> records;
  const FrameScan scan = ScanFrames(bytes, 0, at_end, CrcCheck::kAll, SIZE_MAX, &records);
  EXPECT_EQ(records.size(), 1);
  EXPECT_EQ(scan.consumed, 19);
  *frame_bytes = scan.frame_bytes;
  return scan.defect;
}

TEST(Framing, TellsWhatIsCutAtTheEnd) {
  uint64_t frame_bytes;
  for (size_t size = 1; size < 26; ++size) {
    const FrameDefect expected = size < 12   ? FrameDefect::kCutHeader
                                 : size < 22 ? FrameDefect::kCutPayload
                                             : FrameDefect::kCutFooter;
    EXPECT_EQ(DefectAfterCut(size, true, &frame_bytes), expected) << size;
    EXPECT_EQ(DefectAfterCut(size, false, &frame_bytes), FrameDefect::kNone) << size;
    EXPECT_EQ(frame_bytes, size < 12 ? 12 : 26) << size;
  }
}

TEST(Framing, EveryFlippedBitIsFound) {
  const std::string sound = Frames({"abc", "0123456789"});
  for (size_t bit = 0; bit < 26 * 8; ++bit) {
    std::string bytes = sound;
    bytes[19 + bit / 8] ^= static_cast<char>(1 << bit % 8);
    std::vector<Record> records;
    const FrameScan scan = ScanFrames(bytes, 0, true, CrcCheck::kAll, SIZE_MAX, &records);
    EXPECT_EQ(records.size(), 1) << bit;
    EXPECT_EQ(scan.defect, bit < 96 ? FrameDefect::kLengthCrc : FrameDefect::kPayloadCrc) << bit;
  }
}

TEST(Framing, UncheckedLengthNearTheLimitDoesNotOverflow) {
  std::string bytes = Frames({"abc"});
  StoreLittleEndian(UINT64_MAX - 3, bytes.data());
  std::vector<Record> records;
  EXPECT_EQ(ScanFrames(bytes, 0, true, CrcCheck::kNone, SIZE_MAX, &records).defect,
            FrameDefect::kLengthCrc);
}

TEST(Framing, ZerosAreNotRecords) {
  std::vector<Record> records;
  EXPECT_EQ(ScanFrames(std::string(64, '\0'), 0, true, CrcCheck::kAll, SIZE_MAX, &records).defect,
            FrameDefect::kLengthCrc);
}

TEST(Framing, FindsTheNextHeader) {
  EXPECT_EQ(FindHeader("garbage" + Frames({"abc"})), 7);
  EXPECT_EQ(FindHeader("garbage without any header"), std::string_view::npos);
}

TEST(RecordsDigest, DependsOnContentAndOrder) {
  const auto digest = [](const std::vector<std::string>& payloads) {
    RecordsDigest result;
    for (const std::string& p : payloads) result.Add(p.size(), MaskCrc(Crc32c(p)));
    return result.value();
  };
  EXPECT_EQ(digest({}), 0);
  EXPECT_NE(digest({"a", "b"}), digest({"b", "a"}));
  EXPECT_NE(digest({"a"}), digest({"b"}));
  // As docs/index.md defines it: the CRC-32C of the concatenated headers and footers.
  EXPECT_EQ(digest({"abc"}), Crc32c(Hex("0300000000000000b099490e6e57f121")));
}

TEST(RecordsDigest, ManyRecordsAtOnceAgreeWithOneAfterTheOther) {
  std::string bytes;
  RecordsDigest one;
  for (int i = 0; i < 100; ++i) {
    const std::string payload(i * 3, static_cast<char>(i));
    AppendFrame(payload, &bytes);
    one.Add(payload.size(), MaskCrc(Crc32c(payload)));
  }
  std::vector<Record> records;
  ScanFrames(bytes, 0, true, CrcCheck::kAll, SIZE_MAX, &records);
  RecordsDigest all;
  all.Add(records);
  EXPECT_EQ(all.value(), one.value());
}

// Returns its bytes in pieces of the sizes 1, 2, 3 ... over and over.
class TricklingSource : public ByteSource {
 public:
  TricklingSource(std::string bytes, size_t most) : bytes_(std::move(bytes)), most_(most) {}
  absl::StatusOr<size_t> Read(absl::Span<char> dst) override {
    const size_t n = std::min({dst.size(), bytes_.size() - at_, 1 + calls_++ % most_});
    std::copy_n(bytes_.data() + at_, n, dst.data());
    at_ += n;
    return n;
  }

 private:
  std::string bytes_;
  size_t most_;
  size_t at_ = 0;
  size_t calls_ = 0;
};

std::vector<std::string> ManyPayloads(int n) {
  std::mt19937 random(5);
  std::vector<std::string> payloads;
  for (int i = 0; i < n; ++i) {
    payloads.push_back(std::string(random() % 10 == 0 ? random() % 20000 : random() % 50,
                                   static_cast<char>('a' + i % 26)));
  }
  return payloads;
}

TEST(RecordStream, DeliversRecordsWhateverTheSizesOfReadsAndBlocks) {
  const std::vector<std::string> payloads = ManyPayloads(300);
  for (size_t block : {4096, 8192, 1 << 20}) {
    for (size_t most : {1000, 100000}) {
      TricklingSource source(Frames(payloads), most);
      RecordStream stream(&source, {.block_bytes = block});
      std::vector<RecordBlock> blocks;  // all are kept, since their views must stay valid
      uint64_t next = 0;
      while (true) {
        RecordBlock read;
        ASSERT_OK(stream.Next(&read));
        if (read.records.empty()) break;
        EXPECT_EQ(read.first_record, next);
        next += read.records.size();
        blocks.push_back(std::move(read));
      }
      std::vector<std::string> found;
      for (const RecordBlock& b : blocks) {
        for (const Record& r : b.records) found.emplace_back(r.payload);
      }
      EXPECT_EQ(found, payloads);
    }
  }
}

TEST(RecordStream, EmptyStreamEndsCleanly) {
  MemorySource source({});
  RecordStream stream(&source, {});
  RecordBlock block;
  EXPECT_OK(stream.Next(&block));
  EXPECT_TRUE(block.records.empty());
}

TEST(RecordStream, DeliversWhatStandsBeforeDamageThenTellsIt) {
  std::string bytes = Frames({"abc", "0123456789", "def"});
  bytes[19 + 14] ^= 1;
  MemorySource source(bytes);
  RecordStream stream(&source, {});
  RecordBlock block;
  ASSERT_OK(stream.Next(&block));
  EXPECT_EQ(block.records.size(), 1);
  EXPECT_FAILS(stream.Next(&block), kDataLoss, "record 1 at byte 19: payload CRC expected 0x");
  EXPECT_EQ(stream.defect(), FrameDefect::kPayloadCrc);
  EXPECT_EQ(*stream.Recover(), 26);
  ASSERT_OK(stream.Next(&block));
  ASSERT_EQ(block.records.size(), 1);
  EXPECT_EQ(block.records[0].payload, "def");
  EXPECT_EQ(block.first_record, 2);
}

TEST(RecordStream, FindsTheNextRecordAfterADamagedLength) {
  const std::vector<std::string> payloads = {"abc", std::string(50000, 'x'), "def", "ghi"};
  std::string bytes = Frames(payloads);
  bytes[19] ^= 1;
  TricklingSource source(bytes, 3000);
  RecordStream stream(&source, {.block_bytes = 4096});
  RecordBlock block;
  ASSERT_OK(stream.Next(&block));
  EXPECT_FAILS(stream.Next(&block), kDataLoss, "record 1 at byte 19: length CRC expected 0x");
  EXPECT_EQ(*stream.Recover(), 50016);
  std::vector<std::string> found;
  while (true) {
    ASSERT_OK(stream.Next(&block));
    if (block.records.empty()) break;
    for (const Record& r : block.records) found.emplace_back(r.payload);
  }
  EXPECT_EQ(found, (std::vector<std::string>{"def", "ghi"}));
}

TEST(RecordStream, CutIsDataLoss) {
  const std::string whole = Frames({"abc", "0123456789"});
  for (size_t size = 20; size < whole.size(); ++size) {
    MemorySource source(absl::MakeConstSpan(whole).subspan(0, size));
    RecordStream stream(&source, {});
    RecordBlock block;
    ASSERT_OK(stream.Next(&block));
    EXPECT_FAILS(stream.Next(&block), kDataLoss, "record 1 at byte 19: cut ");
    EXPECT_EQ(*stream.Recover(), size - 19);
    EXPECT_OK(stream.Next(&block));
    EXPECT_TRUE(block.records.empty());
  }
}

TEST(RecordStream, HugeClaimedLengthTakesNoMemory) {
  std::string bytes(kHeaderBytes, '\0');
  WriteHeader(uint64_t{1} << 50, bytes.data());
  bytes += "only little follows";
  for (uint64_t limit : {uint64_t{bytes.size()}, UINT64_MAX}) {
    MemorySource source(bytes);
    RecordStream stream(&source, {.max_frame_bytes = limit});
    RecordBlock block;
    EXPECT_FAILS(stream.Next(&block), kDataLoss,
                 "cut payload: expected 1125899906842624 bytes, got 19");
  }
}

TEST(RecordStream, CountsFromWhereItStarts) {
  const std::string bytes = Frames({"abc"});
  MemorySource source(bytes);
  RecordStream stream(&source, {.stream_offset = 1000, .first_record = 7});
  RecordBlock block;
  ASSERT_OK(stream.Next(&block));
  EXPECT_EQ(block.first_record, 7);
  EXPECT_EQ(block.records[0].offset, 1000);
}

}  // namespace
}  // namespace shardfeed
