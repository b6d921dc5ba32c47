// Shards in a store, raw and compressed in each way, in every order: the same records as of local
// shards, in no more requests than were planned.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "base/work_stop.h"
#include "net/block_cache.h"
#include "net/transfers.h"
#include "reader/epoch_cost.h"
#include "reader/reader.h"
#include "reader/run/shared_run.h"
#include "shard/indexing/index_build.h"
#include "shardfeed/index.h"
#include "tests/net/fault_server.h"
#include "tests/reader/dataset_fixture.h"
#include "tests/reader/reader_fixture.h"
#include "tests/testing/deflate.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::Deflate;
using testing::Drain;
using testing::ExpectAll;
using testing::Fault;
using testing::FaultServer;
using testing::kRecords;
using testing::kSizes;
using testing::kSmallBlocks;
using testing::MakeReader;
using testing::OpenTable;
using testing::Orders;
using testing::ReaderFixture;
using testing::RecordText;
using testing::SeenRequest;
using testing::TestFolder;
using testing::WriteShards;

enum class Form { kRaw, kOwn, kGzip, kZlib };
constexpr Form kForms[] = {Form::kRaw, Form::kOwn, Form::kGzip, Form::kZlib};

class ReaderRemoteTest : public ReaderFixture {
 protected:
  // Writes shards of the records RecordText(i, 3000).
  void Write(Form form) {
    if (form == Form::kRaw || form == Form::kOwn) {
      WriteShards(folder_, kSizes, 3000, form == Form::kOwn);
    } else {
      uint64_t number = 0;
      for (size_t s = 0; s < kSizes.size(); ++s) {
        std::string content;
        for (uint64_t i = 0; i < kSizes[s]; ++i) AppendFrame(RecordText(number++, 3000), &content);
        folder_.Write(ShardName("d", s, kSizes.size(), ""),
                      Deflate(content, form == Form::kGzip ? 31 : 15, kSmallBlocks));
      }
    }
    for (size_t s = 0; s < kSizes.size(); ++s) {
      IndexBuildOptions index;
      index.restart_interval = 20'000;
      ASSERT_OK(IndexShard(folder_ / ShardName("d", s, kSizes.size(), ""), index));
    }
    server_.ServeFolder(folder_ / "");
  }

  std::shared_ptr<const ShardTable> Table() const {
    return OpenTable(*ResolveSpec(fmt::format("{}/d@{}", server_.url(), kSizes.size())));
  }

  // The table is read through a cache on disk from now on.
  void Cache() {
    setenv("SHARDFEED_NET_HEDGED_PERCENT", "0", 1);  // the tests count requests
    const auto cache = BlockCache::Open(cache_folder_ / "cache", std::nullopt);
    ASSERT_OK(cache);
    serving_ = BlockCache::Serve(*cache, {});
  }
  std::vector<std::string> CachedBlocks() const {
    std::vector<std::string> paths;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(cache_folder_ / "cache")) {
      const std::string name = entry.path().filename();
      if (entry.is_regular_file() && name != "shardfeed-cache") paths.push_back(entry.path());
    }
    return paths;
  }

  FaultServer server_;
  TestFolder cache_folder_;
  std::shared_ptr<const void> serving_;
};

TEST_F(ReaderRemoteTest, EveryOrderOfEveryForm) {
  for (const Form form : kForms) {
    SCOPED_TRACE(static_cast<int>(form));
    Write(form);
    const auto table = Table();
    for (const OrderSpec& order : Orders()) {
      for (const uint64_t world : {1, 3}) {
        ReaderOptions options;
        options.order = order;
        options.world = world;
        options.threads = 2;
        ExpectAll(table, options, 3000);
      }
    }
  }
}

TEST_F(ReaderRemoteTest, AReaderThatIsNotNeededDoesNotWaitForTheStore) {
  Write(Form::kRaw);
  const auto table = Table();
  for (const int threads : {1, 4}) {
    std::stop_source stop;
    server_.SetFaults([stop](const SeenRequest&) mutable {
      stop.request_stop();
      return Fault{.kind = Fault::kStall, .wait = std::chrono::seconds(60)};
    });
    ReaderOptions options;
    options.threads = threads;
    options.block_records = 1;  // more blocks than are requested at once
    const auto reader = MakeReader(table, options);
    const WorkStop wanted(stop.get_token());
    ReadBlock block;
    EXPECT_FAILS(reader->Next(&block), kCancelled, "interrupted");
    // The reader is destroyed with requests in progress.
  }
}

