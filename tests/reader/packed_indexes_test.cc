// Datasets in a store whose indexes come from an index pack, from files beside the shards, or both.

#include <atomic>
#include <filesystem>
#include <functional>
#include <set>
#include <thread>
#include <utility>

#include "base/work_stop.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "reader/shards/lazy_shard_table.h"
#include "reader/shards/shard_table.h"
#include "shard/indexing/index_pack_write.h"
#include "shard/names/names.h"
#include "shard/spec/spec.h"
#include "shard/writing/writer.h"
#include "shardfeed/index.h"
#include "tests/net/fault_server.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

using testing::Fault;
using testing::FaultServer;
using testing::ReadBytes;
using testing::SeenRequest;
using testing::TestFolder;

constexpr int kRecords = 400;

class PackedIndexesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Write("d", "r");
    server_.ServeFolder(folder_.path());
  }

  void Write(const std::string& stem, const std::string& text, int records = kRecords) {
    auto writer =
        DatasetWriter::Create(*ParseOutputSpec(folder_ / (stem + "@20")), {.overwrite = true});
    ASSERT_OK(writer);
    for (int i = 0; i < records; ++i) {
      ASSERT_OK((*writer)->Write(text + std::string(i % 30, 'x') + std::to_string(i)));
    }
    ASSERT_OK((*writer)->Finish({}));
  }

  // Opens the dataset, reads all of it, and returns how many requests came for indexes of shards
  // before the first record was read.
  size_t ReadAll(const std::string& text = "r", int records = kRecords,
                 const std::string& spec = "d@20") {
    server_.ForgetRequests();
    const auto set = ResolveSpec(server_.url() + "/" + spec);
    EXPECT_OK(set);
    const auto table = ShardTable::Open(*set);
    EXPECT_OK(table);
    if (!table.ok()) return 0;
    size_t indexes = 0;
    for (const SeenRequest& request : server_.requests()) {
      indexes += request.target.ends_with(".index");
    }
    opening_ = server_.requests().size();
    requests_told_ = (*table)->requests_for_shards();
    EXPECT_EQ((*table)->indexes_built(), 0);
    EXPECT_EQ((*table)->num_records(), records);
    std::set<std::string> found;
    EXPECT_OK(RandomAccess(*table).Read(0, records, [&](uint64_t, std::string_view payload) {
      found.emplace(payload);
      return absl::OkStatus();
    }));
    for (int i = 0; i < records; ++i) {
      EXPECT_TRUE(found.contains(text + std::string(i % 30, 'x') + std::to_string(i))) << i;
    }
    return indexes;
  }

  void Remove(const std::string& name) { fs::remove(folder_ / (".shardfeed/" + name)); }

  TestFolder folder_;
  FaultServer server_;
  size_t opening_ = 0;
  uint64_t requests_told_ = 0;
};

TEST_F(PackedIndexesTest, ManifestAndPackAreAllThatIsAskedFor) {
  EXPECT_EQ(ReadAll(), 0);
  EXPECT_EQ(opening_, 2);
  EXPECT_EQ(requests_told_, 0);
  for (const SeenRequest& request : server_.requests()) {
    EXPECT_FALSE(request.target.ends_with(".index")) << request.target;
  }
}

TEST_F(PackedIndexesTest, WithoutAPackIndexesOfTheirOwnAreFetched) {
  Remove("d.indexes");
  EXPECT_EQ(ReadAll(), 20);
  EXPECT_EQ(requests_told_, 20);
}

TEST_F(PackedIndexesTest, WithoutAManifestThePackKnowsTheSizes) {
  Remove("d.manifest.json");
  EXPECT_EQ(ReadAll(), 0);
  EXPECT_LE(opening_, 8);
  EXPECT_EQ(requests_told_, 0);
  Remove("d.indexes");
  EXPECT_EQ(ReadAll(), 20);
  EXPECT_EQ(requests_told_, 40);
}

