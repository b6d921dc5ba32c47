#include "reader/reader.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "shard/index_build.h"
#include "shard/salvage.h"
#include "tests/reader/dataset_fixture.h"
#include "tests/testing/deflate.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::Deflate;
using testing::OpenTable;
using testing::RecordText;
using testing::TestFolder;
using testing::WriteShards;

const std::vector<uint64_t> kSizes = {37, 0, 512, 64, 1, 300, 300, 7};
constexpr uint64_t kRecords = 1221;
constexpr int kSmallBlocks = 1;  // zlib's memory level, so that there are many restart points

struct Delivered {
  std::vector<std::string> records;
  std::vector<uint64_t> positions;  // epoch * 1,000,000 + position
  uint64_t padded = 0;
  std::vector<uint64_t> damaged;  // positions
};

// Reads to the end, or until `records` have come.
absl::StatusOr<Delivered> Drain(Reader& reader, uint64_t records = UINT64_MAX) {
  Delivered all;
  ReadBlock block;
  while (all.records.size() < records) {
    absl::Status status = reader.Next(&block);
    if (!status.ok()) return status;
    if (block.records.empty()) break;
    for (size_t i = 0; i < block.records.size(); ++i) {
      all.records.emplace_back(block.records[i]);
      all.positions.push_back(block.epoch * 1'000'000 + block.position + i * block.stride);
    }
    all.padded += block.padded;
    for (uint32_t i : block.damaged) {
      all.damaged.push_back(block.position + i * block.stride);
    }
  }
  return all;
}

std::unique_ptr<Reader> MakeReader(const std::shared_ptr<const ShardTable>& table,
                                   const ReaderOptions& options) {
  auto reader = Reader::Open(table, options);
  EXPECT_OK(reader);
  return reader.ok() ? *std::move(reader) : nullptr;
}

// Reads one epoch and compares each record with what the order has there.
void ExpectAll(const std::shared_ptr<const ShardTable>& table, const ReaderOptions& options,
               uint64_t bytes) {
  const auto reader = MakeReader(table, options);
  const auto all = Drain(*reader);
  if (options.io == EngineKind::kUring && absl::IsUnavailable(all.status())) return;  // none here
  ASSERT_OK(all);
  ASSERT_EQ(all->records.size(), kRecords / options.world);
  for (size_t i = 0; i < all->records.size(); ++i) {
    ASSERT_EQ(all->records[i], RecordText(reader->RecordAt(0, i * options.world), bytes));
  }
}

void PutIndex(const std::string& shard, std::string_view bytes) {
  std::filesystem::create_directories(std::filesystem::path(IndexPath(shard)).parent_path());
  std::ofstream(IndexPath(shard), std::ios::binary) << bytes;
}

std::vector<OrderSpec> Orders() {
  OrderSpec sequential;
  OrderSpec small_chunks;
  small_chunks.chunk = 10;
  OrderSpec interleave;
  interleave.kind = OrderSpec::Kind::kInterleave;
  interleave.cycle_length = 3;
  interleave.block_length = 2;
  interleave.chunk = 16;
  OrderSpec shuffle;
  shuffle.kind = OrderSpec::Kind::kShuffle;
  shuffle.seed = 7;
  shuffle.window = 256;
  shuffle.chunk = 10;
  shuffle.lanes = 8;
  OrderSpec all = shuffle;
  all.window = OrderSpec::kAll;
  OrderSpec by_default;
  by_default.kind = OrderSpec::Kind::kShuffle;
  return {sequential, small_chunks, interleave, shuffle, all, by_default};
}

class ReaderTest : public ::testing::Test {
 protected:
  TestFolder folder_;
};

TEST_F(ReaderTest, DeliversEveryOrderToEveryRank) {
  const auto table = OpenTable(WriteShards(folder_, kSizes));
  ASSERT_EQ(table->num_records(), kRecords);
  for (const OrderSpec& order : Orders()) {
    for (uint64_t world : {1, 2, 3, 8}) {
      for (uint64_t rank = 0; rank < world; rank += 2) {
        for (uint64_t block_records : {0, 7, 1000}) {
          ReaderOptions options;
          options.order = order;
          options.world = world;
          options.rank = rank;
          options.epochs = 2;
          options.threads = 3;
          options.block_records = block_records;
          const auto reader = MakeReader(table, options);
          const auto all = Drain(*reader);
          ASSERT_OK(all);
          ASSERT_EQ(all->records.size(), 2 * (kRecords / world)) << reader->order().Describe();
          for (size_t i = 0; i < all->records.size(); ++i) {
            const uint64_t epoch = i / (kRecords / world);
            const uint64_t position = rank + i % (kRecords / world) * world;
            ASSERT_EQ(all->positions[i], epoch * 1'000'000 + position);
            ASSERT_EQ(all->records[i], RecordText(reader->RecordAt(epoch, position)))
                << reader->order().Describe() << " " << i;
          }
        }
      }
    }
  }
}