TEST_F(ReaderRemoteTest, AReaderThatIsNotNeededLeavesOthersTheRunTheyShare) {
  Write(Form::kRaw);
  const auto table = Table();
  ReaderOptions options;
  options.threads = 1;
  options.world = 2;
  options.budget_bytes = 64 << 10;
  ShareReads(2);
  std::vector<std::unique_ptr<Reader>> readers;
  for (options.rank = 0; options.rank < 2; ++options.rank) {
    readers.push_back(MakeReader(table, options));
  }
  size_t taken = 0;
  ReadBlock block;
  for (const auto& reader : readers) ASSERT_OK(reader->Next(&block));
  taken += block.records.size();
  std::stop_source stop;
  std::atomic<bool> slow = true;
  server_.SetFaults([&, stop](const SeenRequest&) mutable {
    stop.request_stop();
    if (!slow) return Fault();
    return Fault{.kind = Fault::kDelay, .wait = std::chrono::seconds(1)};
  });
  absl::Status status;
  while (true) {
    {
      const WorkStop wanted(stop.get_token());
      status = readers[0]->Next(&block);
    }
    if (!status.ok()) break;
    ASSERT_FALSE(block.records.empty());
    ASSERT_OK(readers[1]->Next(&block));
    taken += block.records.size();
  }
  EXPECT_FAILS(status, kCancelled, "interrupted");
  slow = false;
  readers[0] = nullptr;
  const auto rest = Drain(*readers[1]);
  ASSERT_OK(rest);
  EXPECT_EQ(taken + rest->records.size(), kRecords / 2);
  // Only a reader that reads alone, or the first of those who share, has threads.
  EXPECT_EQ(readers[1]->stats().threads, 0);
  ShareReads(0);
  server_.SetFaults(nullptr);
}

TEST_F(ReaderRemoteTest, FaultsThatPassChangeNothing) {
  for (const Form form : kForms) {
    SCOPED_TRACE(static_cast<int>(form));
    Write(form);
    std::atomic<uint64_t> number = 0;
    server_.SetFaults([&](const SeenRequest&) {
      const uint64_t n = number++;
      if (n % 20 == 7) return Fault{.kind = Fault::kStatus};
      if (n % 20 == 13) return Fault{.kind = Fault::kShort};
      return Fault();
    });
    const auto table = Table();
    for (const OrderSpec& order : Orders()) {
      ReaderOptions options;
      options.order = order;
      options.threads = 2;
      ExpectAll(table, options, 3000);
    }
    server_.SetFaults(nullptr);
  }
}

// What is planned is what is asked for, and nothing else is: compressed shards as well.
TEST_F(ReaderRemoteTest, NoOtherRequestsThanPlanned) {
  for (const Form form : kForms) {
    Write(form);
    const auto table = Table();
    for (const OrderSpec& order : Orders()) {
      for (const uint64_t world : {1, 3}) {
        ReaderOptions options;
        options.order = order;
        options.world = world;
        options.rank = world - 1;
        options.threads = 2;
        const auto reader = MakeReader(table, options);
        SCOPED_TRACE(
            fmt::format("{} {} {}", static_cast<int>(form), reader->order().Describe(), world));
        const auto cost = PlanEpoch(*reader);  // reads indexes
        ASSERT_OK(cost);
        EXPECT_FALSE(cost->estimated);
        server_.ForgetRequests();
        ASSERT_OK(testing::Drain(*reader));
        // A request that is late is made a second time, which may be too late to be sent.
        const TransferStats all = GetTransferStats();
        EXPECT_GE(server_.requests().size(), cost->requests);
        EXPECT_LE(server_.requests().size(), cost->requests + all.hedges + all.retries);
        EXPECT_EQ(reader->stats().reads, cost->requests);
        EXPECT_EQ(reader->stats().bytes_read, cost->bytes);
        if (order.kind != OrderSpec::Kind::kShuffle && order.chunk == 0 && world == 1) {
          // Seven shards have records, each less than a range.
          EXPECT_EQ(cost->requests, 7);
          EXPECT_LE(cost->bytes, table->file_bytes());
        }
      }
    }
  }
}

TEST_F(ReaderRemoteTest, RecordsByNumber) {
  for (const Form form : kForms) {
    SCOPED_TRACE(static_cast<int>(form));
    Write(form);
    const RandomAccess access(Table());
    std::mt19937 random(1);
    for (const size_t n : {1, 7, 200}) {
      std::vector<uint64_t> numbers;
      for (size_t i = 0; i < n; ++i) numbers.push_back(random() % kRecords);
      server_.ForgetRequests();
      const auto set = access.Get(numbers);
      ASSERT_OK(set);
      for (size_t i = 0; i < n; ++i) EXPECT_EQ(set->records[i], RecordText(numbers[i], 3000));
      // A range for each shard, or for each record, and indexes.
      EXPECT_LE(server_.requests().size(), n + 2 * kSizes.size());
    }
  }
}