TEST_F(PackedIndexesTest, NumberedFilesHaveOneForTheirRange) {
  for (int i = 0; i < 20; ++i) {
    const std::string from = ShardName("d", i, 20, "");
    const std::string to = fmt::format("l-{:03}.tfrecord", i + 95);
    fs::rename(folder_ / from, folder_ / to);
    fs::rename(IndexPath(folder_ / from), IndexPath(folder_ / to));
  }
  Remove("d.manifest.json");
  Remove("d.indexes");
  constexpr char kList[] = "l-{095..114}.tfrecord";
  EXPECT_EQ(ReadAll("r", kRecords, kList), 20);
  EXPECT_EQ(requests_told_, 40);
  const auto local = ResolveSpec(folder_ / kList);
  ASSERT_OK(local);
  ASSERT_OK(UpdateIndexPacks(*local, {}));
  EXPECT_TRUE(fs::exists(folder_ / ".shardfeed/l-095-to-114.tfrecord.indexes"));
  EXPECT_EQ(ReadAll("r", kRecords, kList), 0);
  EXPECT_EQ(opening_, 1);
  EXPECT_EQ(requests_told_, 0);
  // Other lists of the same files have packs of their own, or none.
  const auto fewer = ShardTable::Open(*ResolveSpec(server_.url() + "/l-{095..113}.tfrecord"));
  ASSERT_OK(fewer);
  EXPECT_EQ((*fewer)->requests_for_shards(), 38);
  // A file of another size is noticed when it is read.
  Write("d", "rather different ");
  fs::copy_file(folder_ / "d-00003-of-00020", folder_ / "l-098.tfrecord",
                fs::copy_options::overwrite_existing);
  const auto table = ShardTable::Open(*ResolveSpec(server_.url() + "/" + kList));
  ASSERT_OK(table);
  const auto nothing = [](uint64_t, std::string_view) { return absl::OkStatus(); };
  EXPECT_FAILS(RandomAccess(*table).Read(0, kRecords, nothing), kAborted, "l-098.tfrecord: ");
  // The pack follows the index of a single file.
  const std::string changed = folder_ / "l-098.tfrecord";
  ASSERT_OK(IndexShard(changed, {}));
  ASSERT_OK(UpdateIndexPacks(*ResolveSpec(changed), {}));
  const auto again = ShardTable::Open(*ResolveSpec(server_.url() + "/" + kList));
  ASSERT_OK(again);
  EXPECT_EQ((*again)->requests_for_shards(), 0);
  EXPECT_OK(RandomAccess(*again).Read(0, kRecords, nothing));
}

TEST_F(PackedIndexesTest, OfAnOutdatedPackOnlyWhatFitsTheManifestIsUsed) {
  const std::string old = ReadBytes(folder_ / ".shardfeed/d.indexes");
  Write("d", "r", kRecords + 3);  // three shards have other records
  folder_.Write(".shardfeed/d.indexes", old);
  EXPECT_EQ(ReadAll("r", kRecords + 3), 3);
  // Nothing fits, not even where the sizes are the same.
  Write("d", "s");
  folder_.Write(".shardfeed/d.indexes", old);
  EXPECT_EQ(ReadAll("s"), 20);
}

TEST_F(PackedIndexesTest, DamagedPackIsAsGoodAsNone) {
  const std::string sound = ReadBytes(folder_ / ".shardfeed/d.indexes");
  for (const size_t at : {0, 9, 20, 45, 500}) {
    std::string pack = sound;
    pack[at] = static_cast<char>(pack[at] ^ 1);
    folder_.Write(".shardfeed/d.indexes", pack);
    EXPECT_EQ(ReadAll(), 20) << at;
  }
  for (const std::string& pack : {std::string(), std::string("<html>"), sound + sound}) {
    folder_.Write(".shardfeed/d.indexes", pack);
    EXPECT_EQ(ReadAll(), 20);
  }
}

TEST_F(PackedIndexesTest, DamagedIndexInAPackIsTakenFromBesideTheShard) {
  std::string pack = ReadBytes(folder_ / ".shardfeed/d.indexes");
  pack.back() = static_cast<char>(pack.back() ^ 1);
  folder_.Write(".shardfeed/d.indexes", pack);
  EXPECT_EQ(ReadAll(), 0);
  size_t indexes = 0;
  for (const SeenRequest& request : server_.requests()) {
    indexes += request.target.ends_with("d-00019-of-00020.index");
  }
  EXPECT_GE(indexes, 1);
  Remove("d-00019-of-00020.index");
  const auto table = ShardTable::Open(*ResolveSpec(server_.url() + "/d@20"));
  ASSERT_OK(table);
  EXPECT_FAILS((*table)->Index(19), kDataLoss,
               "/.shardfeed/d.indexes (shard 19): the index's CRC does not match its content");
}

TEST_F(PackedIndexesTest, WhoMayNotSeeThePackReadsAllTheSame) {
  server_.SetFaults([](const SeenRequest& request) {
    return request.target.ends_with(".indexes") ? Fault{.kind = Fault::kStatus, .status = 403}
                                                : Fault();
  });
  EXPECT_EQ(ReadAll(), 20);
}

