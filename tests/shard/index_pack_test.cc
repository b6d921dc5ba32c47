#include "shard/index/index_pack.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <thread>
#include <tuple>

#include "base/little_endian.h"
#include "base/work_stop.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "shard/indexing/index_pack_write.h"
#include "shard/names/names.h"
#include "shard/spec/spec.h"
#include "shard/writing/writer.h"
#include "shardfeed/index.h"
#include "shardfeed/verify.h"
#include "tests/net/fault_server.h"
#include "tests/testing/files.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

using testing::Fault;
using testing::FaultServer;
using testing::ReadBytes;
using testing::SeenRequest;
using testing::TestFolder;

constexpr size_t kShards = 5;
constexpr size_t kHeader = 40;
constexpr size_t kEntry = 40;

class IndexPackTest : public ::testing::Test {
 protected:
  void SetUp() override { set_ = Write("d@5", 300); }

  ShardSet Write(const std::string& name, int records,
                 Compression compression = Compression::kNone) {
    DatasetWriterOptions options;
    options.sync = false;
    options.overwrite = true;
    options.encode.compression = compression;
    options.encode.member_bytes = 1000;
    auto writer = DatasetWriter::Create(*ParseOutputSpec(folder_ / name), options);
    EXPECT_OK(writer);
    for (int i = 0; i < records; ++i) {
      EXPECT_OK((*writer)->Write(std::string(i % 50, 'x') + std::to_string(i)));
    }
    EXPECT_OK((*writer)->Finish({}));
    return *ResolveSpec(folder_ / name);
  }

  auto Open(size_t count = kShards, std::string_view suffix = "") {
    return IndexPack::Open(folder_.path(), "d", count, suffix);
  }
  std::string Path() const { return IndexPackPath(folder_.path(), "d"); }

  // Makes the CRCs of the directory and the header right.
  static std::string Sealed(std::string pack, size_t count = kShards) {
    StoreLittleEndian(Crc32c(std::string_view(pack).substr(kHeader, kEntry * count)),
                      pack.data() + 28);
    StoreLittleEndian(Crc32c(std::string_view(pack).substr(0, 36)), pack.data() + 36);
    return pack;
  }

  void ExpectOwnIndexes(const ShardSet& set) {
    const auto pack = IndexPack::Open(set.directory, set.stem, set.paths.size(), set.suffix);
    ASSERT_OK(pack);
    ASSERT_EQ((*pack)->num_shards(), set.paths.size());
    for (size_t i = 0; i < set.paths.size(); ++i) {
      const auto packed = (*pack)->Index(i);
      ASSERT_OK(packed);
      EXPECT_EQ((*packed)->bytes(), ReadBytes(IndexPath(set.paths[i])));
      EXPECT_EQ((*pack)->summary(i).shard_bytes, fs::file_size(set.paths[i]));
    }
  }

