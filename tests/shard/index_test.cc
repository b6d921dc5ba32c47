#include "shard/index/index.h"

#include <functional>
#include <random>
#include <thread>

#include "base/little_endian.h"
#include "shard/indexing/index_build.h"
#include "shard/indexing/text_index.h"
#include "shard/spec/spec.h"
#include "tests/testing/files.h"
#include "tests/testing/index_lies.h"
#include "tfrecord/framing.h"
#include "tfrecord/gzip_members.h"

namespace shardfeed {
namespace {

using testing::FitIndexCrcs;
using testing::OnDisk;
using testing::ReadBytes;
using testing::TestFolder;

std::shared_ptr<const ShardIndex> IndexOf(const std::vector<uint64_t>& frames,
                                          const std::vector<RestartPoint>& points = {}) {
  IndexBuilder builder;
  for (uint64_t frame : frames) EXPECT_OK(builder.AddFrame(frame));
  for (const RestartPoint& point : points) builder.AddRestartPoint(point);
  IndexSummary summary{.records_digest = 0x12345678, .shard_bytes = builder.stream_bytes()};
  if (!points.empty()) summary.compression = Compression::kGzip;
  auto bytes = builder.Finish(summary);
  EXPECT_OK(bytes);
  auto index = ShardIndex::FromBytes(*bytes, "test");
  EXPECT_OK(index);
  return *index;
}

void ExpectOffsets(const std::vector<uint64_t>& frames) {
  const auto index = IndexOf(frames);
  ASSERT_EQ(index->records(), frames.size());
  uint64_t offset = 0;
  for (size_t i = 0; i < frames.size(); ++i) {
    ASSERT_EQ(index->Offset(i), offset) << i;
    ASSERT_EQ(index->RecordAt(offset), i);
    ASSERT_EQ(index->RecordAt(offset + frames[i] - 1), i);
    offset += frames[i];
  }
  EXPECT_EQ(index->Offset(frames.size()), offset);
  EXPECT_EQ(index->summary().stream_bytes, offset);
}

TEST(ShardIndex, GivesEachOffsetBack) {
  std::mt19937_64 random(1);
  for (size_t n : {0, 1, 2, 127, 128, 129, 256, 1000}) {
    ExpectOffsets(std::vector<uint64_t>(n, 246));
    for (int bits : {4, 17, 33, 45}) {
      std::vector<uint64_t> frames;
      for (size_t i = 0; i < n; ++i) frames.push_back(16 + random() % (uint64_t{1} << bits));
      ExpectOffsets(frames);
    }
  }
}

TEST(ShardIndex, OffsetsOfSixtyFourBits) {
  // Deviations of up to 61 bits, packed at every bit position.
  std::vector<uint64_t> frames(100, 16);
  frames[3] = uint64_t{1} << 60;
  frames[50] = (uint64_t{1} << 60) + 12345;
  ExpectOffsets(frames);
}

TEST(ShardIndex, TakesFewBytesARecord) {
  std::mt19937 random(1);
  std::vector<uint64_t> equal(10000, 246);
  EXPECT_LT(IndexOf(equal)->bytes().size(), 10000 * 0.3);
  std::vector<uint64_t> images;
  for (int i = 0; i < 10000; ++i) images.push_back(20000 + random() % 200000);
  EXPECT_LT(IndexOf(images)->bytes().size(), 10000 * 3.5);
}

TEST(ShardIndex, FindsTheRestartPointBefore) {
  std::vector<RestartPoint> points;
  for (uint64_t i = 0; i < 5; ++i) {
    points.push_back({.file_offset = 10 * i,
                      .stream_offset = 1000 * i,
                      .bits = static_cast<int>(i),
                      .at_header = i == 0,
                      .dictionary = std::string(i * 100, static_cast<char>('a' + i))});
  }
  const auto index = IndexOf({5000}, points);
  EXPECT_EQ(index->num_restart_points(), 5);
  for (uint64_t i = 0; i < 5; ++i) {
    for (uint64_t offset : {1000 * i, 1000 * i + 999}) {
      const RestartPoint found = index->RestartBefore(offset);
      EXPECT_EQ(found.file_offset, 10 * i);
      EXPECT_EQ(found.stream_offset, 1000 * i);
      EXPECT_EQ(found.bits, i);
      EXPECT_EQ(found.at_header, i == 0);
      EXPECT_EQ(found.dictionary, points[i].dictionary);
    }
  }
}

TEST(ShardIndex, TellsTheBlocksBetweenRestartPoints) {
  constexpr uint64_t kMillion = 1'000'000;
  IndexBuilder builder;
  EXPECT_OK(builder.AddFrame(5 * kMillion));
  builder.AddDeflateBlock({5, 5});  // belongs to no point
  builder.AddRestartPoint({.dictionary = "window"});
  builder.AddDeflateBlock({1003, 10'000});
  builder.AddDeflateBlock({2004, 20'000});
  builder.AddRestartPoint(
      {.file_offset = 1000, .stream_offset = kMillion, .bits = 3, .at_header = false});
  builder.AddDeflateBlock({9000, kMillion + 10'000});
  builder.AddDeflateBlock({uint64_t{1} << 40, kMillion + 20'000});  // too far to be encoded
  builder.AddRestartPoint({.file_offset = 2000, .stream_offset = 2 * kMillion});
  const auto bytes = builder.Finish({.compression = Compression::kGzip, .shard_bytes = 3000});
  ASSERT_OK(bytes);
  const auto opened = ShardIndex::FromBytes(*bytes, "test");
  ASSERT_OK(opened);
  const ShardIndex& index = **opened;
  using Pairs = std::vector<std::pair<uint64_t, uint64_t>>;
  const auto between = [&](uint64_t from, uint64_t to) {
    Pairs found;
    for (const DeflateBlock& block : index.BlocksBetween(from, to)) {
      found.emplace_back(block.bit, block.offset);
    }
    return found;
  };
  const Pairs first = {{1003, 10'000}, {2004, 20'000}};
  Pairs all = first;
  all.insert(all.end(), {{7997, kMillion}, {9000, kMillion + 10'000}});
  EXPECT_EQ(index.RestartBefore(0).dictionary, "window");
  EXPECT_EQ(between(0, kMillion), first);
  EXPECT_EQ(between(0, 2 * kMillion), all);
  EXPECT_EQ(between(kMillion, 2 * kMillion), (Pairs{{9000, kMillion + 10'000}}));
  EXPECT_EQ(between(kMillion, 5 * kMillion), Pairs());  // another member starts there
  EXPECT_EQ(between(5 * kMillion, 6 * kMillion), Pairs());
  EXPECT_EQ(IndexOf({100})->BlocksBetween(0, 100).size(), 0);
  // Possible ends: a block, a restart point, the end of the shard.
  const auto end = [&](uint64_t offset) {
    const RestartPoint point = index.EndAtOrAfter(offset);
    return std::tuple(point.file_offset, point.bits, point.stream_offset, point.at_header);
  };
  EXPECT_EQ(end(10'000), std::tuple(126, 5, 10'000, false));
  EXPECT_EQ(end(10'001), std::tuple(251, 4, 20'000, false));
  EXPECT_EQ(end(20'001), std::tuple(1000, 3, kMillion, false));
  EXPECT_EQ(end(kMillion), std::tuple(1000, 3, kMillion, false));
  EXPECT_EQ(end(kMillion + 10'001), std::tuple(2000, 0, 2 * kMillion, true));
  EXPECT_EQ(end(2 * kMillion + 1), std::tuple(3000, 0, 5 * kMillion, true));
}

// Does not allocate memory for more blocks than there can be.
TEST(ShardIndex, DoesNotTellMoreBlocksThanThereCanBe) {
  IndexBuilder builder;
  EXPECT_OK(builder.AddFrame(100'000));
  for (uint64_t point = 0; point < 100; ++point) {
    builder.AddRestartPoint({.file_offset = point,
                             .stream_offset = point == 0 ? 0 : uint64_t{50'000},
                             .at_header = point == 0});
    for (int i = 0; i < 70'000; ++i) builder.AddDeflateBlock({17, 50'001});
  }
  const auto bytes = builder.Finish({.compression = Compression::kGzip, .shard_bytes = 99});
  ASSERT_OK(bytes);
  const auto index = ShardIndex::FromBytes(*bytes, "test");
  ASSERT_OK(index);
  EXPECT_EQ((*index)->BlocksBetween(50'000, 100'000).capacity(), 0);
}

// The bytes of `index` after `change`, with valid CRCs.
std::string Changed(const ShardIndex& index, const std::function<void(std::string&)>& change) {
  std::string bytes(index.bytes());
  change(bytes);
  FitIndexCrcs(&bytes);
  return bytes;
}

TEST(ShardIndex, ContradictionsAreFound) {
  std::vector<uint64_t> frames;
  for (uint64_t i = 0; i < 300; ++i) frames.push_back(100 + i % 7);
  const auto raw = IndexOf(frames);
  const auto points = IndexOf(frames, {{},
                                       {.file_offset = 10, .stream_offset = 500},
                                       {.file_offset = 20,
                                        .stream_offset = 900,
                                        .bits = 3,
                                        .at_header = false,
                                        .dictionary = "window"}});
  const auto put = [](uint64_t at, uint64_t value) {
    return [=](std::string& bytes) { StoreLittleEndian(value, bytes.data() + at); };
  };
  const auto refused = [](const std::string& bytes) {
    EXPECT_FAILS(ShardIndex::FromBytes(bytes, "test"), kDataLoss,
                 "test: the index contradicts itself; rebuild it with 'shardfeed index'");
  };
  EXPECT_OK(ShardIndex::FromBytes(Changed(*raw, [](std::string&) {}), "test"));
  EXPECT_OK(ShardIndex::FromBytes(Changed(*points, [](std::string&) {}), "test"));
  const uint64_t directory = LoadLittleEndian<uint64_t>(raw->bytes().data() + 48);
  const uint64_t first = LoadLittleEndian<uint64_t>(raw->bytes().data() + directory);
  const uint64_t second = LoadLittleEndian<uint64_t>(raw->bytes().data() + directory + 8);
  const std::string empty = Changed(*raw, put(32, 0));  // no records, where there are groups
  refused(empty);
  EXPECT_FAILS(ShardIndex::ParseHeader(std::string_view(empty).substr(0, 88), empty.size(), "test"),
               kDataLoss, "test: the index contradicts itself");
  refused(Changed(*raw, put(first, 1)));                  // not from byte 0 on
  refused(Changed(*raw, put(second, 0)));                 // group 1 is group 0 again
  refused(Changed(*raw, put(second, raw->Offset(127))));  // record 127 has no room
  refused(Changed(*raw, put(second, raw->summary().stream_bytes)));
  refused(Changed(*raw, put(second, UINT64_MAX)));
  refused(Changed(*raw, put(first + 8, 15)));  // less than the framing of a record
  refused(Changed(*raw, put(first + 8, UINT64_MAX / 100)));
  refused(Changed(*raw, put(first + 17, 0x1234567890abcdef)));  // descending offsets
  refused(Changed(*raw, [&](std::string& bytes) { bytes[second + 16] = 64; }));
  refused(Changed(*raw, put(directory, UINT64_MAX - 20)));
  refused(Changed(*raw, put(24, raw->summary().stream_bytes + 1)));  // not the file's size
  const uint64_t entries = LoadLittleEndian<uint64_t>(points->bytes().data() + 56);
  refused(Changed(*points, put(entries + 8, 1)));         // the first one is not at the beginning
  refused(Changed(*points, put(entries + 32, 0)));        // twice the same place
  refused(Changed(*points, put(entries + 32, 21)));       // they do not ascend
  refused(Changed(*points, put(entries + 40, 901)));      // nor does the content
  refused(Changed(*points, put(entries + 64, 1 << 30)));  // past the end of the file
  refused(Changed(*points, put(entries + 72, 1 << 30)));  // past the end of the content
  refused(Changed(*points, put(entries + 80, 1 << 30)));  // a dictionary past the end of the index
  refused(Changed(*points, [&](std::string& bytes) { bytes[entries + 92] = 8; }));
  refused(Changed(*points, [&](std::string& bytes) { bytes[entries + 93] = 2; }));
  refused(Changed(*points, [&](std::string& bytes) { bytes[entries + 60] = 1; }));
  refused(Changed(*points, [&](std::string& bytes) { bytes[entries + 94] = 100; }));
  refused(Changed(*points, [](std::string& bytes) { bytes[8] = 0; }));  // a raw one with points
}

TEST(ShardIndex, EveryFlippedByteIsFound) {
  const std::string sound(IndexOf({100, 200, 300})->bytes());
  for (size_t i = 0; i < sound.size(); ++i) {
    std::string bytes = sound;
    bytes[i] ^= 0x40;
    EXPECT_FAILS(ShardIndex::FromBytes(bytes, "test"), kDataLoss, "rebuild it");
  }
  for (size_t size = 0; size < sound.size(); ++size) {
    EXPECT_FAILS(ShardIndex::FromBytes(sound.substr(0, size), "test"), kDataLoss, "test: ");
  }
}

class BuildTest : public ::testing::Test {
 protected:
  std::string WriteShard(std::string_view name, const std::vector<std::string>& payloads) {
    std::string bytes;
    for (const std::string& payload : payloads) AppendFrame(payload, &bytes);
    return folder_.Write(name, bytes);
  }

  TestFolder folder_;
};

TEST_F(BuildTest, IndexOfARawShard) {
  const std::string path = WriteShard("s", {"abc", "", std::string(100000, 'x'), "end"});
  const auto summary = IndexShard(path, {});
  ASSERT_OK(summary);
  EXPECT_EQ(summary->records, 4);
  const auto index = ShardIndex::Open(IndexPath(path));
  ASSERT_OK(index);
  EXPECT_EQ((*index)->Offset(1), 19);
  EXPECT_EQ((*index)->Offset(3), 19 + 16 + 100016);
  EXPECT_EQ((*index)->summary().shard_bytes, ReadBytes(path).size());
}

TEST_F(BuildTest, EmptyShard) {
  const auto index = BuildIndex(folder_.Write("s", ""), {});
  ASSERT_OK(index);
  EXPECT_EQ((*index)->records(), 0);
}

TEST_F(BuildTest, LargeRecordsAreNotRead) {
  SKIP_OVER_STORE("shards are streamed whole, since requests cost more than bytes");
  std::vector<std::string> payloads(50, std::string(110000, 'x'));
  const std::string path = WriteShard("s", payloads);
  std::atomic<uint64_t> bytes_read{0};
  ASSERT_OK(IndexShard(path, {.bytes_read = &bytes_read}));
  EXPECT_LT(bytes_read, 50 * 110000 / 20);
}

// The size of pieces cannot be set from outside, so the shard must have several.
TEST_F(BuildTest, ManyThreadsInOneShardAgreeWithOne) {
  std::mt19937 random(2);
  std::string bytes;
  std::string nested;
  for (int i = 0; i < 2000; ++i) AppendFrame("inner record", &nested);
  while (bytes.size() < (100u << 20)) {
    switch (random() % 8) {
      case 0:
        AppendFrame(nested, &bytes);  // a payload that looks like records
        break;
      case 1:
        AppendFrame(std::string(random() % 3000000, 'x'), &bytes);
        break;
      default:
        for (int i = 0; i < 500; ++i) AppendFrame(std::string(random() % 300, 'y'), &bytes);
    }
  }
  const std::string path = folder_.Write("s", bytes);
  const auto one = BuildIndex(path, {.threads = 1});
  const auto four = BuildIndex(path, {.threads = 4});
  ASSERT_OK(one);
  ASSERT_OK(four);
  EXPECT_TRUE((*one)->bytes() == (*four)->bytes());
}

TEST_F(BuildTest, DamageIsLocated) {
  std::string bytes;
  AppendFrame("abc", &bytes);
  AppendFrame("def", &bytes);
  std::string damaged = bytes;
  damaged[19] ^= 1;
  EXPECT_FAILS(BuildIndex(folder_.Write("a", damaged), {}), kDataLoss,
               "record 1 at byte 19: length CRC expected");
  EXPECT_FAILS(BuildIndex(folder_.Write("b", bytes.substr(0, 25)), {}), kDataLoss,
               "record 1 at byte 19: cut header: expected 12 bytes, got 6");
  EXPECT_FAILS(BuildIndex(folder_.Write("c", bytes.substr(0, 33)), {}), kDataLoss,
               "record 1 at byte 19: cut payload or footer");
  EXPECT_FAILS(BuildIndex(folder_.Write("d", "some text that is no record"), {}), kDataLoss,
               "d: not a TFRecord file");
}

TEST_F(BuildTest, FailureLeavesNoIndexAndKeepsTheOldOne) {
  const std::string path = WriteShard("s", {"abc", "def"});
  ASSERT_OK(IndexShard(path, {}));
  const std::string before = ReadBytes(IndexPath(path));
  std::string bytes = ReadBytes(path);
  bytes[19] ^= 1;
  folder_.Write("s", bytes);
  EXPECT_FAILS(IndexShard(path, {}), kDataLoss, "length CRC");
  EXPECT_EQ(ReadBytes(IndexPath(path)), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(OnDisk(folder_ / ".shardfeed")), {}),
            1);
}

TEST_F(BuildTest, WhatAKilledOneLeftIsReplaced) {
  SKIP_OVER_STORE("objects are replaced as a whole, without another name");
  const std::string path = WriteShard("s", {"abc"});
  folder_.Write(".shardfeed/s.index.tmp", "what was written so far, and more than will be");
  ASSERT_OK(IndexShard(path, {}));
  EXPECT_OK(ShardIndex::Open(IndexPath(path)));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(OnDisk(folder_ / ".shardfeed")), {}),
            1);
}

TEST_F(BuildTest, SeveralAtOnceDoNotMix) {
  const std::string path = WriteShard("s", std::vector<std::string>(10'000, "abc"));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&path] {
      for (int j = 0; j < 10; ++j) EXPECT_OK(IndexShard(path, {}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ((*ShardIndex::Open(IndexPath(path)))->records(), 10'000);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(OnDisk(folder_ / ".shardfeed")), {}),
            1);
}

TEST_F(BuildTest, CompressedShardHasRestartPoints) {
  std::string frames;
  std::string file;
  for (int i = 0; i < 1000; ++i) {
    AppendFrame(std::string(1000, static_cast<char>(i)), &frames);
    if (frames.size() < 100000) continue;
    AppendGzipMember(frames, 6, &file);
    frames.clear();
  }
  AppendGzipMember(frames, 6, &file);
  const auto index = BuildIndex(folder_.Write("s.gz", file), {.restart_interval = 150000});
  ASSERT_OK(index);
  EXPECT_EQ((*index)->records(), 1000);
  EXPECT_EQ((*index)->summary().compression, Compression::kGzip);
  EXPECT_GE((*index)->num_restart_points(), 4);
}

TEST_F(BuildTest, StaleIndexIsNotUsed) {
  const std::string path = WriteShard("s", {"abc"});
  ASSERT_OK(IndexShard(path, {}));
  WriteShard("s", {"abc", "def"});
  EXPECT_EQ((*OpenOrBuildIndex(path, {}))->records(), 2);
}

TEST_F(BuildTest, CutShardIsNotIndexedAnew) {
  const std::string path = WriteShard("s", {"abc", "def", "ghi"});
  ASSERT_OK(IndexShard(path, {}));
  WriteShard("s", {"abc", "def"});
  EXPECT_FAILS(CheckNotCut(path, {}), kDataLoss, "ends before record 2 of the 3");
  EXPECT_FAILS(OpenOrBuildIndex(path, {}), kDataLoss, "ends before record 2 of the 3");
  folder_.Write("s", "");
  EXPECT_FAILS(CheckNotCut(path, {}), kDataLoss, "ends before record 0 of the 3");
  EXPECT_FAILS(OpenOrBuildIndex(path, {}), kDataLoss, "ends before record 0 of the 3");
  // Another shard.
  WriteShard("s", {"abcd", "ef"});
  EXPECT_OK(CheckNotCut(path, {}));
  EXPECT_EQ((*OpenOrBuildIndex(path, {}))->records(), 2);
}

TEST_F(BuildTest, TextIndexGoesBothWays) {
  SKIP_OVER_STORE("text indexes are read beside files alone");
  const std::string path = WriteShard("s.tfrecord", {"abc", "", "0123456789"});
  const auto index = BuildIndex(path, {});
  const std::string text = TextIndexPath(path, "dali");
  EXPECT_EQ(text, path + ".idx");
  EXPECT_EQ(TextIndexPath(path, "tfindex"), folder_ / "s.tfindex");
  ASSERT_OK(WriteTextIndex(text, **index));
  EXPECT_EQ(ReadBytes(text), "0 19\n19 16\n35 26\n");
  EXPECT_OK(CompareTextIndex(path, **index));
  folder_.Write("s.tfrecord.idx", "0 19\n19 17\n35 26\n");
  EXPECT_FAILS(CompareTextIndex(path, **index), kDataLoss,
               "line 2 says '19 17', but the record is at 19 and has 16 bytes");
  folder_.Write("s.tfrecord.idx", "0 19\n19 16\n");
  EXPECT_FAILS(CompareTextIndex(path, **index), kDataLoss, "has 2 lines, but the shard has 3");
  folder_.Write("s.tfrecord.idx", "0 19\n19 16\n35 26\n61 16\n");
  EXPECT_FAILS(CompareTextIndex(path, **index), kDataLoss, "line 4 says '61 16'");
}

TEST_F(BuildTest, NoTextIndexIsNotFound) {
  SKIP_OVER_STORE("text indexes are read beside files alone");
  const std::string path = WriteShard("s", {"abc"});
  EXPECT_FAILS(CompareTextIndex(path, **BuildIndex(path, {})), kNotFound, "there is neither");
}

}  // namespace
}  // namespace shardfeed