// Ranges are equal parts of a shard of about 8 MiB, whatever it is inflated to.
TEST_F(ReaderRemoteTest, RangesAreLarge) {
  std::mt19937_64 random(1);
  std::string content;
  uint64_t records = 0;
  while (content.size() < 45 << 20) {
    std::string record(50'000, '\0');
    for (size_t i = 0; i < record.size(); i += 8) {
      const uint64_t bits = random();
      std::copy_n(reinterpret_cast<const char*>(&bits), 8, &record[i]);
    }
    record += std::string(50'000, 'x');
    AppendFrame(record, &content);
    ++records;
  }
  for (const Form form : {Form::kRaw, Form::kGzip, Form::kZlib}) {
    SCOPED_TRACE(static_cast<int>(form));
    folder_.Write("d-00000-of-00001", form == Form::kRaw
                                          ? content
                                          : Deflate(content, form == Form::kGzip ? 31 : 15, 8));
    ASSERT_OK(IndexShard(folder_ / "d-00000-of-00001", {}));
    server_.ServeFolder(folder_ / "");
    const auto table = OpenTable(*ResolveSpec(server_.url() + "/d@1"));
    ReaderOptions options;
    options.budget_bytes = 512 << 20;
    const auto reader = MakeReader(table, options);
    uint64_t delivered = 0;
    for (ReadBlock block;;) {
      ASSERT_OK(reader->Next(&block));
      if (block.records.empty()) break;
      delivered += block.records.size();
    }
    EXPECT_EQ(delivered, records);
    const double ranges = static_cast<double>(table->file_bytes()) / (8 << 20);
    EXPECT_LE(reader->stats().reads, ranges * 1.1 + 0.5);
    EXPECT_LE(reader->stats().peak_buffer_bytes, options.budget_bytes);
    if (form != Form::kRaw) {
      EXPECT_LT(ranges, 4);
    }
  }
}

// Whether the reader compares the records' CRCs or the cache its own: damaged blocks are removed,
// and what they had comes from the store.
TEST_F(ReaderRemoteTest, DamageOfTheCacheIsNotThatOfTheDataset) {
  for (const Form form : {Form::kRaw, Form::kOwn}) {
    Write(form);
    std::filesystem::remove_all(cache_folder_ / "cache");
    Cache();
    const auto table = Table();
    for (const CrcCheck check : {CrcCheck::kAll, CrcCheck::kHeader, CrcCheck::kNone}) {
      for (const OrderSpec& order : Orders()) {
        for (const bool skip : {false, true}) {
          SCOPED_TRACE(
              fmt::format("{} {} {}", static_cast<int>(form), static_cast<int>(check), skip));
          ReaderOptions options;
          options.order = order;
          options.check_crc = check;
          options.skip_damaged = skip;
          options.threads = 2;
          ExpectAll(table, options, 3000);  // fills it
          ExpectAll(table, options, 3000);  // now it has everything
          const std::vector<std::string> blocks = CachedBlocks();
          ASSERT_GE(blocks.size(), 7);
          const uint64_t damaged = GetBlockCacheStats().damaged;
          for (const std::string& block : blocks) {
            std::string content = testing::ReadBytes(block);
            const size_t at = kBlockHeaderBytes + (content.size() - kBlockHeaderBytes) / 2;
            content[at] = static_cast<char>(content[at] ^ 1);
            std::ofstream(block, std::ios::binary).write(content.data(), content.size());
          }
          ExpectAll(table, options, 3000);
          // Two threads may find the same one.
          EXPECT_GE(GetBlockCacheStats().damaged, damaged + blocks.size());
        }
      }
    }
  }
}

TEST_F(ReaderRemoteTest, DamageOfTheDatasetIsNotThatOfTheCache) {
  Write(Form::kRaw);
  const std::string shard = ShardName("d", 2, kSizes.size(), "");
  std::string content = testing::ReadBytes(folder_ / shard);
  const size_t at = content.size() / 2;
  content[at] = static_cast<char>(content[at] ^ 1);
  folder_.Write(shard, content);
  Cache();
  const auto table = Table();
  const uint64_t damaged = GetBlockCacheStats().damaged;
  for (const OrderSpec& order : Orders()) {
    for (int epoch = 0; epoch < 2; ++epoch) {
      ReaderOptions options;
      options.order = order;
      EXPECT_FAILS(testing::Drain(*MakeReader(table, options)).status(), kDataLoss, shard);
      options.skip_damaged = true;
      const auto all = testing::Drain(*MakeReader(table, options));
      ASSERT_OK(all);
      EXPECT_EQ(all->damaged.size(), 1);
    }
  }
  EXPECT_EQ(GetBlockCacheStats().damaged, damaged);
  server_.ForgetRequests();
  EXPECT_OK(testing::Drain(*MakeReader(table, {.skip_damaged = true})));
  for (const SeenRequest& request : server_.requests()) {
    EXPECT_FALSE(request.headers.contains("range")) << request.target;
  }
}

// A budget bounds what an exact permutation of compressed shards reads at once.
TEST_F(ReaderRemoteTest, ScatteredRecordsStayWithinTheBudget) {
  for (const Form form : kForms) {
    SCOPED_TRACE(static_cast<int>(form));
    Write(form);
    ReaderOptions options;
    options.order.kind = OrderSpec::Kind::kShuffle;
    options.order.window = OrderSpec::kAll;
    options.budget_bytes = 2 << 20;
    options.threads = 2;
    const auto reader = MakeReader(Table(), options);
    const auto all = testing::Drain(*reader);
    ASSERT_OK(all);
    EXPECT_EQ(all->records.size(), kRecords);
    EXPECT_LE(reader->stats().peak_buffer_bytes, options.budget_bytes);
  }
}

}  // namespace
}  // namespace shardfeed
