// ArrayRecord shards: their indexes, reading them in every order by every engine, verifying, and
// damage.

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "io/buffer.h"
#include "net/open.h"
#include "reader/plan/unit.h"
#include "reader/reader.h"
#include "shard/formats/index_match.h"
#include "shard/formats/shard_reader.h"
#include "shard/indexing/index_build.h"
#include "shard/indexing/index_check.h"
#include "shard/indexing/text_index.h"
#include "shardfeed/index.h"
#include "shardfeed/verify.h"
#include "tests/reader/reader_fixture.h"
#include "tests/testing/array_record_files.h"
#include "tests/testing/files.h"
#include "tests/testing/index_lies.h"

namespace shardfeed {
namespace {

using testing::ArrayRecordEntry;
using testing::ArrayRecordFile;
using testing::ArrayRecordTestRecord;
using testing::Drain;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kArrayRecordTestRecords;
using testing::MakeReader;
using testing::OpenTable;
using testing::Orders;
using testing::TestFolder;

constexpr uint64_t kShards = 3;
constexpr uint64_t kRecords = 50;  // in each shard

// Some records are longer than a block.
std::string RecordOf(uint64_t record) {
  return fmt::format("record {}", record) +
         std::string(record % 20 == 7 ? 70'000 : record * 37 % 3000, 'x');
}

// The parameter is the number of records of a chunk.
class ArrayRecordShardsTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  static std::string NameOf(uint64_t shard) {
    return fmt::format("x-train.array_record-{:05}-of-{:05}", shard, kShards);
  }
  std::string ShardPath(uint64_t shard) { return folder_ / NameOf(shard); }

  ShardSet Write() {
    std::vector<std::string> paths;
    for (uint64_t shard = 0; shard < kShards; ++shard) {
      std::vector<std::string> records;
      for (uint64_t i = 0; i < kRecords; ++i) records.push_back(RecordOf(shard * kRecords + i));
      paths.push_back(
          folder_.Write(NameOf(shard), ArrayRecordFile(records, GetParam(), &chunks_[shard])));
    }
    return *ResolveSpecs(paths);
  }
  // The offset of the chunk of a record in its shard.
  uint64_t ChunkAt(uint64_t record) const {
    return chunks_[record / kRecords][record % kRecords / GetParam()].begin;
  }
  // The records of the chunk of a record.
  std::set<uint64_t> ChunkMates(uint64_t record) const {
    std::set<uint64_t> mates;
    for (uint64_t other = 0; other < kShards * kRecords; ++other) {
      if (other / kRecords == record / kRecords && ChunkAt(other) == ChunkAt(record)) {
        mates.insert(other);
      }
    }
    return mates;
  }
  void FlipByte(uint64_t shard, uint64_t offset) {
    std::string bytes = testing::ReadBytes(ShardPath(shard));
    bytes[offset] ^= 1;
    folder_.Write(NameOf(shard), bytes);
  }
  // Damages the data of the chunk of the record.
  void Damage(uint64_t record) { FlipByte(record / kRecords, ChunkAt(record) + 50); }

  TestFolder folder_;
  std::vector<ArrayRecordEntry> chunks_[kShards];
};

INSTANTIATE_TEST_SUITE_P(Groups, ArrayRecordShardsTest, ::testing::Values(1, 4, 64));

TEST_P(ArrayRecordShardsTest, EveryOrderByEveryEngineDeliversEachRecordOnce) {
  const ShardSet set = Write();
  for (const OrderSpec& order : Orders()) {
    for (EngineKind io : {EngineKind::kUring, EngineKind::kThreads, EngineKind::kMmap}) {
      std::set<uint64_t> seen;
      for (uint64_t rank = 0; rank < 2; ++rank) {
        ReaderOptions options;
        options.order = order;
        options.io = io;
        options.world = 2;
        options.rank = rank;
        const auto reader = MakeReader(OpenTable(set), options);
        const auto all = Drain(*reader);
        if (io == EngineKind::kUring && absl::IsUnavailable(all.status())) break;  // none here
        ASSERT_OK(all);
        for (size_t i = 0; i < all->records.size(); ++i) {
          const uint64_t record = reader->RecordAt(0, rank + 2 * i);
          ASSERT_EQ(all->records[i], RecordOf(record));
          EXPECT_TRUE(seen.insert(record).second);
        }
      }
      EXPECT_TRUE(seen.empty() || seen.size() == kShards * kRecords);
    }
  }
}

TEST_P(ArrayRecordShardsTest, AnyRecordByItsNumber) {
  const auto access = RandomAccess::Open(Write());
  ASSERT_OK(access);
  EXPECT_EQ((*access)->num_records(), kShards * kRecords);
  for (const std::vector<uint64_t>& numbers : {std::vector<uint64_t>{149, 0, 7, 8, 7, 75},
                                               {3, 4, 5, 6, 7, 8, 9, 10, 11},
                                               {27},
                                               {49, 50}}) {
    const auto found = (*access)->Get(numbers);
    ASSERT_OK(found);
    for (size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_EQ(found->records[i], RecordOf(numbers[i]));
    }
  }
  uint64_t next = 42;
  EXPECT_OK((*access)->Read(42, 111, [&](uint64_t number, std::string_view payload) {
    EXPECT_EQ(number, next++);
    EXPECT_EQ(payload, RecordOf(number));
    return absl::OkStatus();
  }));
  EXPECT_EQ(next, 111u);
}

TEST_P(ArrayRecordShardsTest, IndexesTellTheChunkOfEachRecord) {
  const std::string path = Write().paths[1];
  ASSERT_OK(IndexShard(path, {}));
  const auto index = ShardIndex::Open(IndexPath(path));
  ASSERT_OK(index);
  EXPECT_EQ((*index)->summary().framing, Framing::kArrayRecord);
  EXPECT_EQ((*index)->records(), kRecords);
  EXPECT_EQ((*index)->num_chunks(), (kRecords + GetParam() - 1) / GetParam());
  uint64_t decoded = 0;
  for (uint64_t i = 0; i < kRecords; ++i) {
    decoded += RecordOf(kRecords + i).size();
    const ArrayRecordEntry& written = chunks_[1][i / GetParam()];
    const ArrayRecordChunk chunk = (*index)->ChunkOf(i);
    EXPECT_EQ(chunk.begin, written.begin);
    EXPECT_EQ(chunk.records, written.records);
    EXPECT_EQ(chunk.decoded_bytes, written.decoded_bytes);
    EXPECT_EQ(chunk.first_record, i / GetParam() * GetParam());
    EXPECT_EQ((*index)->FileOffset(i), chunk.begin);
    EXPECT_EQ((*index)->FileEnd(i), chunk.end);
  }
  EXPECT_EQ((*index)->summary().stream_bytes, decoded + 16 * kRecords);
  EXPECT_OK(CompareIndexWithShard(path, *index, {}));
}

TEST_P(ArrayRecordShardsTest, WrongChunksInAnIndexAreRefused) {
  const auto index = BuildIndex(Write().paths[0], {});
  ASSERT_OK(index);
  const std::string bytes((*index)->bytes());
  const auto opened = [](std::string changed) {
    StoreLittleEndian<uint64_t>(changed.size(), changed.data() + 72);
    testing::FitIndexCrcs(&changed);
    return ShardIndex::FromBytes(changed, "x.index");
  };
  // Where the indexes of the chunks begin.
  const auto begin = LoadLittleEndian<uint64_t>(bytes.data() + 56);
  const auto places = LoadLittleEndian<uint64_t>(bytes.data() + begin);
  for (const uint64_t size : {begin, begin + 8, begin + 8 + places, bytes.size() - 1}) {
    EXPECT_FAILS(opened(bytes.substr(0, size)), kDataLoss,
                 "x.index: the index lacks the chunks of its ArrayRecord shard; rebuild it");
  }
  std::string damaged = bytes;
  damaged[begin + 8 + places - 1] ^= 1;
  EXPECT_FAILS(opened(damaged), kDataLoss, "the index's CRC does not match its content");
  // The places twice.
  const std::string twice =
      bytes.substr(0, begin) + bytes.substr(begin, 8 + places) + bytes.substr(begin, 8 + places);
  EXPECT_FAILS(opened(twice), kDataLoss,
               "x.index: the chunks of the index contradict its records; rebuild it");
  // An index of an ArrayRecord shard in place of the places.
  std::string size;
  AppendLittleEndian<uint64_t>(bytes.size(), &size);
  EXPECT_FAILS(opened(bytes.substr(0, begin) + size + bytes), kDataLoss,
               "x.index: the chunks of the index are in an index of another format; rebuild it");
}

TEST_P(ArrayRecordShardsTest, VerifyFindsAnIndexWithChunksOfAnotherShard) {
  const std::string path = Write().paths[0];
  const auto index = BuildIndex(path, {});
  ASSERT_OK(index);
  std::string bytes((*index)->bytes());
  // The places of the chunks, moved by a byte: only the first frame and the sum differ.
  const auto begin = LoadLittleEndian<uint64_t>(bytes.data() + 56);
  const std::string_view places =
      std::string_view(bytes).substr(begin + 8, LoadLittleEndian<uint64_t>(bytes.data() + begin));
  const auto parsed = ShardIndex::FromBytes(std::string(places), "places");
  ASSERT_OK(parsed);
  IndexBuilder moved;
  for (uint64_t i = 0; i < (*parsed)->records(); ++i) {
    ASSERT_OK(moved.AddFrame((*parsed)->Offset(i + 1) - (*parsed)->Offset(i) + (i == 0)));
  }
  const std::string other = *moved.Finish({.shard_bytes = moved.stream_bytes()});
  ASSERT_EQ(other.size(), places.size());
  bytes.replace(begin + 8, other.size(), other);
  testing::FitIndexCrcs(&bytes);
  folder_.Write(".shardfeed/" + NameOf(0) + ".index", bytes);
  for (VerifyLevel level : {VerifyLevel::kHeaders, VerifyLevel::kPayload}) {
    const auto report = VerifyShard(path, {.level = level});
    ASSERT_OK(report);
    ASSERT_EQ(report->num_defects, 1u);
    EXPECT_EQ(report->defects[0].kind, "index");
    EXPECT_THAT(report->defects[0].detail, HasSubstr("record 0 at byte 65 instead of 64"));
  }
}

TEST_P(ArrayRecordShardsTest, AnotherShardOfTheSameSizeIsNoticed) {
  Write();
  ASSERT_OK(IndexShard(ShardPath(0), {}));
  std::vector<std::string> records(3, "abc");
  std::string other = ArrayRecordFile(records, 1);
  const uint64_t size = std::filesystem::file_size(ShardPath(0));
  while (other.size() < size) {
    records.push_back(std::string(60'000, 'b'));
    other = ArrayRecordFile(records, 1);
  }
  ASSERT_EQ(other.size(), size);
  folder_.Write(NameOf(0), other);
  EXPECT_EQ(OpenTable(*ResolveSpecs({ShardPath(0)}))->num_records(), records.size());
}

TEST_P(ArrayRecordShardsTest, AnotherShardWithTheSameFooterIsNoticed) {
  Write();
  ASSERT_OK(IndexShard(ShardPath(0), {}));
  std::vector<std::string> records;
  for (uint64_t i = 0; i < kRecords; ++i) records.emplace_back(RecordOf(i).size(), 'z');
  folder_.Write(NameOf(0), ArrayRecordFile(records, GetParam()));
  const auto index = ShardIndex::Open(IndexPath(ShardPath(0)));
  ASSERT_OK(index);
  const auto file = OpenFile(ShardPath(0));
  ASSERT_OK(file);
  const auto matches = IndexMatches((*index)->summary(), (*file)->size(), [&] { return *file; });
  ASSERT_OK(matches);
  EXPECT_FALSE(*matches);
}

TEST_P(ArrayRecordShardsTest, RecordsInTheirOrderDecodeEachChunkOnce) {
  const ShardSet set = Write();
  uint64_t bytes = 0;
  for (const std::string& path : set.paths) bytes += std::filesystem::file_size(path);
  ReaderOptions options;
  options.budget_bytes = 1 << 20;  // so that pieces would be smaller than chunks of 64 records
  const auto reader = MakeReader(OpenTable(set), options);
  ASSERT_OK(Drain(*reader));
  // Besides, a read begins and ends on a page.
  EXPECT_LE(reader->stats().bytes_read, bytes + kShards * (64 << 10));
}

TEST(ArrayRecordFilesTest, ShufflesKeepChunksTogether) {
  TestFolder folder;
  constexpr uint64_t kGroup = 500;
  std::vector<std::string> records(20 * kGroup, std::string(1000, 'x'));
  for (size_t i = 0; i < records.size(); ++i) records[i] += fmt::format("{}", i);
  const std::string path = folder.Write("a.array_record", ArrayRecordFile(records, kGroup));
  ReaderOptions options;
  options.order.kind = OrderSpec::Kind::kShuffle;
  const auto reader = MakeReader(OpenTable(*ResolveSpecs({path})), options);
  const OrderSpec& order = reader->order().spec();
  EXPECT_EQ(order.chunk % kGroup, 0u);
  EXPECT_EQ(order.lanes, records.size() / order.chunk);
  const auto all = Drain(*reader);
  ASSERT_OK(all);
  EXPECT_EQ(std::set<std::string>(all->records.begin(), all->records.end()).size(), records.size());
  EXPECT_LE(reader->stats().bytes_read, 2 * std::filesystem::file_size(path));
}

TEST_P(ArrayRecordShardsTest, RecordsOfAPartOfAChunkHoldNoMoreThanTheirBytes) {
  const ShardSet set = Write();
  const auto table = OpenTable(set);
  const auto index = table->Index(0);
  ASSERT_OK(index);
  Extents extents;
  ASSERT_OK(AppendExtents(*table, 1, 2, &extents));
  ASSERT_EQ(extents.size(), 1u);
  std::string bytes(extents[0].file_bytes, '\0');
  const auto file = table->OpenFile(0);
  ASSERT_OK(file);
  ASSERT_OK((*file)->ReadExactlyAt(extents[0].file_offset, absl::MakeSpan(bytes)));
  const auto pool = BufferPool::Create(0);
  std::vector<std::string_view> payloads;
  BufferRefs buffers;
  std::vector<DamagedRecord> damaged;
  CheckExtent(*table, extents[0], absl::MakeSpan(bytes), CrcCheck::kAll, *pool, &payloads, &buffers,
              &damaged);
  EXPECT_THAT(payloads, ::testing::ElementsAre(RecordOf(1), RecordOf(2)));
  uint64_t held = 0;
  for (const auto& buffer : buffers) held += static_cast<const Buffer*>(buffer.get())->size();
  // Of a chunk of 64 records, much less than its bytes.
  EXPECT_LE(held, 16u << 10);
}

TEST_P(ArrayRecordShardsTest, DamagedChunksAreErrorsOrSkippedAndCounted) {
  const ShardSet set = Write();
  std::set<uint64_t> lost;
  for (const uint64_t record : {0, 17, 49, 101}) {
    Damage(record);
    lost.merge(ChunkMates(record));
  }
  for (const OrderSpec& order : Orders()) {
    ReaderOptions options;
    options.order = order;
    EXPECT_FAILS(Drain(*MakeReader(OpenTable(set), options)), kDataLoss,
                 "hash of the chunk's data expected 0x");
    options.skip_damaged = true;
    options.max_skipped.share = 1;
    std::set<uint64_t> told;
    options.on_skip = [&](const DamagedRecord& record) {
      told.insert(record.record);
      EXPECT_THAT(record.Message(),
                  HasSubstr(fmt::format("{}: record {} at byte {}: hash of",
                                        NameOf(record.record / kRecords), record.record % kRecords,
                                        ChunkAt(record.record))));
    };
    const auto reader = MakeReader(OpenTable(set), options);
    const auto all = Drain(*reader);
    ASSERT_OK(all);
    EXPECT_EQ(told, lost);
    uint64_t sound = 0;
    for (size_t i = 0; i < all->records.size(); ++i) {
      const uint64_t record = reader->RecordAt(0, i);
      if (lost.contains(record)) continue;
      ++sound;
      ASSERT_EQ(all->records[i], RecordOf(record));
    }
    EXPECT_EQ(sound, kShards * kRecords - lost.size());
  }
}

TEST_P(ArrayRecordShardsTest, WithoutChecksDamageIsNotSeen) {
  const ShardSet set = Write();
  FlipByte(0, ChunkAt(7) + 300);  // in the values
  ReaderOptions options;
  options.check_crc = CrcCheck::kNone;
  const auto all = Drain(*MakeReader(OpenTable(set), options));
  ASSERT_OK(all);
  EXPECT_EQ(all->records.size(), kShards * kRecords);
}

TEST_P(ArrayRecordShardsTest, VerifyFindsAllDamage) {
  const std::string path = Write().paths[0];
  std::set<uint64_t> lost;
  for (const uint64_t record : {0, 17, 49}) {
    Damage(record);
    lost.merge(ChunkMates(record));
  }
  const auto report = VerifyShard(path, {});
  ASSERT_OK(report);
  EXPECT_EQ(report->records, kRecords - lost.size());
  EXPECT_EQ(report->records_lost, lost.size());
  ASSERT_GE(report->num_defects, 1u);
  const Defect& last = report->defects.back();
  EXPECT_EQ(last.kind, "array_record chunk");
  EXPECT_EQ(last.record, *ChunkMates(49).begin());
  EXPECT_EQ(last.offset, ChunkAt(49));
  EXPECT_THAT(last.detail, HasSubstr(fmt::format(
                               "{}: record {} at byte {}: hash of the chunk's data expected 0x",
                               path, last.record, last.offset)));
}

TEST_P(ArrayRecordShardsTest, BlockHeadersThatLieLoseTheirChunk) {
  const std::string path = Write().paths[0];
  FlipByte(0, 65'536 + 12);
  const auto report = VerifyShard(path, {});
  ASSERT_OK(report);
  ASSERT_EQ(report->num_defects, 1u);
  EXPECT_THAT(report->defects[0].detail, HasSubstr("block header at byte 65536: hash expected 0x"));
  EXPECT_EQ(report->records_lost, kRecords - report->records);
  EXPECT_LE(report->records_lost, GetParam());
}

TEST_P(ArrayRecordShardsTest, VerifyTellsADamagedFooter) {
  const std::string path = Write().paths[0];
  const uint64_t size = std::filesystem::file_size(path);
  FlipByte(0, size - 65'536 + 70);
  for (VerifyLevel level : {VerifyLevel::kHeaders, VerifyLevel::kPayload}) {
    const auto report = VerifyShard(path, {.level = level});
    ASSERT_OK(report);
    ASSERT_EQ(report->num_defects, 1u);
    EXPECT_EQ(report->records, 0u);
    EXPECT_EQ(report->records_lost, std::nullopt);
    EXPECT_EQ(report->skipped_bytes, size);
    EXPECT_THAT(
        report->defects[0].detail,
        HasSubstr(fmt::format("{}: no postscript at byte {}: hash of", path, size - 65'536)));
    EXPECT_THAT(report->defects[0].detail, HasSubstr("; all of it is lost"));
  }
}

TEST_P(ArrayRecordShardsTest, WithAnIndexNothingButTheFooterIsLost) {
  const std::string path = Write().paths[0];
  ASSERT_OK(IndexShard(path, {}));
  const std::string whole = testing::ReadBytes(path);
  FlipByte(0, whole.size() - 65'536 + 70);
  const auto report = VerifyShard(path, {});
  ASSERT_OK(report);
  ASSERT_EQ(report->num_defects, 1u);
  EXPECT_EQ(report->records, kRecords);
  EXPECT_EQ(report->records_lost, 0u);
  EXPECT_THAT(report->defects[0].detail, HasSubstr("no postscript at byte"));
  EXPECT_THAT(report->defects[0].detail, HasSubstr("; the index tells where the chunks are"));
  // Of a file that was cut off, what precedes the cut is sound.
  folder_.Write(NameOf(0), whole.substr(0, ChunkAt(17) + 10));
  const auto cut = VerifyShard(path, {});
  ASSERT_OK(cut);
  EXPECT_EQ(cut->records, *ChunkMates(17).begin());
  EXPECT_EQ(cut->records_lost, kRecords - cut->records);
}

TEST_P(ArrayRecordShardsTest, SoundShardsHaveNoDefects) {
  const std::string path = Write().paths[0];
  ASSERT_OK(IndexShard(path, {}));
  for (VerifyLevel level : {VerifyLevel::kHeaders, VerifyLevel::kPayload}) {
    const auto report = VerifyShard(path, {.level = level});
    ASSERT_OK(report);
    EXPECT_EQ(report->num_defects, 0u);
    EXPECT_EQ(report->records, kRecords);
  }
}

TEST(ArrayRecordFilesTest, FilesOfTheReferenceOfEveryCompressionAreRead) {
  TestFolder folder;
  for (const char* name : {"uncompressed", "zstd", "brotli", "snappy"}) {
    const std::string file = fmt::format("{}.array_record", name);
    const std::string path =
        folder.Write(file, testing::ReadBytes("testdata/array_record/" + file));
    for (const OrderSpec& order : Orders()) {
      ReaderOptions options;
      options.order = order;
      const auto reader = MakeReader(OpenTable(*ResolveSpecs({path})), options);
      const auto all = Drain(*reader);
      ASSERT_OK(all);
      ASSERT_EQ(all->records.size(), kArrayRecordTestRecords);
      for (size_t i = 0; i < all->records.size(); ++i) {
        ASSERT_EQ(all->records[i], ArrayRecordTestRecord(reader->RecordAt(0, i))) << name;
      }
    }
    const auto report = VerifyShard(path, {});
    ASSERT_OK(report);
    EXPECT_EQ(report->num_defects, 0u);
    EXPECT_EQ(report->records, kArrayRecordTestRecords);
  }
}

TEST(ArrayRecordFilesTest, ChunksAboveTheLimitAreNoDamage) {
  TestFolder folder;
  const std::string path =
      folder.Write("a.array_record", testing::ReadBytes("testdata/array_record/zstd.array_record"));
  const ShardSet set = *ResolveSpecs({path});
  SetMaxRecordBytes(1000);
  ReaderOptions options;
  options.skip_damaged = true;
  const auto all = Drain(*MakeReader(OpenTable(set), options));
  const auto report = VerifyShard(path, {});
  SetMaxRecordBytes(kDefaultMaxRecordBytes);
  for (const absl::Status& status : {all.status(), report.status()}) {
    EXPECT_FAILS(status, kResourceExhausted, "max_record_bytes allows at most 1000 if they are");
    EXPECT_FAILS(status, kResourceExhausted, path);
  }
}

TEST(ArrayRecordFilesTest, AnIndexOfAnEmptyShardIsNotThatOfAnother) {
  TestFolder folder;
  const std::string path = folder.Write("a.array_record", ArrayRecordFile({}, 1));
  ASSERT_OK(IndexShard(path, {}));
  EXPECT_EQ(OpenTable(*ResolveSpecs({path}))->num_records(), 0u);
  const std::string other = ArrayRecordFile({"a", "b"}, 1);
  ASSERT_EQ(other.size(), std::filesystem::file_size(path));
  folder.Write("a.array_record", other);
  EXPECT_EQ(OpenTable(*ResolveSpecs({path}))->num_records(), 2u);
}

TEST(ArrayRecordFilesTest, SmallChunksOfMuchContentAreBlocksOfTheirOwn) {
  TestFolder folder;
  const std::vector<std::string> records(20, std::string(1 << 20, 'x'));
  const std::string path = folder.Write("a.array_record", ArrayRecordFile(records, 1));
  const auto reader = ShardReader::Open(path, {.block_bytes = 32 << 20});
  ASSERT_OK(reader);
  RecordBlock block;
  uint64_t found = 0;
  do {
    ASSERT_OK((*reader)->Next(&block));
    EXPECT_LE(block.records.size(), 4u);
    found += block.records.size();
  } while (!block.records.empty());
  EXPECT_EQ(found, records.size());
}

TEST(ArrayRecordFilesTest, TransposedChunksAreRefused) {
  TestFolder folder;
  const std::string path = folder.Write(
      "a.array_record", testing::ReadBytes("testdata/array_record/transposed.array_record"));
  EXPECT_FAILS(
      BuildIndex(path, {}), kInvalidArgument,
      "a.array_record: its chunks are transposed, which cannot be read; write it again with "
      "transpose:false among the options of ArrayRecordWriter");
}

TEST(ArrayRecordFilesTest, AnIndexIsMadeOfTheFooterAlone) {
  TestFolder folder;
  const std::vector<std::string> records(20, std::string(1 << 20, 'x'));
  const std::string path = folder.Write("a.array_record", ArrayRecordFile(records, 1));
  std::atomic<uint64_t> read = 0;
  const auto summary = IndexShard(path, {.bytes_read = &read});
  ASSERT_OK(summary);
  EXPECT_EQ(summary->records, 20u);
  EXPECT_EQ(summary->shard_bytes, std::filesystem::file_size(path));
  EXPECT_LE(read, 66'000u);
}

TEST(ArrayRecordFilesTest, FooterOfManyChunks) {
  TestFolder folder;
  std::vector<std::string> records;
  for (int i = 0; i < 20'000; ++i) records.push_back(fmt::format("{}", i));
  const std::string path = folder.Write("a.array_record", ArrayRecordFile(records, 1));
  const auto access = RandomAccess::Open(*ResolveSpecs({path}));
  ASSERT_OK(access);
  const auto found = (*access)->Get({19'999, 128, 0, 5'000});
  ASSERT_OK(found);
  EXPECT_THAT(found->records, ::testing::ElementsAre("19999", "128", "0", "5000"));
}

TEST(ArrayRecordFilesTest, ShardsWithoutRecordsAreEmpty) {
  TestFolder folder;
  const std::string path = folder.Write("none.array_record", ArrayRecordFile({}, 1));
  ASSERT_OK(IndexShard(path, {}));
  const auto report = VerifyShard(path, {});
  ASSERT_OK(report);
  EXPECT_EQ(report->num_defects, 0u);
  EXPECT_EQ(report->records, 0u);
  const auto all = Drain(*MakeReader(OpenTable(*ResolveSpecs({path})), {}));
  ASSERT_OK(all);
  EXPECT_THAT(all->records, IsEmpty());
}

TEST(ArrayRecordFilesTest, EmptyRecordsAreRecords) {
  TestFolder folder;
  for (const size_t group : {1, 3}) {
    const std::string path =
        folder.Write("a.array_record", ArrayRecordFile(std::vector<std::string>(5), group));
    const auto all = Drain(*MakeReader(OpenTable(*ResolveSpecs({path})), {}));
    ASSERT_OK(all);
    EXPECT_EQ(all->records, std::vector<std::string>(5));
    EXPECT_EQ(VerifyShard(path, {})->records, 5u);
  }
}

TEST(ArrayRecordFilesTest, FilesAreKnownByTheirNameOrTheirFirstBytes) {
  TestFolder folder;
  const std::string file = ArrayRecordFile({"abc"}, 1);
  EXPECT_EQ((*BuildIndex(folder.Write("unnamed", file), {}))->summary().framing,
            Framing::kArrayRecord);
  std::string damaged = file;
  damaged[30] ^= 1;
  const std::string path = folder.Write("a.array_record-00000-of-00001", damaged);
  EXPECT_EQ((*BuildIndex(path, {}))->records(), 1u);
  EXPECT_FAILS(BuildIndex(folder.Write("unnamed", damaged), {}), kDataLoss, "not a TFRecord file");
  EXPECT_FAILS(BuildIndex(folder.Write("a.array_record", ""), {}), kDataLoss,
               "a.array_record: the file has 0 bytes, but ArrayRecord files have a multiple");
  EXPECT_FAILS(BuildIndex(folder.Write("a.array_record", file.substr(0, 65'536)), {}), kDataLoss,
               "write it again with ArrayRecordWriter");
}

TEST(ArrayRecordFilesTest, TextIndexesAreRefused) {
  TestFolder folder;
  const std::string path = folder.Write("a.array_record", ArrayRecordFile({"abc"}, 1));
  EXPECT_FAILS(WriteTextIndex(path + ".idx", **BuildIndex(path, {})), kInvalidArgument,
               "a.array_record.idx: not written: its shard is an ArrayRecord shard");
}

}  // namespace
}  // namespace shardfeed