TEST_F(PackedIndexesTest, FaultsThatPassChangeNothing) {
  for (const Fault::Kind kind : {Fault::kStatus, Fault::kReset, Fault::kShort}) {
    server_.SetFaults(
        [kind, n = std::make_shared<std::atomic<int>>(0)](const SeenRequest& request) {
          const bool pack = request.target.ends_with(".indexes");
          return pack && (*n)++ == 0 ? Fault{.kind = kind} : Fault();
        });
    EXPECT_EQ(ReadAll(), 0);
  }
}

TEST_F(PackedIndexesTest, ServersWithoutRangesSendSmallPacksWhole) {
  server_.SetFaults([](const SeenRequest& request) {
    return request.target.ends_with(".indexes") ? Fault{.kind = Fault::kIgnoreRange} : Fault();
  });
  EXPECT_EQ(ReadAll(), 0);
}

TEST_F(PackedIndexesTest, WhoWaitsForTheThreadThatBuildsIndexesCanStop) {
  fs::remove_all(folder_ / ".shardfeed");
  const auto lazy = LazyShardTable::Open(*ResolveSpec(server_.url() + "/d@20"));
  ASSERT_OK(lazy);
  std::atomic<bool> asked = false;
  server_.SetFaults([&](const SeenRequest&) {
    asked = true;
    return Fault{.kind = Fault::kStall, .wait = std::chrono::seconds(60)};
  });
  std::stop_source building;
  absl::Status built;
  std::thread builds([&] {
    const WorkStop wanted(building.get_token());
    built = (*lazy)->Get().status();
  });
  while (!asked) std::this_thread::yield();
  std::stop_source waiting;
  waiting.request_stop();
  EXPECT_FAILS((*lazy)->Get(waiting.get_token()), kCancelled, "interrupted");
  {
    const WorkStop unwanted(waiting.get_token());
    EXPECT_FAILS((*lazy)->Get(), kCancelled, "interrupted");
  }
  building.request_stop();
  builds.join();
  EXPECT_TRUE(absl::IsCancelled(built)) << built;
  server_.SetFaults(nullptr);
  const auto table = (*lazy)->Get();
  ASSERT_OK(table);
  EXPECT_EQ((*table)->num_records(), kRecords);
}

// What the next signal handler does.
std::function<void()> on_signal;
std::thread::id handles_signals;

// The handler may also wait for other threads that use it.
TEST_F(PackedIndexesTest, SignalHandlersMayUseTheTableThatTheirThreadMakes) {
  fs::remove_all(folder_ / ".shardfeed");
  const auto lazy = LazyShardTable::Open(*ResolveSpec(server_.url() + "/d@20"));
  ASSERT_OK(lazy);
  std::atomic<bool> handled = false;
  server_.SetFaults([&](const SeenRequest&) {
    if (handled) return Fault();
    return Fault{.kind = Fault::kDelay, .wait = std::chrono::seconds(2)};
  });
  absl::Status own;
  absl::Status of_other;
  on_signal = [&] {
    handled = true;
    std::thread([&] { of_other = (*lazy)->Get().status(); }).join();
    own = (*lazy)->Get().status();
  };
  handles_signals = std::this_thread::get_id();
  WorkStop::SetInterruptCheck([] {
    if (std::this_thread::get_id() != handles_signals || on_signal == nullptr) return false;
    const SignalHandling handling;
    std::exchange(on_signal, nullptr)();
    return false;
  });
  const auto table = (*lazy)->Get();
  WorkStop::SetInterruptCheck(nullptr);
  server_.SetFaults(nullptr);
  EXPECT_TRUE(handled);
  EXPECT_OK(of_other);
  EXPECT_OK(own);
  ASSERT_OK(table);
  EXPECT_EQ((*table)->num_records(), kRecords);
}

TEST_F(PackedIndexesTest, WhatIsBrokenOffDoesNotCountAsReplaced) {
  const auto set = ResolveSpec(server_.url() + "/d@20");
  ASSERT_OK(set);
  std::stop_source stop;
  server_.SetFaults([stop](const SeenRequest&) mutable {
    stop.request_stop();
    return Fault{.kind = Fault::kDelay, .wait = std::chrono::seconds(2)};
  });
  const WorkStop wanted(stop.get_token());
  EXPECT_FAILS(set->version.CheckUnchanged(), kCancelled, "interrupted");
  EXPECT_FAILS(set->version.CheckUnchanged(absl::NotFoundError("gone")), kCancelled, "interrupted");
  server_.SetFaults(nullptr);
}

}  // namespace
}  // namespace shardfeed