  // Makes a pack of four indexes of about 5 MB, and small ones between them.
  std::vector<std::shared_ptr<const ShardIndex>> WriteLarge() {
    std::mt19937 random(1);
    std::vector<std::shared_ptr<const ShardIndex>> indexes;
    for (int i = 0; i < 8; ++i) {
      IndexBuilder builder;
      for (int n = i % 2 == 0 ? 1'500'000 : 10; n > 0; --n) {
        EXPECT_OK(builder.AddFrame(16 + random() % 200'000));
      }
      IndexSummary summary;
      summary.shard_bytes = builder.stream_bytes();
      summary.records_digest = i;
      indexes.push_back(*ShardIndex::FromBytes(*builder.Finish(summary), "index"));
    }
    auto file = OutputFile::Create(Path());
    EXPECT_OK(file);
    IndexPackWriter writer(file->get(), indexes.size(), "");
    for (const auto& index : indexes) EXPECT_OK(writer.Add(*index));
    EXPECT_OK(writer.Finish());
    return indexes;
  }

  TestFolder folder_;
  ShardSet set_;
};

TEST(IndexPackName, IsThatOfTheSetOrOfTheRange) {
  const auto name_of = [](const std::vector<std::string>& names) -> std::string {
    ShardSet set;
    set.directory = "s3://b/x";
    for (const std::string& name : names) set.paths.push_back("s3://b/x/" + name);
    const std::optional<IndexPackName> name = IndexPackNameOf(set);
    return name ? name->stem + " | " + name->suffix : "";
  };
  EXPECT_EQ(name_of({"l-00.tar", "l-01.tar", "l-02.tar"}), "l-00-to-02.tar | .tar");
  EXPECT_EQ(name_of({"l-8.tar", "l-9.tar", "l-10.tar"}), "l-8-to-10.tar | .tar");
  EXPECT_EQ(name_of({"l-098", "l-099", "l-100"}), "l-098-to-100 | ");
  EXPECT_EQ(name_of({"100", "101"}), "100-to-101 | ");
  EXPECT_EQ(name_of({"shard.00000.mds", "shard.00001.mds"}), "shard.00000-to-00001.mds | .mds");
  EXPECT_EQ(name_of({"2x-0.tar.gz", "2x-1.tar.gz"}), "2x-0-to-1.tar.gz | .tar.gz");
  // Gaps, other orders, other folders, several ranges, a single file, shards of a set.
  for (const std::vector<std::string>& names : std::vector<std::vector<std::string>>{
           {"l-0.tar", "l-2.tar"},
           {"l-0.tar", "l-1.tar", "l-1.tar"},
           {"l-2.tar", "l-1.tar", "l-0.tar"},
           {"l-0.tar", "l-2.tar", "l-1.tar"},
           {"l-0.tar", "y/l-1.tar"},
           {"y/l-0.tar", "y/l-1.tar"},
           {"l-0-0.tar", "l-0-1.tar", "l-1-0.tar", "l-1-1.tar"},
           {"l-0.tar", "l-1.tgz"},
           {"l-09.tar", "l-9.tar"},
           {"a.tar", "b.tar"},
           {"l-99999999999999999999.tar", "l-99999999999999999998.tar"},
           {"l-0.tar"},
           {"d-00000-of-00003", "d-00001-of-00003"}}) {
    EXPECT_EQ(name_of(names), "") << names[0];
  }
}

TEST(IndexPackName, TellsTheRangeAgain) {
  for (const auto& [first, last, name] : std::vector<std::tuple<int, int, std::string>>{
           {0, 2, "l-00-to-02.tar.indexes"}, {98, 100, "l-098-to-100.tar.gz.indexes"}}) {
    const std::optional<ShardSet> set = RangeOfIndexPack("s3://b/x", name);
    ASSERT_TRUE(set) << name;
    EXPECT_EQ(set->paths.size(), last - first + 1);
    EXPECT_EQ(IndexPackNameOf(*set)->stem + ".indexes", name);
  }
  EXPECT_EQ(RangeOfIndexPack("x", "l-8-to-10.tar.indexes")->paths,
            (std::vector<std::string>{"x/l-8.tar", "x/l-9.tar", "x/l-10.tar"}));
  for (const char* name :
       {"d.indexes", "l-00-to-02.tar", "l-2-to-1.indexes", "-to-.indexes", "l-1-to-1.indexes",
        "l-0-to-18446744073709551615.indexes", "l-007-to-11.indexes"}) {
    EXPECT_FALSE(RangeOfIndexPack("x", name)) << name;
  }
  // A name that no file can have.
  ShardSet set;
  set.directory = "x";
  for (const char* number : {"0", "1"}) set.paths.push_back("x/" + std::string(244, 'l') + number);
  EXPECT_FALSE(IndexPackNameOf(set));
}

TEST_F(IndexPackTest, WritersMakeOne) {
  ExpectOwnIndexes(set_);
  ExpectOwnIndexes(Write("z@3.gz", 200, Compression::kGzip));
  ExpectOwnIndexes(Write("empty@2", 0));
  ExpectOwnIndexes(Write("d@4", 10));  // in the place of another
}

TEST_F(IndexPackTest, LayoutIsAsDocumented) {
  const std::string pack = ReadBytes(Path());
  EXPECT_EQ(pack.substr(0, 8), "SFIPACK1");
  EXPECT_EQ(LoadLittleEndian<uint64_t>(pack.data() + 8), kShards);
  EXPECT_EQ(LoadLittleEndian<uint64_t>(pack.data() + 16), pack.size());
  EXPECT_EQ(LoadLittleEndian<uint32_t>(pack.data() + 24), Crc32c("-00000-of-00005"));
  EXPECT_EQ(Sealed(pack), pack);
  std::string indexes;
  for (const std::string& path : set_.paths) indexes += ReadBytes(IndexPath(path));
  EXPECT_EQ(pack.substr(kHeader + kShards * kEntry), indexes);
}

TEST_F(IndexPackTest, RenamedDatasetKeepsItsPack) {
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    if (entry.is_directory()) continue;
    const std::string name = entry.path().filename();
    fs::rename(entry.path(), folder_ / ("e" + name.substr(1)));
    fs::rename(IndexPath(entry.path().string()), IndexPath(folder_ / ("e" + name.substr(1))));
  }
  fs::rename(Path(), IndexPackPath(folder_.path(), "e"));
  ExpectOwnIndexes(*ResolveSpec(folder_ / "e@5"));
}

TEST_F(IndexPackTest, OtherDatasetsPackIsRefused) {
  EXPECT_FAILS(Open(4), kDataLoss,
               Path() +
                   ": it has the indexes of 5 shards, and not of 4 whose names end in "
                   "'-00000-of-00004'; rebuild it with 'shardfeed index'");
  EXPECT_FAILS(Open(5, ".gz"), kDataLoss, "not of 5 whose names end in '-00000-of-00005.gz'");
  EXPECT_FAILS(Open(UINT64_MAX / 2), kDataLoss, "it has the indexes of 5 shards");
  fs::remove(Path());
  EXPECT_FAILS(Open(), kNotFound, Path());
}

TEST_F(IndexPackTest, DamageIsFound) {
  const std::string sound = ReadBytes(Path());
  for (size_t at = 0; at < sound.size(); ++at) {
    std::string pack = sound;
    pack[at] = static_cast<char>(pack[at] ^ 4);
    folder_.Write(".shardfeed/d.indexes", pack);
    const auto opened = Open();
    if (at < kHeader + kShards * kEntry) {
      EXPECT_EQ(opened.status().code(), absl::StatusCode::kDataLoss) << at;
      continue;
    }
    ASSERT_OK(opened);
    size_t broken = 0;
    for (size_t i = 0; i < kShards; ++i) broken += !(*opened)->Index(i).ok();
    EXPECT_EQ(broken, 1) << at;
  }
  for (size_t size = 0; size < sound.size(); ++size) {
    folder_.Write(".shardfeed/d.indexes", std::string_view(sound).substr(0, size));
    EXPECT_EQ(Open().status().code(), absl::StatusCode::kDataLoss) << size;
  }
  folder_.Write(".shardfeed/d.indexes", "no pack");
  EXPECT_FAILS(Open(), kDataLoss, Path() + ": not an index pack; rebuild it");
  folder_.Write(".shardfeed/d.indexes", sound + "x");
  EXPECT_FAILS(
      Open(), kDataLoss,
      fmt::format("the index pack has {} bytes instead of {}", sound.size() + 1, sound.size()));
}

TEST_F(IndexPackTest, LiesAreRefused) {
  const std::string sound = ReadBytes(Path());
  const auto lie = [&](size_t shard, size_t at, auto number) {
    std::string pack = sound;
    StoreLittleEndian(number, pack.data() + kHeader + shard * kEntry + at);
    return IndexPack::FromBytes(Sealed(pack), "lie", kShards, "");
  };
  constexpr char kContradicts[] = "lie: the index pack contradicts itself at shard 1; rebuild it";
  for (uint64_t number : {UINT64_MAX, UINT64_MAX / 2, uint64_t{1} << 40, sound.size()}) {
    EXPECT_FAILS(lie(1, 24, number), kDataLoss, kContradicts);  // bytes of the index
    EXPECT_FAILS(lie(1, 16, number), kDataLoss, kContradicts);  // records
    EXPECT_FAILS(lie(1, 8, number), kDataLoss, kContradicts);   // a raw shard's stream
    EXPECT_FAILS(lie(1, 0, number), kDataLoss, kContradicts);   // the shard
  }
  EXPECT_FAILS(lie(1, 36, uint32_t{4}), kDataLoss, kContradicts);  // compression
  EXPECT_FAILS(lie(4, 24, uint64_t{1}), kDataLoss, "contradicts itself at its end");
  // What fits the pack must fit the index.
  const auto pack = lie(2, 32, uint32_t{0});
  ASSERT_OK(pack);
  EXPECT_OK((*pack)->Index(1));
  EXPECT_FAILS((*pack)->Index(2), kDataLoss,
               "lie (shard 2): the index is not the one that the directory lists; rebuild it with "
               "'shardfeed index'");
  // Indexes of other lengths than the directory says are cut wrongly.
  std::string moved = sound;
  for (auto [shard, by] : {std::pair(0, -8), std::pair(1, 8)}) {
    char* const bytes = moved.data() + kHeader + shard * kEntry + 24;
    StoreLittleEndian(LoadLittleEndian<uint64_t>(bytes) + by, bytes);
  }
  const auto shifted = IndexPack::FromBytes(Sealed(moved), "lie", kShards, "");
  ASSERT_OK(shifted);
  EXPECT_FAILS((*shifted)->Index(0), kDataLoss, "lie (shard 0): the index is truncated");
  EXPECT_FAILS((*shifted)->Index(1), kDataLoss, "lie (shard 1): not a shard index");
  EXPECT_OK((*shifted)->Index(2));
}

TEST_F(IndexPackTest, LargePacksAreReadInBlocks) {
  const auto indexes = WriteLarge();
  ASSERT_GT(fs::file_size(Path()), 16 << 20);
  const auto pack = Open(8);
  ASSERT_OK(pack);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < indexes.size(); ++i) {
        const auto index = (*pack)->Index(i);
        ASSERT_OK(index);
        EXPECT_TRUE((*index)->bytes() == indexes[i]->bytes()) << i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(IndexPackTest, WhoIsNotNeededDoesNotEndTheFetchingOfOthers) {
  const auto indexes = WriteLarge();
  std::atomic<bool> asked = false;
  std::atomic<bool> stalls = true;
  FaultServer server;
  server.ServeFolder(folder_.path());
  const auto pack = IndexPack::Open(server.url(), "d", indexes.size(), "");
  ASSERT_OK(pack);
  server.SetFaults([&](const SeenRequest&) {
    asked = true;
    if (!stalls) return Fault();
    return Fault{.kind = Fault::kStall, .wait = std::chrono::seconds(60)};
  });
  std::stop_source fetching;
  std::stop_source waiting;
  absl::Status fetched;
  absl::Status waited;
  absl::Status other;
  const auto get = [&](std::stop_token stop, absl::Status* status) {
    return std::thread([&pack, stop = std::move(stop), status] {
      const WorkStop wanted(stop);
      *status = (*pack)->Index(0).status();
    });
  };
  std::thread fetches = get(fetching.get_token(), &fetched);
  while (!asked) std::this_thread::yield();
  std::thread waits = get(waiting.get_token(), &waited);
  std::thread stays = get({}, &other);
  std::this_thread::sleep_for(4 * WorkStop::kInterval);
  // One that waits for the thread that fetches ends, too.
  waiting.request_stop();
  waits.join();
  EXPECT_FAILS(waited, kCancelled, "interrupted");
  stalls = false;
  fetching.request_stop();
  fetches.join();
  EXPECT_FAILS(fetched, kCancelled, "interrupted");
  stays.join();
  EXPECT_OK(other);
}

TEST_F(IndexPackTest, WriterWithTooFewIndexesFails) {
  auto file = OutputFile::Create(Path());
  IndexPackWriter writer(file->get(), 2, "");
  ASSERT_OK(writer.Add(**ShardIndex::Open(IndexPath(set_.paths[0]))));
  EXPECT_FAILS(writer.Finish(), kInternal, "not all indexes were added");
}

// ---- Packs for shards that exist

TEST_F(IndexPackTest, IsMadeForShardsOfOthers) {
  fs::remove_all(folder_ / ".shardfeed");
  EXPECT_FAILS(WriteIndexPack(*ResolveSpec(folder_ / "d@5"), {}), kNotFound,
               IndexPath(set_.paths[0]));
  EXPECT_FALSE(fs::exists(Path()));
  for (const std::string& path : set_.paths) EXPECT_OK(IndexShard(path, {}));
  const ShardSet set = *ResolveSpec(folder_ / "d@5");
  ASSERT_OK(WriteIndexPack(set, {}));
  ExpectOwnIndexes(set);
}

TEST_F(IndexPackTest, FollowsAShardThatWasRewritten) {
  const ShardSet other = Write("o@5", 90);
  const std::string before = ReadBytes(Path());
  ASSERT_OK(RefreshIndexPacks({set_.paths[2]}, {}));
  EXPECT_EQ(ReadBytes(Path()), before);
  fs::copy_file(other.paths[2], set_.paths[2], fs::copy_options::overwrite_existing);
  ASSERT_OK(IndexShard(set_.paths[2], {}));
  EXPECT_EQ((*Open())->summary(2).records, 60);
  ASSERT_OK(RefreshIndexPacks({set_.paths[2]}, {}));
  ExpectOwnIndexes(set_);
  // A dataset without a pack gets none.
  fs::remove(Path());
  ASSERT_OK(RefreshIndexPacks({set_.paths[2], folder_ / "plain"}, {}));
  EXPECT_FALSE(fs::exists(Path()));
}

TEST_F(IndexPackTest, VerifyFindsOneThatIsOutOfDate) {
  const std::string pack = ReadBytes(Path());
  EXPECT_EQ((*Verify(set_, {})).num_defects(), 0);
  Write("d@5", 301);
  folder_.Write(".shardfeed/d.indexes", pack);
  set_ = *ResolveSpec(folder_ / "d@5");
  for (const VerifyLevel level : {VerifyLevel::kHeaders, VerifyLevel::kPayload}) {
    const auto report = Verify(set_, {.level = level});
    ASSERT_OK(report);
    ASSERT_EQ(report->num_defects(), 1);
    EXPECT_EQ(report->shards[0].defects[0].kind, "index");
    EXPECT_EQ(report->shards[0].defects[0].detail,
              fmt::format("{}: has another index for shard 0 than {}; rebuild it with 'shardfeed "
                          "index'",
                          Path(), IndexPath(set_.paths[0])));
  }
  // It is not to blame if the shard's own index is wrong.
  folder_.Write(".shardfeed/d-00000-of-00005.index", ReadBytes(IndexPath(set_.paths[1])));
  const auto wrong = Verify(set_, {});
  ASSERT_EQ(wrong->num_defects(), 1);
  EXPECT_THAT(wrong->shards[0].defects[0].detail, ::testing::HasSubstr("d-00000-of-00005.index: "));
  // Where it is the only index, it is compared with the shard.
  fs::remove(IndexPath(set_.paths[0]));
  const auto report = Verify(set_, {});
  ASSERT_EQ(report->num_defects(), 1);
  EXPECT_THAT(report->shards[0].defects[0].detail, ::testing::HasSubstr(Path()));
  // A pack that is none at all.
  fs::remove(Path());
  ASSERT_EQ(::mkfifo(Path().c_str(), 0600), 0);
  EXPECT_EQ(Verify(set_, {})->manifest_defects[0].kind, "unreadable");
}

}  // namespace
}  // namespace shardfeed
