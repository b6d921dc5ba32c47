#include "reader/unindexed_reader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/reader/dataset_fixture.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::OnDisk;
using testing::OpenTable;
using testing::TestFolder;
using testing::WriteShards;

const std::vector<uint64_t> kSizes = {37, 0, 512, 64, 1, 300, 300, 7};

// What either reader delivers, up to `records` records: "EPOCH POSITION RECORD".
template <typename AnyReader>
std::vector<std::string> Drain(AnyReader& reader, uint64_t records = UINT64_MAX) {
  std::vector<std::string> all;
  ReadBlock block;
  while (all.size() < records) {
    EXPECT_OK(reader.Next(&block));
    if (block.records.empty()) break;
    for (size_t i = 0; i < block.records.size(); ++i) {
      const bool padding = i + block.padded >= block.records.size();
      all.push_back(fmt::format("{} {} {}{}", block.epoch, block.position + i * block.stride,
                                block.records[i], padding ? " again" : ""));
    }
  }
  return all;
}

class UnindexedReaderTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const LazyShardTable> Lazy(const ShardSet& set) {
    auto table = LazyShardTable::Open(set);
    EXPECT_OK(table);
    return *std::move(table);
  }
  // A reader of the shards, without any index.
  std::unique_ptr<UnindexedReader> Open(const ShardSet& set, const ReaderOptions& options) {
    std::filesystem::remove_all(OnDisk(folder_ / ".shardfeed"));
    auto reader = UnindexedReader::Open(Lazy(set), options);
    EXPECT_OK(reader);
    return *std::move(reader);
  }

  TestFolder folder_;
};

std::vector<ReaderOptions> AllOptions() {
  std::vector<ReaderOptions> all;
  for (uint64_t cycle : {0, 3, 100}) {
    for (uint64_t world : {1, 3}) {
      for (uint64_t batch : {1, 300}) {
        for (EpochEnd end : {EpochEnd::kDrop, EpochEnd::kPad}) {
          ReaderOptions options;
          if (cycle > 0) {
            options.order.kind = OrderSpec::Kind::kInterleave;
            options.order.cycle = cycle;
            options.order.block = 2;
          }
          options.world = world;
          options.rank = world / 2;
          options.batch = batch;
          options.end = end;
          options.epochs = 2;
          all.push_back(options);
        }
      }
    }
  }
  return all;
}

TEST_F(UnindexedReaderTest, DeliversWhatAReaderDelivers) {
  for (const bool gzip : {false, true}) {
    const ShardSet set = WriteShards(folder_, kSizes, 50, gzip);
    for (const ReaderOptions& options : AllOptions()) {
      const auto reader = Open(set, options);
      const std::vector<std::string> all = Drain(*reader);
      auto indexed = Reader::Open(OpenTable(set), options);
      ASSERT_OK(indexed);
      ASSERT_EQ(all, Drain(**indexed));
      EXPECT_EQ(reader->stats().records, all.size());
    }
  }
}

// The result does not depend on how far the walk gets before the indexes are built.
TEST_F(UnindexedReaderTest, GoesOnWhereTheWalkEnds) {
  const ShardSet set = WriteShards(folder_, kSizes);
  for (const ReaderOptions& options : AllOptions()) {
    auto reader = Reader::Open(OpenTable(set), options);
    ASSERT_OK(reader);
    const std::vector<std::string> expected = Drain(**reader);
    for (uint64_t stop : {1, 200}) {
      const auto unindexed = Open(set, options);
      std::vector<std::string> all = Drain(*unindexed, stop);
      const auto indexed = unindexed->Indexed();
      ASSERT_OK(indexed);
      ASSERT_OK((*indexed)->StateDict());
      for (const std::string& more : Drain(*unindexed)) all.push_back(more);
      ASSERT_EQ(all, expected);
    }
  }
}

TEST_F(UnindexedReaderTest, KeepsTheIndexes) {
  const ShardSet set = WriteShards(folder_, kSizes);
  const auto reader = Open(set, ReaderOptions());
  EXPECT_EQ(Drain(*reader).size(), 1221);
  EXPECT_EQ(OpenTable(set)->indexes_built(), 0);
}

TEST_F(UnindexedReaderTest, CanBeDestroyedAtAnyMoment) {
  const ShardSet set = WriteShards(folder_, kSizes);
  for (uint64_t records : {0, 1, 50, 1000}) {
    for (int round = 0; round < 5; ++round) Drain(*Open(set, ReaderOptions()), records);
  }
}

TEST_F(UnindexedReaderTest, DamageIsLeftToTheReader) {
  const ShardSet set = WriteShards(folder_, {100, 100});
  // The first byte of the shard's first payload.
  std::fstream shard(folder_ / "d-00001-of-00002", std::ios::in | std::ios::out);
  shard.seekp(kHeaderBytes).put('x');
  shard.close();
  // If damage is skipped, positions are known only from the indexes.
  ReaderOptions options;
  options.skip_damaged = true;
  EXPECT_FAILS(UnindexedReader::Open(Lazy(set), options), kInvalidArgument, "after damage");
  const auto failing = Open(set, ReaderOptions());
  ReadBlock block;
  absl::Status status;
  uint64_t records = 0;
  while ((status = failing->Next(&block)).ok()) records += block.records.size();
  EXPECT_EQ(records, 100);
  EXPECT_FAILS(status, kDataLoss, "d-00001-of-00002: record 0 at byte 0: payload CRC");
}

TEST_F(UnindexedReaderTest, ErrorsOfTheIndexAreErrorsOfNext) {
  ShardSet set = WriteShards(folder_, {100, 100});
  set.paths.push_back(folder_ / "none");
  const auto reader = Open(set, ReaderOptions());
  absl::Status status;
  for (ReadBlock block; status.ok();) {
    status = reader->Next(&block);
    ASSERT_TRUE(!status.ok() || !block.records.empty());
  }
  EXPECT_FAILS(status, kNotFound, "none");
  EXPECT_FAILS(reader->Indexed(), kNotFound, "none");
}

TEST_F(UnindexedReaderTest, StopsWhereTheRecordsEnd) {
  std::stop_source stop;
  stop.request_stop();
  const auto reader = UnindexedReader::Open(Lazy(WriteShards(folder_, {100, 100})), ReaderOptions(),
                                            stop.get_token());
  ASSERT_OK(reader);
  absl::Status status;
  for (ReadBlock block; status.ok();) status = (*reader)->Next(&block);
  EXPECT_TRUE(absl::IsCancelled(status));
}

TEST_F(UnindexedReaderTest, WrongOptionsAreRefused) {
  const ShardSet set = WriteShards(folder_, {5});
  ReaderOptions options;
  options.order.kind = OrderSpec::Kind::kShuffle;
  EXPECT_FAILS(UnindexedReader::Open(Lazy(set), options), kInvalidArgument, "need an index");
  options = ReaderOptions();
  options.rank = 2;
  EXPECT_FAILS(UnindexedReader::Open(Lazy(set), options), kInvalidArgument, "rank 2 of 1");
}

}  // namespace
}  // namespace shardfeed
