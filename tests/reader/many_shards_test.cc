// A dataset of 200,000 shards in a store, of which only manifest and index pack are there.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "reader/shards/shard_table.h"
#include "shard/index/index.h"
#include "shard/spec/spec.h"
#include "tests/net/fault_server.h"
#include "tests/testing/described_dataset.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::FaultServer;
using testing::SeenRequest;
using testing::TestFolder;
using testing::WriteDescription;

constexpr size_t kShards = 200'000;
constexpr size_t kMostRequests = 10;

// All shards have the same index.
absl::Status WriteDataset(const std::string& folder) {
  IndexBuilder builder;
  for (const uint64_t bytes : {1000, 2000}) {
    if (absl::Status status = builder.AddFrame(bytes); !status.ok()) return status;
  }
  IndexSummary summary;
  summary.records_digest = 7;
  summary.shard_bytes = builder.stream_bytes();
  const auto index = ShardIndex::FromBytes(*builder.Finish(summary), "an index");
  return WriteDescription(folder, "d", kShards, [&](const std::string&) { return index; });
}

TEST(ManyShards, AreOpenedWithFewRequests) {
  TestFolder folder;
  ASSERT_OK(WriteDataset(folder.path()));
  FaultServer server;
  server.ServeFolder(folder.path());
  const auto set = ResolveSpec(server.url() + "/d@200000");
  ASSERT_OK(set);
  const auto table = ShardTable::Open(*set);
  ASSERT_OK(table);
  EXPECT_EQ((*table)->num_shards(), kShards);
  EXPECT_EQ((*table)->num_records(), 2 * kShards);
  // The first records that each of two ranks reads.
  for (const size_t shard : {size_t{0}, kShards / 2}) {
    const auto index = (*table)->Index(shard);
    ASSERT_OK(index);
    EXPECT_EQ((*index)->records(), 2);
  }
  EXPECT_EQ((*table)->requests_for_shards(), 0);
  EXPECT_LE(server.requests().size(), kMostRequests);
  for (const SeenRequest& request : server.requests()) {
    EXPECT_TRUE(request.target.ends_with("d.manifest.json") ||
                request.target.ends_with("d.indexes"))
        << request.target;
  }
}

}  // namespace
}  // namespace shardfeed