TEST_F(ReaderTest, EveryEngineDeliversTheSame) {
  const auto table = OpenTable(WriteShards(folder_, kSizes, 3000));
  for (const OrderSpec& order : Orders()) {
    for (EngineKind io : {EngineKind::kUring, EngineKind::kThreads, EngineKind::kMmap}) {
      ReaderOptions options;
      options.order = order;
      options.io = io;
      options.threads = 2;
      ExpectAll(table, options, 3000);
    }
  }
}

TEST_F(ReaderTest, CompressedShards) {
  const auto table = OpenTable(WriteShards(folder_, kSizes, 200, /*gzip=*/true));
  for (const OrderSpec& order : Orders()) {
    for (uint64_t world : {1, 2}) {
      ReaderOptions options;
      options.order = order;
      options.world = world;
      options.threads = 2;
      ExpectAll(table, options, 200);
    }
  }
}

// As TensorFlow compresses them: each shard is one member, and records lie across restart points.
TEST_F(ReaderTest, ShardsThatOthersCompressed) {
  for (int window_bits : {31, 15}) {  // GZIP, ZLIB
    uint64_t number = 0;
    for (size_t s = 0; s < kSizes.size(); ++s) {
      std::string content;
      for (uint64_t i = 0; i < kSizes[s]; ++i) AppendFrame(RecordText(number++, 3000), &content);
      const std::string path = folder_ / ShardName("d", s, kSizes.size(), "");
      folder_.Write(ShardName("d", s, kSizes.size(), ""),
                    Deflate(content, window_bits, kSmallBlocks));
      IndexBuildOptions index;
      index.restart_interval = 20'000;
      ASSERT_OK(WriteIndex(path, index));
    }
    const auto table = OpenTable(*ResolveSpec(folder_ / fmt::format("d@{}", kSizes.size())));
    for (OrderSpec order : Orders()) {
      for (uint64_t chunk : {10, 100}) {
        order.chunk = chunk;
        ReaderOptions options;
        options.order = order;
        options.threads = 2;
        ExpectAll(table, options, 3000);
      }
    }
  }
}

// Data that deflate hardly shrinks is inflated block by block; where an index is wrong about the
// blocks, it takes longer.
TEST_F(ReaderTest, ShardsThatOthersCompressedToNoUse) {
  std::mt19937 random(1);
  std::vector<std::string> records;
  for (uint64_t i = 0; i < 300; ++i) {
    std::string record(random() % 6000, '\0');
    for (char& c : record) c = static_cast<char>(random() % 240);
    records.push_back(std::move(record));
  }
  std::vector<uint64_t> ends;
  std::string content;
  for (const std::string& record : records) {
    AppendFrame(record, &content);
    ends.push_back(content.size());
  }
  for (int window_bits : {31, 15}) {  // GZIP, ZLIB
    const std::string path =
        folder_.Write("d-00000-of-00001", Deflate(content, window_bits, /*memory_level=*/8));
    IndexBuildOptions build;
    build.restart_interval = 200'000;
    const auto sound = BuildIndex(path, build);
    ASSERT_OK(sound);
    ASSERT_GT((*sound)->num_restart_points(), 3);
    ASSERT_GT((*sound)->BlocksBetween(0, content.size()).size(), 20);
    for (int lies = 0; lies < 10; ++lies) {
      IndexBuilder builder;
      for (size_t i = 0; i < ends.size(); ++i) {
        EXPECT_OK(builder.AddFrame(ends[i] - (i == 0 ? 0 : ends[i - 1])));
      }
      for (uint64_t at = 0; at < content.size();) {
        const uint64_t next = (*sound)->RestartAtOrAfter(at + 1);
        builder.AddRestartPoint((*sound)->RestartBefore(at));
        for (DeflateBlock block : (*sound)->BlocksBetween(at, next)) {
          if (lies > 0 && random() % 20 == 0) block.bit += random() % 100;
          if (lies > 0 && random() % 20 == 0) block.offset -= random() % 100'000;
          builder.AddDeflateBlock(block);
        }
        at = next;
      }
      const auto bytes = builder.Finish((*sound)->summary());
      ASSERT_OK(bytes);
      if (lies == 0) {
        EXPECT_EQ(*bytes, (*sound)->bytes());
      }
      PutIndex(path, *bytes);
      for (OrderSpec order : Orders()) {
        order.chunk = 200;
        ReaderOptions options;
        options.order = order;
        options.threads = 2;
        options.check = lies % 2 == 0 ? CrcCheck::kAll : CrcCheck::kNone;
        const auto reader = MakeReader(OpenTable(*ResolveSpec(folder_ / "d@1")), options);
        const auto all = Drain(*reader);
        ASSERT_OK(all);
        ASSERT_EQ(all->records.size(), records.size());
        for (size_t i = 0; i < records.size(); ++i) {
          ASSERT_TRUE(all->records[i] == records[reader->RecordAt(0, i)]) << i;
        }
      }
    }
  }
}

