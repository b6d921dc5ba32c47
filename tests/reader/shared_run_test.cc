#include "reader/run/shared_run.h"

#include <thread>

#include "gtest/gtest.h"
#include "reader/reader.h"
#include "tests/reader/dataset_fixture.h"
#include "tests/reader/reader_fixture.h"
#include "tests/testing/files.h"

namespace shardfeed::testing {
namespace {

class SharedRunTest : public ::testing::Test {
 protected:
  ~SharedRunTest() override { ShareReads(0); }

  static std::vector<std::unique_ptr<Reader>> Readers(
      const std::shared_ptr<const ShardTable>& table, ReaderOptions options, uint64_t world) {
    std::vector<std::unique_ptr<Reader>> readers;
    for (uint64_t rank = 0; rank < world; ++rank) {
      options.rank = rank;
      options.world = world;
      readers.push_back(MakeReader(table, options));
    }
    return readers;
  }

  // Lets all readers read at the same time, each on a thread of its own.
  static std::vector<absl::StatusOr<Delivered>> DrainAll(
      const std::vector<std::unique_ptr<Reader>>& readers) {
    std::vector<absl::StatusOr<Delivered>> all(readers.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < readers.size(); ++i) {
      threads.emplace_back([&, i] { all[i] = Drain(*readers[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    return all;
  }

  static void ExpectSame(const absl::StatusOr<Delivered>& a, const absl::StatusOr<Delivered>& b) {
    ASSERT_EQ(a.status(), b.status());
    if (!a.ok()) return;
    EXPECT_EQ(a->records, b->records);
    EXPECT_EQ(a->positions, b->positions);
    EXPECT_EQ(a->padded, b->padded);
  }

  TestFolder folder_;
};

TEST_F(SharedRunTest, EachReaderGetsWhatItGetsAlone) {
  const auto table = OpenTable(WriteShards(folder_, kSizes));
  for (const OrderSpec& order : Orders()) {
    for (uint64_t world : {1, 2, 3, 5}) {
      for (EpochEnd end : {EpochEnd::kDrop, EpochEnd::kPad}) {
        const ReaderOptions options = {
            .order = order, .batch = 7, .end = end, .epochs = 2, .threads = 2};
        ShareReads(0);
        const auto alone = DrainAll(Readers(table, options, world));
        ShareReads(world + 1);  // one of them never comes
        auto readers = Readers(table, options, world);
        if (world == 1) readers.push_back(MakeReader(table, options));
        const auto together = DrainAll(readers);
        for (size_t i = 0; i < readers.size(); ++i) ExpectSame(together[i], alone[i % world]);
      }
    }
  }
}

TEST_F(SharedRunTest, BytesAreReadOnce) {
  const auto table = OpenTable(WriteShards(folder_, {2000, 2000}, 500));
  for (const OrderSpec& order : Orders()) {
    if (order.window == OrderSpec::kAll) continue;  // each reads its own records
    ReaderOptions options = {.order = order, .threads = 1, .budget_bytes = 1 << 20};
    const auto one = MakeReader(table, options);
    ASSERT_OK(Drain(*one));
    ShareReads(3);
    const auto readers = Readers(table, options, 3);
    uint64_t bytes = 0;
    for (const auto& all : DrainAll(readers)) ASSERT_OK(all);
    for (const auto& reader : readers) bytes += reader->stats().bytes_read;
    EXPECT_LE(bytes, one->stats().bytes_read * 11 / 10);
    EXPECT_GT(bytes, 0);
    ShareReads(0);
  }
}

TEST_F(SharedRunTest, ReadersThatAreFarApartDoNotWait) {
  const auto table = OpenTable(WriteShards(folder_, {20'000}, 500));
  const ReaderOptions options = {.threads = 1, .budget_bytes = 64 << 10};
  const auto alone = DrainAll(Readers(table, options, 2));
  ShareReads(2);
  const auto readers = Readers(table, options, 2);
  ReadBlock first;
  ASSERT_OK(readers[0]->Next(&first));
  ExpectSame(Drain(*readers[1]), alone[1]);
  auto rest = Drain(*readers[0]);
  ASSERT_OK(rest);
  EXPECT_EQ(rest->records.size() + first.records.size(), alone[0]->records.size());
  EXPECT_EQ(rest->records.back(), alone[0]->records.back());
  EXPECT_EQ(rest->records.front(), alone[0]->records[first.records.size()]);
}

TEST_F(SharedRunTest, ReadersJoinWhereTheyAre) {
  const auto table = OpenTable(WriteShards(folder_, kSizes));
  const ReaderOptions options = {.batch = 2, .epochs = 2, .threads = 1};
  for (uint64_t position : {0, 3, 100, 101, 1220, 5000}) {
    ShareReads(0);
    auto readers = Readers(table, options, 3);
    readers[1]->Seek(0, position);
    readers[2]->Seek(1, position);
    const auto alone = DrainAll(readers);
    ShareReads(3);
    readers = Readers(table, options, 3);
    readers[1]->Seek(0, position);
    readers[2]->Seek(1, position);
    const auto together = DrainAll(readers);
    for (size_t i = 0; i < 3; ++i) ExpectSame(together[i], alone[i]);
  }
}

TEST_F(SharedRunTest, DamageConcernsOnlyTheReaderOfTheRecord) {
  const ShardSet set = WriteShards(folder_, {100});
  KeepIndexes(set);
  std::string shard = ReadBytes(folder_ / "d-00000-of-00001");
  shard[shard.find(RecordText(50)) + 1] ^= 1;
  folder_.Write("d-00000-of-00001", shard);
  const auto table = OpenTable(set);
  ShareReads(2);
  const auto all = DrainAll(Readers(table, {.threads = 1}, 2));
  EXPECT_TRUE(absl::IsDataLoss(all[0].status())) << all[0].status();
  ASSERT_OK(all[1]);
  EXPECT_EQ(all[1]->records.size(), 50);
}

}  // namespace
}  // namespace shardfeed::testing
