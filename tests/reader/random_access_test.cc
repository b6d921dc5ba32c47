#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "reader/shards/shard_table.h"
#include "shardfeed/index.h"
#include "tests/reader/dataset_fixture.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::OpenTable;
using testing::RecordText;
using testing::TestFolder;
using testing::WriteShards;

const std::vector<uint64_t> kSizes = {37, 0, 512, 64, 1, 300, 300, 7};
constexpr uint64_t kRecords = 1221;

class RandomAccessTest : public ::testing::Test {
 protected:
  TestFolder folder_;
};

TEST_F(RandomAccessTest, GetsRecordsInTheOrderAskedFor) {
  for (const bool gzip : {false, true}) {
    for (uint64_t bytes : {50, 100'000}) {
      if (gzip && bytes > 50) continue;
      const RandomAccess access(OpenTable(WriteShards(folder_, kSizes, bytes, gzip)));
      std::mt19937_64 random(1);
      for (size_t count : {0, 1, 2, 300}) {
        std::vector<uint64_t> numbers;
        for (size_t i = 0; i < count; ++i) numbers.push_back(random() % kRecords);
        if (count > 1) numbers[1] = numbers[0];  // twice
        const auto set = access.Get(numbers, 2);
        ASSERT_OK(set);
        ASSERT_EQ(set->records.size(), count);
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(set->records[i], RecordText(numbers[i], bytes));
        }
      }
    }
  }
}

TEST_F(RandomAccessTest, RecordsOutliveIt) {
  absl::StatusOr<RecordSet> set = absl::UnknownError("not yet");
  {
    const RandomAccess access(OpenTable(WriteShards(folder_, kSizes)));
    set = access.Get({1220, 0}, 1);
  }
  ASSERT_OK(set);
  EXPECT_EQ(set->records, (std::vector<std::string_view>{RecordText(1220), RecordText(0)}));
}

TEST_F(RandomAccessTest, WrongNumbersAreRefused) {
  const RandomAccess access(OpenTable(WriteShards(folder_, {5})));
  EXPECT_FAILS(access.Get({0, 5}, 1), kOutOfRange,
               "record 5 does not exist: there are 5 records, numbered from 0");
  TestFolder other;  // without the index of the first shard
  const RandomAccess one(OpenTable(WriteShards(other, {1})));
  EXPECT_FAILS(one.Get({1}, 1), kOutOfRange,
               "record 1 does not exist: there is 1 record, numbered from 0");
}

TEST_F(RandomAccessTest, DamageIsLocated) {
  for (const bool gzip : {false, true}) {
    const ShardSet set = WriteShards(folder_, {1000}, 200, gzip);
    OpenTable(set);
    std::string shard = testing::ReadBytes(set.paths[0]);
    const RandomAccess access(OpenTable(set));
    const auto index = access.table().Index(0);
    ASSERT_OK(index);
    const uint64_t at = gzip ? shard.size() / 2 : (*index)->Offset(500) + 12;
    shard[at] ^= 1;
    folder_.Write("d-00000-of-00001", shard);
    if (!gzip) {
      EXPECT_FAILS(access.Get({500}, 1), kDataLoss, "d-00000-of-00001: record 500 at byte");
      EXPECT_OK(access.Get({499, 501}, 1));
    } else {
      std::vector<uint64_t> all(1000);
      for (uint64_t i = 0; i < 1000; ++i) all[i] = i;
      EXPECT_FAILS(access.Get(all, 1), kDataLoss, "d-00000-of-00001: record ");
      EXPECT_OK(access.Get({0}, 1));
    }
  }
}

TEST_F(RandomAccessTest, ManyThreadsAtOnce) {
  const RandomAccess access(OpenTable(WriteShards(folder_, kSizes)));
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&access, t] {
      for (uint64_t i = 0; i < 50; ++i) {
        const std::vector<uint64_t> numbers = {(i * 31 + t) % kRecords, (i * 77) % kRecords};
        const auto set = access.Get(numbers, 2);
        ASSERT_OK(set);
        EXPECT_EQ(set->records[0], RecordText(numbers[0]));
        EXPECT_EQ(set->records[1], RecordText(numbers[1]));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace shardfeed