// Indexes are not believed: whatever they say, what is delivered are records, or an error, and
// without CRCs at least nothing else is touched.
TEST_F(ReaderTest, LyingIndexesOfCompressedShards) {
  std::string content;
  std::vector<uint64_t> ends;
  for (uint64_t i = 0; i < 40; ++i) {
    AppendFrame(RecordText(i, 3000), &content);
    ends.push_back(content.size());
  }
  const std::string shard = Deflate(content, 31, kSmallBlocks);
  folder_.Write("d-00000-of-00001", shard);
  const std::string path = folder_ / "d-00000-of-00001";
  IndexBuildOptions build;
  build.restart_interval = 10'000;
  const auto sound = BuildIndex(path, build);
  ASSERT_OK(sound);
  std::vector<RestartPoint> points;
  for (uint64_t at = 0; at < content.size(); at = (*sound)->RestartAtOrAfter(at + 1)) {
    points.push_back((*sound)->RestartBefore(at));
  }
  ASSERT_GT(points.size(), 3);
  const auto read_with = [&](const std::vector<RestartPoint>& lies, uint64_t last_frame) {
    IndexBuilder builder;
    for (size_t i = 0; i < ends.size(); ++i) {
      const uint64_t size = ends[i] - (i == 0 ? 0 : ends[i - 1]);
      EXPECT_OK(builder.AddFrame(i + 1 == ends.size() ? last_frame : size));
    }
    for (const RestartPoint& point : lies) builder.AddRestartPoint(point);
    const auto bytes = builder.Finish((*sound)->summary());
    ASSERT_OK(bytes);
    PutIndex(path, *bytes);
    for (const uint64_t chunk : {1, 7, 100}) {
      for (const CrcCheck check : {CrcCheck::kAll, CrcCheck::kNone}) {
        ReaderOptions options;
        options.order.chunk = chunk;
        options.damage.skip = true;
        options.check = check;
        const auto all = Drain(*MakeReader(OpenTable(*ResolveSpec(folder_ / "d@1")), options));
        if (!all.ok() || check == CrcCheck::kNone) continue;
        for (const std::string& record : all->records) {
          if (record.empty()) continue;
          EXPECT_EQ(record, RecordText(std::stoull(record.substr(0, 8)), 3000));
        }
      }
    }
  };
  const uint64_t last_frame = ends.back() - ends[ends.size() - 2];
  read_with(points, last_frame);
  read_with(points, uint64_t{1} << 50);  // a record larger than all memory
  for (size_t i = 0; i < points.size(); ++i) {
    const auto lie_about = [&](const std::function<void(RestartPoint&)>& lie) {
      std::vector<RestartPoint> lies = points;
      lie(lies[i]);
      read_with(lies, last_frame);
    };
    for (const int64_t by : {-1000, 1, 1000, 1 << 20}) {
      lie_about([&](RestartPoint& point) { point.stream_offset += by; });
      lie_about([&](RestartPoint& point) { point.file_offset += by; });
    }
    lie_about([](RestartPoint& point) { point.bits = (point.bits + 3) & 7; });
    lie_about([](RestartPoint& point) { point.dictionary.clear(); });
    lie_about([](RestartPoint& point) { point.at_header = !point.at_header; });
  }
}

TEST_F(ReaderTest, DamageInShardsThatOthersCompressed) {
  std::string content;
  for (uint64_t i = 0; i < 200; ++i) AppendFrame(RecordText(i, 3000), &content);
  std::string shard = Deflate(content, 31, kSmallBlocks);
  folder_.Write("d-00000-of-00001", shard);
  IndexBuildOptions index;
  index.restart_interval = 20'000;
  ASSERT_OK(WriteIndex(folder_ / "d-00000-of-00001", index));
  shard[shard.size() / 2] ^= 1;
  folder_.Write("d-00000-of-00001", shard);
  const auto table = OpenTable(*ResolveSpec(folder_ / "d@1"));
  EXPECT_FAILS(Drain(*MakeReader(table, {})), kDataLoss, "d-00000-of-00001: record");
  ReaderOptions options;
  options.damage.skip = true;
  const auto all = Drain(*MakeReader(table, options));
  ASSERT_OK(all);
  ASSERT_EQ(all->records.size(), 200);
  EXPECT_GT(all->damaged.size(), 0);
  EXPECT_LT(all->damaged.size(), 150);
  for (uint64_t i = 0, d = 0; i < 200; ++i) {
    const bool damaged = d < all->damaged.size() && all->damaged[d] == i;
    if (damaged) ++d;
    EXPECT_EQ(all->records[i], damaged ? "" : RecordText(i, 3000));
  }
}

