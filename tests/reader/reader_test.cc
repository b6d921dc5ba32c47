#include "reader/reader.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/reader/dataset_fixture.h"
#include "tests/reader/reader_fixture.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::Drain;
using testing::ExpectAll;
using testing::kRecords;
using testing::kSizes;
using testing::MakeReader;
using testing::OnDisk;
using testing::OpenTable;
using testing::Orders;
using testing::ReaderFixture;
using testing::RecordText;
using testing::TestFolder;
using testing::WriteShards;

class ReaderTest : public ReaderFixture {};

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
  SKIP_OVER_STORE("the engines are those of files");
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

// With a tiny budget the reader still advances, block by block.
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
  options.records = {{5, 1}, {kRecords - 2, RecordRange::kToEnd}};
  EXPECT_EQ(Drain(*MakeReader(table, options))->records,
            (std::vector<std::string>{RecordText(5), RecordText(kRecords - 2),
                                      RecordText(kRecords - 1)}));
  options.records = {{kRecords, RecordRange::kToEnd}};
  EXPECT_FAILS(Reader::Open(table, options), kInvalidArgument, "record 1221 does not exist");
  options.records = {{5, 1}, {5, 2}};
  EXPECT_FAILS(Reader::Open(table, options), kInvalidArgument, "record 5 appears twice");
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
    options.batch = 12;  // 1,212 of 1,221 records are delivered in each epoch
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
  EXPECT_FAILS(
      MakeReader(table, options)->LoadStateDict(state), kFailedPrecondition,
      "the state belongs to another order: it was saved for sequential, but this reader has "
      "shuffle(seed=0");
  for (const char* bad : {"", "{", "[]", "{}", R"({"format": "shardfeed reader state"})"}) {
    EXPECT_FAILS(reader->LoadStateDict(bad), kInvalidArgument, "not a state of a shardfeed reader");
  }
  std::string later = state;
  later.replace(later.find("\"version\":2"), 11, "\"version\":9");
  EXPECT_FAILS(reader->LoadStateDict(later), kInvalidArgument,
               "version 9, but this shardfeed reads");
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

// A window of more than 8 MiB, whose first records are read one by one, from any position.
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
    options.skip_damaged = true;
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
    // The budget may be exceeded by one block.
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
  options.max_skipped.share = 2;
  EXPECT_FAILS(Reader::Open(table, options), kInvalidArgument, "max_skipped");
}

TEST_F(ReaderTest, TableKeepsIndexesWhereItCan) {
  SKIP_OVER_STORE("indexes that a table builds of shards in a store stay in memory");
  const ShardSet set = WriteShards(folder_, {5, 6});
  EXPECT_EQ(OpenTable(set)->indexes_built(), 2);
  EXPECT_EQ(OpenTable(set)->indexes_built(), 0);
  ShardTableOptions options;
  options.keep_indexes = false;
  std::filesystem::remove_all(OnDisk(folder_ / ".shardfeed"));
  const auto table = ShardTable::Open(set, options);
  ASSERT_OK(table);
  EXPECT_EQ((*table)->indexes_not_kept(), 2);
  EXPECT_FALSE(std::filesystem::exists(OnDisk(folder_ / ".shardfeed")));
  EXPECT_EQ(Drain(*MakeReader(*table, ReaderOptions()))->records.size(), 11);
}

}  // namespace
}  // namespace shardfeed
