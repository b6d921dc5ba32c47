// A dataset of 200,000 shards in a store, of which only manifest and index pack are there.

#include <filesystem>

#include "gtest/gtest.h"
#include "io/output_file.h"
#include "reader/shards/shard_table.h"
#include "shard/index/index.h"
#include "shard/index/index_pack.h"
#include "shard/manifest/manifest.h"
#include "shard/names/names.h"
#include "shard/spec/spec.h"
#include "tests/net/fault_server.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::FaultServer;
using testing::SeenRequest;
using testing::TestFolder;

constexpr size_t kShards = 200'000;
constexpr size_t kMostRequests = 10;

// All shards have the same index.
void WriteDataset(const std::string& folder) {
  std::filesystem::create_directories(SidecarPath(folder));
  IndexBuilder builder;
  ASSERT_OK(builder.AddFrame(1000));
  ASSERT_OK(builder.AddFrame(2000));
  IndexSummary summary;
  summary.records_digest = 7;
  summary.shard_bytes = builder.stream_bytes();
  const auto index = ShardIndex::FromBytes(*builder.Finish(summary), "an index");
  ASSERT_OK(index);
  auto pack = OutputFile::Create(IndexPackPath(folder, "d"));
  ASSERT_OK(pack);
  IndexPackWriter writer(pack->get(), kShards, "");
  Manifest manifest;
  manifest.stem = "d";
  for (size_t i = 0; i < kShards; ++i) {
    ASSERT_OK(writer.Add(**index));
    manifest.shards.push_back({ShardName("d", i, kShards, ""), summary.shard_bytes,
                               (*index)->records(), summary.records_digest});
  }
  ASSERT_OK(writer.Finish());
  ASSERT_OK(WriteFile(ManifestPath(folder, "d"), FormatManifest(manifest), /*sync=*/false));
}

TEST(ManyShards, AreOpenedWithFewRequests) {
  TestFolder folder;
  ASSERT_NO_FATAL_FAILURE(WriteDataset(folder.path()));
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