// A budget that holds next to nothing: the reader still gets on, block by block.
TEST_F(ReaderTest, TinyBudgetsOnlySlowItDown) {
  const auto table = OpenTable(WriteShards(folder_, kSizes, 3000));
  for (const OrderSpec& order : Orders()) {
    for (uint64_t budget : {1, 20'000, 1'000'000}) {
      ReaderOptions options;
      options.order = order;
      options.budget_bytes = budget;
      options.threads = 2;
      ExpectAll(table, options, 3000);
    }
  }
}

TEST_F(ReaderTest, BlocksOutliveTheReader) {
  const auto table = OpenTable(WriteShards(folder_, kSizes));
  std::vector<ReadBlock> blocks;
  ReaderOptions options;
  options.budget_bytes = 1 << 20;
  {
    const auto reader = MakeReader(table, options);
    for (ReadBlock block; reader->Next(&block).ok() && !block.records.empty();) {
      blocks.push_back(block);
    }
  }
  uint64_t i = 0;
  for (const ReadBlock& block : blocks) {
    for (std::string_view record : block.records) EXPECT_EQ(record, RecordText(i++));
  }
  EXPECT_EQ(i, kRecords);
}

TEST_F(ReaderTest, EndsOfEpochs) {
  const auto table = OpenTable(WriteShards(folder_, {10}));
  for (const OrderSpec& order : Orders()) {
    for (uint64_t rank : {0, 1}) {
      ReaderOptions options;
      options.order = order;
      options.world = 2;
      options.rank = rank;
      options.batch = 3;
      options.epochs = 2;
      const auto dropped = MakeReader(table, options);
      EXPECT_EQ(dropped->batches_per_epoch(), 1);
      EXPECT_EQ(Drain(*dropped)->records.size(), 6);
      options.end = EpochEnd::kPad;
      const auto padded = MakeReader(table, options);
      EXPECT_EQ(padded->batches_per_epoch(), 2);
      auto all = Drain(*padded);
      ASSERT_EQ(all->records.size(), 12);
      EXPECT_EQ(all->padded, 2);
      for (size_t i = 0; i < 12; ++i) {
        const uint64_t position = rank + i % 6 * 2;
        EXPECT_EQ(all->records[i], RecordText(padded->RecordAt(i / 6, position % 10)));
      }
      options.end = EpochEnd::kWrap;
      const auto wrapped = MakeReader(table, options);
      const auto same = Drain(*wrapped);
      EXPECT_EQ(same->records, all->records);
      EXPECT_EQ(same->padded, 0);
    }
  }
}

// Blocks of nothing but padding.
TEST_F(ReaderTest, MorePaddingThanABlock) {
  const auto table = OpenTable(WriteShards(folder_, kSizes));
  for (const OrderSpec& order : Orders()) {
    ReaderOptions options;
    options.order = order;
    options.batch = 2000;
    options.end = EpochEnd::kPad;
    options.block_records = 33;
    const auto all = Drain(*MakeReader(table, options));
    ASSERT_OK(all);
    EXPECT_EQ(all->records.size(), 2000);
    EXPECT_EQ(all->padded, 2000 - kRecords);
  }
}

TEST_F(ReaderTest, MoreRanksThanRecords) {
  const auto table = OpenTable(WriteShards(folder_, {2}));
  ReaderOptions options;
  options.world = 5;
  options.rank = 4;
  EXPECT_EQ(Drain(*MakeReader(table, options))->records.size(), 0);
  options.end = EpochEnd::kPad;
  const auto all = Drain(*MakeReader(table, options));
  EXPECT_EQ(all->records, std::vector<std::string>{RecordText(0)});
  EXPECT_EQ(all->padded, 1);
}

TEST_F(ReaderTest, NoRecordsAtAll) {
  const auto table = OpenTable(WriteShards(folder_, {0, 0}));
  for (const OrderSpec& order : Orders()) {
    for (EpochEnd end : {EpochEnd::kDrop, EpochEnd::kPad}) {
      ReaderOptions options;
      options.order = order;
      options.end = end;
      options.epochs = std::nullopt;
      const auto all = Drain(*MakeReader(table, options));
      ASSERT_OK(all);
      EXPECT_EQ(all->records.size(), 0);
    }
  }
}

TEST_F(ReaderTest, SelectedRecords) {
  const auto table = OpenTable(WriteShards(folder_, kSizes));
  for (const OrderSpec& order : Orders()) {
    ReaderOptions options;
    options.order = order;
    options.records = {{30, 100}, {200, 1}, {548, 3}, {1000, 221}};
    const auto reader = MakeReader(table, options);
    const auto all = Drain(*reader);
    ASSERT_OK(all);
    std::set<std::string> seen(all->records.begin(), all->records.end());
    EXPECT_EQ(seen.size(), 325);
    for (const RecordRange& range : *options.records) {
      for (uint64_t i = 0; i < range.count; ++i) {
        EXPECT_TRUE(seen.contains(RecordText(range.first + i)));
      }
    }
  }
  ReaderOptions options;
  options.records = {{5, 1}, {3, 2}};
  EXPECT_EQ(Drain(*MakeReader(table, options))->records,
            (std::vector<std::string>{RecordText(5), RecordText(3), RecordText(4)}));
  options.records = {{5, 1}, {5, 2}};
  EXPECT_FAILS(Reader::Open(table, options), kInvalidArgument, "record 5 is asked for twice");
  options.records = {{kRecords, 1}};
  EXPECT_FAILS(Reader::Open(table, options), kInvalidArgument, "the dataset has 1221 records");
  options.records = {{5, 1}, {3, 2}};
  options.order.kind = OrderSpec::Kind::kInterleave;
  EXPECT_FAILS(Reader::Open(table, options), kInvalidArgument, "cannot be interleaved");
}

// ---- State

TEST_F(ReaderTest, ResumesAnywhereOnAnyNumberOfRanks) {
  const auto table = OpenTable(WriteShards(folder_, kSizes));
  for (const OrderSpec& order : Orders()) {
    ReaderOptions options;
    options.order = order;
    options.epochs = 3;
    options.block_records = 12;
    options.batch = 12;  // of 1,221 records, 1,212 are delivered in each epoch
    const auto whole = Drain(*MakeReader(table, options));
    for (uint64_t stop : {0, 12, 612, 1212, 1500, 3636}) {
      const auto first = MakeReader(table, options);
      const auto before = Drain(*first, stop);
      ASSERT_OK(before);
      const auto state = first->StateDict();
      ASSERT_OK(state);
      EXPECT_LT(state->size(), 300);
      for (uint64_t world : {1, 2, 3}) {
        std::vector<std::string> rest(3636 - stop);
        for (uint64_t rank = 0; rank < world; ++rank) {
          ReaderOptions other = options;
          other.world = world;
          other.rank = rank;
          other.batch = 12 / world;
          const auto second = MakeReader(table, other);
          ASSERT_OK(second->LoadStateDict(*state));
          const auto after = Drain(*second);
          ASSERT_OK(after);
          for (size_t i = 0; i < after->records.size(); ++i) {
            ASSERT_LT(rank + i * world, rest.size());
            rest[rank + i * world] = after->records[i];
          }
        }
        for (size_t i = 0; i < rest.size(); ++i) {
          ASSERT_EQ(rest[i], whole->records[stop + i])
              << first->order().Describe() << " stop " << stop << " world " << world << " " << i;
        }
      }
    }
  }
}

TEST_F(ReaderTest, StatesOfOtherThingsAreRefused) {
  const auto table = OpenTable(WriteShards(folder_, {20, 20}));
  ReaderOptions options;
  const auto reader = MakeReader(table, options);
  const std::string state = *reader->StateDict();
  options.order.kind = OrderSpec::Kind::kShuffle;
  EXPECT_FAILS(MakeReader(table, options)->LoadStateDict(state), kFailedPrecondition,
               "the state belongs to another order: it was saved for sequential, this reader has "
               "shuffle(seed=0");
  for (const char* bad : {"", "{", "[]", "{}", R"({"format": "shardfeed reader state"})"}) {
    EXPECT_FAILS(reader->LoadStateDict(bad), kInvalidArgument, "not the state of a reader");
  }
  std::string later = state;
  later.replace(later.find("\"version\":2"), 11, "\"version\":9");
  EXPECT_FAILS(reader->LoadStateDict(later), kInvalidArgument, "version 9; this shardfeed reads");
  for (const char* bad : {"\"from\":1", "\"batch\":0", "\"world\":0", "\"world\":99999999999",
                          "\"position\":9223372036854775808"}) {
    std::string damaged = state;
    const std::string_view name(bad, std::strchr(bad, ':') + 1 - bad);
    const size_t at = damaged.find(name);
    damaged.replace(at, damaged.find_first_of(",}", at) - at, bad);
    EXPECT_FAILS(reader->LoadStateDict(damaged), kInvalidArgument, "the state is damaged");
  }
  TestFolder other;
  const auto other_table = OpenTable(WriteShards(other, {20, 21}));
  EXPECT_FAILS(MakeReader(other_table, ReaderOptions())->LoadStateDict(state), kFailedPrecondition,
               "the state belongs to other data");
  ReaderOptions any;
  any.deterministic = false;
  EXPECT_FAILS(MakeReader(table, any)->StateDict(), kFailedPrecondition, "deterministic = false");
}

TEST_F(ReaderTest, SeekGoesAnywhere) {
  const auto table = OpenTable(WriteShards(folder_, kSizes));
  for (const OrderSpec& order : Orders()) {
    ReaderOptions options;
    options.order = order;
    options.epochs = 3;
    const auto reader = MakeReader(table, options);
    for (uint64_t position : {1000, 0, 1220, 5}) {
      reader->Seek(1, position);
      const auto some = Drain(*reader, 20);
      ASSERT_OK(some);
      EXPECT_EQ(some->records[0], RecordText(reader->RecordAt(1, position)));
    }
  }
}

TEST_F(ReaderTest, SeekBehindTheLastPositionIsTheEndOfTheEpoch) {
  const auto table = OpenTable(WriteShards(folder_, kSizes));
  ReaderOptions options;
  options.rank = 1;
  options.world = 3;
  for (uint64_t position : {UINT64_MAX, UINT64_MAX - 1, uint64_t{1} << 63}) {
    const auto reader = MakeReader(table, options);
    reader->Seek(0, position);
    const auto none = Drain(*reader);
    ASSERT_OK(none);
    EXPECT_EQ(none->records.size(), 0);
  }
}

// A window of more than 8 MiB, whose first records are read one by one, from anywhere on.
TEST_F(ReaderTest, LargeWindows) {
  constexpr uint64_t kMany = 90'000;
  constexpr uint64_t kBad = 40'000;
  const ShardSet set = WriteShards(folder_, {kMany / 3, kMany / 3, kMany / 3}, 200);
  OpenTable(set);
  std::string shard = testing::ReadBytes(set.paths[1]);
  shard[shard.find(RecordText(kBad, 200))] ^= 1;
  folder_.Write("d-00001-of-00003", shard);
  for (uint64_t world : {1, 2, 3}) {
    ReaderOptions options;
    options.order.kind = OrderSpec::Kind::kShuffle;
    options.order.window = kMany - 1000;
    options.world = world;
    options.rank = world - 1;
    options.batch = 64;
    options.epochs = 2;
    options.threads = 2;
    options.damage.skip = true;
    const auto reader = MakeReader(OpenTable(set), options);
    ASSERT_TRUE(reader->memory_plan().whole_chunks);
    const uint64_t bad = reader->order().PositionOf(0, kBad);
    for (uint64_t start : {world == 2 ? 0 : bad + 1, kMany - 500}) {
      reader->Seek(0, start);
      const auto all = Drain(*reader);
      ASSERT_OK(all);
      const uint64_t first = all->records.size() - reader->records_per_epoch();
      EXPECT_LE(start + first * world, kMany);
      for (size_t i = 0; i < all->records.size(); ++i) {
        const uint64_t position = all->positions[i] % 1'000'000;
        ASSERT_EQ(position, all->positions[i < first ? 0 : first] % 1'000'000 +
                                (i < first ? i : i - first) * world);
        const uint64_t record = reader->RecordAt(i < first ? 0 : 1, position);
        ASSERT_EQ(all->records[i], record == kBad ? "" : RecordText(record, 200));
      }
    }
  }
}

// ---- Damage

TEST_F(ReaderTest, DamageIsAnErrorThatTellsWhere) {
  const ShardSet set = WriteShards(folder_, kSizes);
  OpenTable(set);
  std::string shard = testing::ReadBytes(set.paths[2]);
  shard[12] ^= 1;  // the first payload byte of record 37
  folder_.Write("d-00002-of-00008", shard);
  for (const OrderSpec& order : Orders()) {
    ReaderOptions options;
    options.order = order;
    const auto reader = MakeReader(OpenTable(set), options);
    const auto result = Drain(*reader);
    EXPECT_FAILS(result, kDataLoss, "d-00002-of-00008: record 0 at byte 0: payload CRC");
    ReadBlock block;
    EXPECT_EQ(reader->Next(&block), result.status());
    reader->Seek(0, 0);
    EXPECT_EQ(Drain(*reader).status(), result.status());
  }
}

TEST_F(ReaderTest, DamagedRecordsAreSkippedAndMarked) {
  const ShardSet set = WriteShards(folder_, kSizes);
  OpenTable(set);
  std::string shard = testing::ReadBytes(set.paths[5]);
  shard[0] ^= 1;                 // the length of its first record, number 614
  shard[shard.size() - 1] ^= 1;  // the CRC of its last, 913
  folder_.Write("d-00005-of-00008", shard);
  for (const OrderSpec& order : Orders()) {
    for (uint64_t world : {1, 2}) {
      std::set<uint64_t> damaged;
      std::set<uint64_t> reported;
      for (uint64_t rank = 0; rank < world; ++rank) {
        ReaderOptions options;
        options.order = order;
        options.world = world;
        options.rank = rank;
        options.end = EpochEnd::kPad;
        options.damage.skip = true;
        options.on_skip = [&](const DamagedRecord& record) {
          reported.insert(record.record);
          EXPECT_EQ(record.path, set.paths[5]);
        };
        const auto reader = MakeReader(OpenTable(set), options);
        const auto all = Drain(*reader);
        ASSERT_OK(all);
        EXPECT_EQ(all->records.size(), (kRecords + world - 1) / world);
        for (uint64_t position : all->damaged) damaged.insert(reader->RecordAt(0, position));
        for (size_t i = 0; i < all->records.size(); ++i) {
          const uint64_t record = reader->RecordAt(0, rank + i * world);
          const bool bad = record == 913;  // the length is mended
          EXPECT_EQ(all->records[i], bad ? "" : RecordText(record));
        }
      }
      EXPECT_EQ(damaged, (std::set<uint64_t>{913}));
      EXPECT_EQ(reported, damaged);
    }
  }
  shard[12] ^= 1;  // and the first payload byte
  folder_.Write("d-00005-of-00008", shard);
  ReaderOptions options;
  options.damage.skip = true;
  options.epochs = 3;  // the ceiling is each epoch's
  options.damage.max_skipped = {.share = 0, .at_least = 2};
  EXPECT_OK(Drain(*MakeReader(OpenTable(set), options)));
  options.damage.max_skipped.at_least = 1;
  EXPECT_FAILS(Drain(*MakeReader(OpenTable(set), options)), kDataLoss,
               "2 of 1221 records are damaged, which is more than may be skipped; the first is");
  EXPECT_FAILS(Drain(*MakeReader(OpenTable(set), options)), kDataLoss,
               "d-00005-of-00008: record 0 at byte 0: ");
  EXPECT_FAILS(Drain(*MakeReader(OpenTable(set), options)), kDataLoss, "'shardfeed repair'");
}

TEST_F(ReaderTest, UncheckedPayloadsAreDeliveredAsTheyAre) {
  const ShardSet set = WriteShards(folder_, {20});
  OpenTable(set);
  std::string shard = testing::ReadBytes(set.paths[0]);
  shard[12] ^= 1;
  folder_.Write("d-00000-of-00001", shard);
  for (CrcCheck check : {CrcCheck::kHeader, CrcCheck::kNone}) {
    ReaderOptions options;
    options.check = check;
    EXPECT_EQ(Drain(*MakeReader(OpenTable(set), options))->records.size(), 20);
  }
}

TEST_F(ReaderTest, ShardThatIsCutWhileItIsRead) {
  const ShardSet set = WriteShards(folder_, {20, 400}, 3000);
  const auto table = OpenTable(set);
  ASSERT_OK(table->OpenFile(1));
  std::filesystem::resize_file(set.paths[1], 10'000);
  ReaderOptions options;
  options.io = EngineKind::kThreads;
  const auto reader = MakeReader(table, options);
  EXPECT_FAILS(Drain(*reader), kDataLoss, "d-00001-of-00002: ends at byte 10000");
  ReadBlock block;
  EXPECT_FALSE(reader->Next(&block).ok());
  options.damage.skip = true;
  options.damage.max_skipped.share = 1;
  const auto all = Drain(*MakeReader(table, options));
  ASSERT_OK(all);
  EXPECT_EQ(all->records.size(), 420);
  EXPECT_GT(all->damaged.size(), 380);
  EXPECT_LT(all->damaged.size(), 400);
}

TEST_F(ReaderTest, CompressedDamage) {
  const ShardSet set = WriteShards(folder_, {1000}, 200, /*gzip=*/true);
  OpenTable(set);
  std::string shard = testing::ReadBytes(set.paths[0]);
  shard[shard.size() / 2] ^= 1;
  folder_.Write("d-00000-of-00001", shard);
  ReaderOptions options;
  options.order.chunk = 20;
  EXPECT_FAILS(Drain(*MakeReader(OpenTable(set), options)), kDataLoss, "d-00000-of-00001: record");
  options.damage.skip = true;
  options.damage.max_skipped.share = 1;
  const auto all = Drain(*MakeReader(OpenTable(set), options));
  ASSERT_OK(all);
  EXPECT_EQ(all->records.size(), 1000);
  EXPECT_GT(all->damaged.size(), 0);
  EXPECT_LT(all->damaged.size(), 1000);
  EXPECT_EQ(all->records[0], RecordText(0, 200));
}

// Numbers of the records that the recovery engine keeps; `known`: how far they are certain.
std::set<uint64_t> Salvaged(const std::string& path, uint64_t records, uint64_t* known) {
  const auto salvager = ShardSalvager::Open(path);
  EXPECT_OK(salvager);
  std::set<uint64_t> kept;
  RecordBlock block;
  while (true) {
    EXPECT_OK((*salvager)->Next(&block));
    if (!(*salvager)->numbers_exact()) break;
    *known = block.records.empty() ? records : block.first_record + block.records.size();
    if (block.records.empty()) break;
    for (size_t i = 0; i < block.records.size(); ++i) kept.insert(block.first_record + i);
  }
  return kept;
}

TEST_F(ReaderTest, SkippingLosesWhatTheRecoveryEngineLoses) {
  constexpr uint64_t kMany = 300;
  for (const bool gzip : {false, true}) {
    const ShardSet set = WriteShards(folder_, {kMany}, 200, gzip);
    OpenTable(set);
    const std::string sound = testing::ReadBytes(set.paths[0]);
    int all_known = 0;
    for (int damage = 0; damage < 40; ++damage) {
      SCOPED_TRACE(::testing::Message() << "gzip " << gzip << ", damage " << damage);
      std::string shard = sound;
      const size_t at = shard.size() / 41 * (damage + 1);
      if (damage % 4 == 3) {
        for (size_t i = at; i < std::min(at + 1000, shard.size()); ++i) shard[i] = 0;
      } else {
        shard[at] = static_cast<char>(shard[at] ^ (1 << damage % 8));
      }
      folder_.Write("d-00000-of-00001", shard);
      uint64_t known = 0;
      const std::set<uint64_t> kept = Salvaged(set.paths[0], kMany, &known);
      all_known += known == kMany;
      for (const OrderSpec& order : Orders()) {
        for (const uint64_t chunk : {7, 100}) {
          ReaderOptions options;
          options.order = order;
          options.order.chunk = chunk;
          options.threads = 2;
          options.damage.skip = true;
          options.damage.max_skipped.share = 1;
          const auto reader = MakeReader(OpenTable(set), options);
          const auto all = Drain(*reader);
          ASSERT_OK(all);
          ASSERT_EQ(all->records.size(), kMany);
          for (uint64_t i = 0; i < kMany; ++i) {
            const uint64_t record = reader->RecordAt(0, i);
            if (record >= known && all->records[i].empty()) continue;
            ASSERT_EQ(all->records[i],
                      record >= known || kept.contains(record) ? RecordText(record, 200) : "")
                << reader->order().Describe() << ": record " << record;
          }
        }
      }
    }
    EXPECT_GT(all_known, gzip ? 0 : 39);
  }
}

TEST_F(ReaderTest, ShardThatChangedIsRefused) {
  const ShardSet set = WriteShards(folder_, {20, 20});
  const auto table = OpenTable(set);
  folder_.Write("d-00001-of-00002", "something else");
  EXPECT_FAILS(Drain(*MakeReader(table, ReaderOptions())), kFailedPrecondition,
               "has 14 bytes, and had ");
  std::filesystem::remove(set.paths[1]);
  EXPECT_FAILS(Drain(*MakeReader(table, ReaderOptions())), kNotFound, "d-00001-of-00002");
}

// ---- Threads

TEST_F(ReaderTest, CompletionOrderDeliversEverythingOnce) {
  const auto table = OpenTable(WriteShards(folder_, kSizes));
  for (const OrderSpec& order : Orders()) {
    ReaderOptions options;
    options.order = order;
    options.deterministic = false;
    options.threads = 4;
    options.block_records = 5;
    const auto all = Drain(*MakeReader(table, options));
    ASSERT_OK(all);
    EXPECT_EQ(std::set<std::string>(all->records.begin(), all->records.end()).size(), kRecords);
    EXPECT_EQ(all->records.size(), kRecords);
  }
}

TEST_F(ReaderTest, CanBeDestroyedAtAnyMoment) {
  const auto table = OpenTable(WriteShards(folder_, kSizes, 3000));
  for (EngineKind io : {EngineKind::kAuto, EngineKind::kUring, EngineKind::kThreads}) {
    for (uint64_t records : {0, 1, 10, 300}) {
      ReaderOptions options;
      options.epochs = std::nullopt;
      options.io = io;
      options.threads = 4;
      options.budget_bytes = 100'000;
      options.block_records = 3;
      const auto reader = MakeReader(table, options);
      const auto some = Drain(*reader, records);
      if (!absl::IsUnavailable(some.status())) EXPECT_OK(some);
    }
  }
}

TEST_F(ReaderTest, ManyReadersAtOnce) {
  const auto table = OpenTable(WriteShards(folder_, kSizes));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&table, t] {
      ReaderOptions options;
      options.order = Orders()[t];
      options.threads = 2;
      options.epochs = 3;
      const auto all = Drain(*MakeReader(table, options));
      ASSERT_OK(all);
      EXPECT_EQ(all->records.size(), 3 * kRecords);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ReaderTest, SlowConsumerKeepsTheBudget) {
  const auto table = OpenTable(WriteShards(folder_, {2000}, 3000));
  for (const OrderSpec& order : Orders()) {
    ReaderOptions options;
    options.order = order;
    options.budget_bytes = 500'000;
    options.threads = 2;
    const auto reader = MakeReader(table, options);
    ReadBlock block;
    for (int i = 0; i < 5; ++i) {
      ASSERT_OK(reader->Next(&block));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    // One block more than the budget is allowed for.
    EXPECT_LE(reader->stats().peak_buffer_bytes, 500'000 + 4'000'000) << reader->order().Describe();
  }
}

TEST_F(ReaderTest, ForkedChildGoesOnByItself) {
  SKIP_WHERE_THREADS_HINDER_FORK();
  const auto table = OpenTable(WriteShards(folder_, kSizes));
  ReaderOptions options;
  options.threads = 2;
  const auto reader = MakeReader(table, options);
  const uint64_t before = Drain(*reader, 100)->records.size();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto rest = Drain(*reader);
    const bool right = rest.ok() && rest->records.size() == kRecords - before &&
                       rest->records[0] == RecordText(before);
    std::_Exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Drain(*reader)->records.size(), kRecords - before);
}

TEST_F(ReaderTest, WrongOptionsAreRefused) {
  const auto table = OpenTable(WriteShards(folder_, {5}));
  ReaderOptions options;
  options.rank = 2;
  options.world = 2;
  EXPECT_FAILS(Reader::Open(table, options), kInvalidArgument, "rank 2 of 2");
  options = ReaderOptions();
  options.batch = 0;
  EXPECT_FAILS(Reader::Open(table, options), kInvalidArgument, "batch must be");
  options = ReaderOptions();
  options.damage.max_skipped.share = 2;
  EXPECT_FAILS(Reader::Open(table, options), kInvalidArgument, "max_skipped");
}

TEST_F(ReaderTest, TableKeepsIndexesWhereItCan) {
  const ShardSet set = WriteShards(folder_, {5, 6});
  EXPECT_EQ(OpenTable(set)->indexes_built(), 2);
  EXPECT_EQ(OpenTable(set)->indexes_built(), 0);
  ShardTableOptions options;
  options.keep_indexes = false;
  std::filesystem::remove_all(folder_ / ".shardfeed");
  const auto table = ShardTable::Open(set, options);
  ASSERT_OK(table);
  EXPECT_EQ((*table)->indexes_not_kept(), 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ / ".shardfeed"));
  EXPECT_EQ(Drain(*MakeReader(*table, ReaderOptions()))->records.size(), 11);
}

}  // namespace
}  // namespace shardfeed
