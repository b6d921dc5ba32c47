#include "reader/shards/lazy_shard_table.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "tests/reader/dataset_fixture.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::OnDisk;
using testing::OpenTable;
using testing::TestFolder;
using testing::WriteShards;

class LazyShardTableTest : public ::testing::Test {
 protected:
  static std::shared_ptr<LazyShardTable> Open(const ShardSet& set) {
    auto table = LazyShardTable::Open(set);
    EXPECT_OK(table);
    return *std::move(table);
  }

  TestFolder folder_;
};

TEST_F(LazyShardTableTest, IsThereWhereIndexesAre) {
  SKIP_OVER_STORE("nothing is asked of a store before it is needed");
  const ShardSet set = WriteShards(folder_, {20, 30});
  EXPECT_FALSE(Open(set)->made());
  const auto table = OpenTable(set);
  const auto lazy = Open(set);
  EXPECT_TRUE(lazy->made());
  EXPECT_EQ((*lazy->Get())->fingerprint(), table->fingerprint());
  EXPECT_EQ(lazy->num_shards(), 2);
  const LazyShardTable of_table(table);
  EXPECT_TRUE(of_table.made());
  EXPECT_EQ(*of_table.Get(), table);
  EXPECT_EQ(of_table.num_shards(), 2);
}

TEST_F(LazyShardTableTest, IsMadeOnce) {
  const auto lazy = Open(WriteShards(folder_, {200, 300}));
  std::vector<std::shared_ptr<const ShardTable>> tables(4);
  std::vector<std::thread> threads;
  for (auto& table : tables) threads.emplace_back([&] { table = *lazy->Get(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(lazy->made());
  EXPECT_EQ(tables[0]->num_records(), 500);
  for (const auto& table : tables) EXPECT_EQ(table, tables[0]);
}

TEST_F(LazyShardTableTest, WhatWasStoppedIsBegunAnew) {
  const auto lazy = Open(WriteShards(folder_, {200, 300}));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(lazy->Get(stop.get_token()).status()));
  EXPECT_FALSE(lazy->made());
  EXPECT_EQ((*lazy->Get())->num_records(), 500);
}

TEST_F(LazyShardTableTest, ErrorsStay) {
  const ShardSet set = WriteShards(folder_, {20, 30});
  // The length of the second shard's first record.
  std::fstream(OnDisk(folder_ / "d-00001-of-00002"), std::ios::in | std::ios::out).put('x');
  const auto lazy = Open(set);
  EXPECT_FAILS(lazy->Get(), kDataLoss, "d-00001-of-00002");
  std::filesystem::remove(OnDisk(folder_ / "d-00001-of-00002"));
  EXPECT_FAILS(lazy->Get(), kDataLoss, "d-00001-of-00002");
}

TEST_F(LazyShardTableTest, AForkedChildMakesItsOwn) {
  SKIP_WHERE_THREADS_HINDER_FORK();
  const auto lazy = Open(WriteShards(folder_, {200, 300}));
  const pid_t child = ::fork();
  if (child == 0) {
    const auto table = lazy->Get();
    ::_exit(table.ok() && (*table)->num_records() == 500 ? 0 : 1);
  }
  int exit = 1;
  ASSERT_EQ(::waitpid(child, &exit, 0), child);
  EXPECT_EQ(exit, 0);
  EXPECT_EQ((*lazy->Get())->num_records(), 500);
}

}  // namespace
}  // namespace shardfeed
