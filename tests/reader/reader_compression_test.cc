// Tests compressed shards, including those of other programs and those whose indexes are wrong.

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "reader/reader.h"
#include "shard/indexing/index_build.h"
#include "tests/reader/dataset_fixture.h"
#include "tests/reader/reader_fixture.h"
#include "tests/testing/deflate.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::Deflate;
using testing::Drain;
using testing::ExpectAll;
using testing::kSizes;
using testing::kSmallBlocks;
using testing::MakeReader;
using testing::OnDisk;
using testing::OpenTable;
using testing::Orders;
using testing::ReaderFixture;
using testing::RecordText;
using testing::WriteShards;

class ReaderCompressionTest : public ReaderFixture {};

void PutIndex(const std::string& shard, std::string_view bytes) {
  const std::filesystem::path path = OnDisk(IndexPath(shard));
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_F(ReaderCompressionTest, CompressedShards) {
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
TEST_F(ReaderCompressionTest, ShardsThatOthersCompressed) {
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
      ASSERT_OK(IndexShard(path, index));
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

// Data that deflate hardly shrinks is inflated block by block; if an index is wrong about the
// blocks, it takes longer.
TEST_F(ReaderCompressionTest, ShardsThatOthersCompressedToNoUse) {
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
        options.check_crc = lies % 2 == 0 ? CrcCheck::kAll : CrcCheck::kNone;
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

// Indexes are not trusted: whatever they say, readers deliver records or an error, and without CRCs
// at least nothing else is accessed.
TEST_F(ReaderCompressionTest, LyingIndexesOfCompressedShards) {
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
        options.skip_damaged = true;
        options.check_crc = check;
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

TEST_F(ReaderCompressionTest, DamageInShardsThatOthersCompressed) {
  std::string content;
  for (uint64_t i = 0; i < 200; ++i) AppendFrame(RecordText(i, 3000), &content);
  std::string shard = Deflate(content, 31, kSmallBlocks);
  folder_.Write("d-00000-of-00001", shard);
  IndexBuildOptions index;
  index.restart_interval = 20'000;
  ASSERT_OK(IndexShard(folder_ / "d-00000-of-00001", index));
  shard[shard.size() / 2] ^= 1;
  folder_.Write("d-00000-of-00001", shard);
  const auto table = OpenTable(*ResolveSpec(folder_ / "d@1"));
  EXPECT_FAILS(Drain(*MakeReader(table, {})), kDataLoss, "d-00000-of-00001: record");
  ReaderOptions options;
  options.skip_damaged = true;
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

}  // namespace
}  // namespace shardfeed
