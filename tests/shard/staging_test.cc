#include "shard/commit/staging.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "fmt/format.h"
#include "reader/scan.h"
#include "reader/shards/shard_table.h"
#include "shard/reshard/reshard.h"
#include "shard/spec/spec.h"
#include "shard/writing/writer.h"
#include "shardfeed/spec.h"
#include "shardfeed/verify.h"
#include "tests/testing/files.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

using testing::ReadBytes;
using testing::TestFolder;

class StagingTest : public ::testing::Test {
 protected:
  // A dataset of `n` records that begin with `text`.
  absl::Status Write(const std::string& name, const std::string& text, int n,
                     bool overwrite = false) {
    auto writer = DatasetWriter::Create(*ParseOutputSpec(folder_ / name), {.overwrite = overwrite});
    if (!writer.ok()) return writer.status();
    for (int i = 0; i < n; ++i) {
      absl::Status status = (*writer)->Write(text + std::to_string(i));
      if (!status.ok()) return status;
    }
    return (*writer)->Finish({}).status();
  }

  // Every file in the folder, sidecars included.
  std::map<std::string, std::string> Files() {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (!entry.is_regular_file()) continue;
      files[fs::relative(entry.path(), folder_.path()).string()] = ReadBytes(entry.path().string());
    }
    return files;
  }

  static void Put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // A commit record as docs/commit.md describes it.
  static std::string Record(const std::string& lines) {
    const std::string text = "shardfeed commit 1\n" + lines;
    return fmt::format("{}crc32c {:08x}\n", text, Crc32c(text));
  }

  // Leaves the folder as a writer does that is killed just after it has committed d@2: all new
  // files are in the staging folder, all old files in their place. Without `old`, there were none.
  void CommitAndDie(bool old) {
    fs::remove_all(folder_.path());
    ASSERT_OK(Write("d@2", "new", 100));
    new_ = Files();
    const std::string staging = StagingPath(folder_.path(), "d");
    const std::string aside = folder_ / "aside";
    fs::create_directories(aside);
    for (int i = 0; i < 2; ++i) {
      const std::string shard = folder_ / ShardName("d", i, 2, "");
      sizes_[i] = fs::file_size(shard);
      fs::rename(IndexPath(shard), fmt::format("{}/0000{}.index", aside, i));
      fs::rename(shard, fmt::format("{}/0000{}.shard", aside, i));
    }
    fs::rename(IndexPackPath(folder_.path(), "d"), aside + "/indexes");
    fs::rename(ManifestPath(folder_.path(), "d"), aside + "/manifest");
    if (old) ASSERT_OK(Write("d@3", "old", 50));
    fs::create_directories(folder_ / ".shardfeed");
    fs::rename(aside, staging);
    Put(staging + "/lock", "");
    record_ = Record(fmt::format(
        "suffix \nshards 2\n{}\n{}\n{}", sizes_[0], sizes_[1],
        old ? "old 3\nd-00000-of-00003\nd-00001-of-00003\nd-00002-of-00003\n" : "old 0\n"));
    Put(CommitPath(folder_.path(), "d"), record_);
  }

  TestFolder folder_;
  std::map<std::string, std::string> new_;
  uint64_t sizes_[2];
  std::string record_;
};

TEST_F(StagingTest, ReaderFinishesWhatWasCommitted) {
  for (const char* spec : {"d@2", "d@*", "", "d-*"}) {
    for (bool old : {false, true}) {
      CommitAndDie(old);
      const auto set = ResolveSpec(folder_ / spec);
      ASSERT_OK(set);
      EXPECT_EQ(set->paths.size(), 2) << spec;
      EXPECT_EQ(Files(), new_) << spec;
      EXPECT_FALSE(fs::exists(StagingPath(folder_.path(), "d")));
    }
  }
}

TEST_F(StagingTest, WritersOfEarlierVersionsHadNoPack) {
  CommitAndDie(true);
  fs::remove(StagingPath(folder_.path(), "d") + "/indexes");
  const auto set = ResolveSpec(folder_ / "d@2");
  ASSERT_OK(set);
  EXPECT_EQ(ShardTable::Open(*set).value()->num_records(), 100);
  // The pack is still the old dataset's, which is noticed.
  const auto report = Verify(*set, {});
  ASSERT_OK(report);
  ASSERT_EQ(report->num_defects(), 1);
  EXPECT_EQ(report->manifest_defects[0].shard, IndexPackPath(folder_.path(), "d"));
  EXPECT_THAT(
      report->manifest_defects[0].detail,
      ::testing::HasSubstr("it has the indexes of 3 shards, and not of 2 whose names end in "
                           "'-00000-of-00002'; rebuild it with 'shardfeed index'"));
}

TEST_F(StagingTest, ListedFilesOfAnInterruptedCommitAreThoseOfTheNewDataset) {
  CommitAndDie(false);
  // The first shard was moved before the writer was killed.
  const std::string first = folder_ / "d-00000-of-00002";
  fs::rename(StagingPath(folder_.path(), "d") + "/00000.shard", first);
  Put(folder_ / "d-00001-of-00002", "the old second shard");
  ASSERT_OK(ResolveSpecs({first, folder_ / "d-00001-of-00002"}));
  EXPECT_EQ(Files(), new_);
}

TEST_F(StagingTest, WriterFinishesWhatWasCommittedBeforeItLooks) {
  CommitAndDie(true);
  EXPECT_FAILS(Write("d@5", "newer", 10), kAlreadyExists, "there is a dataset of this name");
  EXPECT_EQ(Files(), new_);
  CommitAndDie(true);
  ASSERT_OK(Write("d@5", "newer", 10, /*overwrite=*/true));
  const auto set = ResolveSpec(folder_ / "d@5");
  ASSERT_OK(set);
  EXPECT_FALSE(fs::exists(folder_ / "d-00000-of-00002"));
}

TEST_F(StagingTest, NoFlippedBitOfARecordIsFollowed) {
  CommitAndDie(true);
  const auto before = Files();
  for (size_t bit = 0; bit < 8 * record_.size(); ++bit) {
    std::string flipped = record_;
    flipped[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    Put(CommitPath(folder_.path(), "d"), flipped);
    EXPECT_FAILS(ResolveSpec(folder_ / "d@*"), kDataLoss, "invalid commit record");
  }
  Put(CommitPath(folder_.path(), "d"), record_);
  EXPECT_EQ(Files(), before);
}

TEST_F(StagingTest, RecordThatLiesIsRefused) {
  CommitAndDie(false);
  Put(folder_ / "precious", "x");
  Put(folder_ / "e-00000-of-00001", "x");
  const std::string sizes = fmt::format("{}\n{}\n", sizes_[0], sizes_[1]);
  const auto before = Files();
  for (const auto& [lines, what] : std::map<std::string, std::string>{
           {"suffix \nshards 2\n" + sizes + "old 1\nprecious\n", "not the name of an old shard"},
           {"suffix \nshards 2\n" + sizes + "old 1\n../d-00000-of-00009\n",
            "not the name of an old shard"},
           {"suffix \nshards 2\n" + sizes + "old 1\ne-00000-of-00001\n",
            "not the name of an old shard"},
           {"suffix \nshards 2\n" + sizes + "old 1\nd-00001-of-00002\n",
            "not the name of an old shard"},
           {"suffix /../x\nshards 2\n" + sizes + "old 0\n", "its shards would have invalid names"},
           {"suffix \nshards 0\nold 0\n", "its shards would have invalid names"},
           {"suffix \nshards 2\n1\n", "the size of shard 1 is missing"},
           {"suffix \nshards 18446744073709551615\n" + sizes, "the size of shard 2 is missing"},
           {"suffix \nshards 2\n" + sizes + "old 7\n", "the name of an old shard is missing"},
           {"suffix \nshards 2\n" + sizes + "old 0\nmore\n", "data follows its end"},
           {"", "it has no suffix"}}) {
    Put(CommitPath(folder_.path(), "d"), Record(lines));
    EXPECT_FAILS(ResolveSpec(folder_ / "d@2"), kDataLoss, what);
  }
  Put(CommitPath(folder_.path(), "d"), record_);
  EXPECT_EQ(Files(), before);
}

TEST_F(StagingTest, LostShardIsNamedBeforeAnythingOldIsTouched) {
  CommitAndDie(true);
  fs::remove(StagingPath(folder_.path(), "d") + "/00001.shard");
  const auto before = Files();
  EXPECT_FAILS(ResolveSpec(folder_ / "d@2"), kDataLoss,
               fmt::format("shard 1 of the new dataset was lost: expected {} bytes, found no file",
                           sizes_[1]));
  EXPECT_EQ(Files(), before);
  // The remedies that the message names.
  ASSERT_OK(Write("d@2", "new", 100, /*overwrite=*/true));
  EXPECT_EQ(Files(), new_);
}

TEST_F(StagingTest, FolderInTheWayStopsAWriterBeforeItCommits) {
  ASSERT_OK(Write("d@4", "old", 50));
  const auto before = Files();
  for (const std::string& name :
       {std::string("d-00002-of-00003"), std::string(".shardfeed/d-00000-of-00003.index"),
        std::string(".shardfeed/d.indexes")}) {
    fs::remove(folder_ / name);
    fs::create_directories(folder_ / (name + "/x"));
    EXPECT_FAILS(Write("d@3", "new", 50, /*overwrite=*/true), kFailedPrecondition,
                 "expected a file of the dataset, found a folder; move it away");
    fs::remove_all(folder_ / name);
    if (before.contains(name)) Put(folder_ / name, before.at(name));
    EXPECT_EQ(Files(), before);
    ASSERT_OK(Verify(*ResolveSpec(folder_ / "d@4"), {}));
  }
}

TEST_F(StagingTest, LinkInPlaceOfTheFolderIsRefused) {
  fs::create_directories(folder_ / ".shardfeed");
  fs::create_directories(folder_ / "precious");
  Put(folder_ / "precious/thesis.tex", "x");
  fs::create_directory_symlink(folder_ / "precious", StagingPath(folder_.path(), "d"));
  EXPECT_FAILS(Write("d@1", "new", 10), kFailedPrecondition,
               "expected the folder for unfinished shards, found a symbolic link; remove it");
  EXPECT_EQ(ReadBytes(folder_ / "precious/thesis.tex"), "x");
}

TEST_F(StagingTest, LockOfARemovedFileKeepsNobodyOut) {
  auto first = Staging::Open(folder_.path(), "d");
  ASSERT_OK(first);
  EXPECT_FAILS(Staging::Open(folder_.path(), "d"), kFailedPrecondition,
               "another process is writing this dataset");
  // Another process has opened the lock file that the first one is about to remove.
  const int stale = ::open(((*first)->path() + "/lock").c_str(), O_RDWR);
  ASSERT_GE(stale, 0);
  first->reset();
  ASSERT_EQ(::flock(stale, LOCK_EX | LOCK_NB), 0);
  ASSERT_OK(Staging::Open(folder_.path(), "d"));
  ::close(stale);
}

TEST_F(StagingTest, ReaderThatMayNotWriteIsToldWhatToDo) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  CommitAndDie(true);
  fs::permissions(StagingPath(folder_.path(), "d"), fs::perms::owner_read | fs::perms::owner_exec);
  fs::permissions(StagingPath(folder_.path(), "d") + "/lock", fs::perms::owner_read);
  EXPECT_FAILS(ResolveSpec(folder_ / "d@2"), kPermissionDenied,
               "its files still have to be moved into place, which this process may not do");
  fs::permissions(StagingPath(folder_.path(), "d"), fs::perms::owner_all);
}

TEST_F(StagingTest, ReadersOfAReplacedDatasetNeverMixTheTwo) {
  ASSERT_OK(Write("d@2", "old", 100));
  const auto table = ShardTable::Open(*ResolveSpec(folder_ / "d@2"));
  ASSERT_OK(table);
  ASSERT_OK((*table)->OpenFile(0));
  const auto file = ShardTable::Open(*ResolveSpec(folder_ / "d-00001-of-00002"));
  ASSERT_OK(file);
  const DatasetVersion version = DatasetVersion::Of(folder_.path(), "d");
  EXPECT_OK(version.CheckUnchanged());
  // Records of the same sizes: only the file itself reveals that it is another one.
  ASSERT_OK(Write("d@2", "new", 100, /*overwrite=*/true));
  EXPECT_OK((*table)->OpenFile(0));
  EXPECT_FAILS((*table)->OpenFile(1), kAborted, "the dataset was replaced while it was in use");
  EXPECT_FAILS((*table)->Index(1), kAborted, "the dataset was replaced while it was in use");
  // For a file that was named directly, as for those of others, only the file tells.
  EXPECT_FAILS((*file)->OpenFile(0), kAborted,
               "was replaced by another file since the dataset was opened");
  EXPECT_FAILS((*file)->Index(0), kAborted,
               "describes other records than when the dataset was opened");
  EXPECT_FAILS(version.CheckUnchanged(), kAborted, "the dataset was replaced while it was in use");
  // Nor does a file that happens to get the first one's inode number.
  for (int again = 0; again < 5; ++again) {
    ASSERT_OK(Write("d@2", again % 2 == 0 ? "old" : "new", 100, /*overwrite=*/true));
    EXPECT_FAILS((*file)->OpenFile(0), kAborted, "was replaced by another file");
  }
}

TEST_F(StagingTest, ReadersThatLoseTheRaceWithAReplacementAreTold) {
  ASSERT_OK(Write("d@3", "old", 100));
  const auto named = ResolveSpec(folder_ / "d@3");
  const auto globbed = ResolveSpec(folder_ / "d-*");
  const auto whole = ResolveSpec(folder_.path());
  const auto table = ShardTable::Open(*named);
  ASSERT_OK(table);
  // Its shards and indexes do not exist any more.
  ASSERT_OK(Write("d@2", "new", 100, /*overwrite=*/true));
  constexpr char kReplaced[] = "d.manifest.json: the dataset was replaced while it was in use";
  for (const auto& set : {named, globbed, whole}) {
    ASSERT_OK(set);
    EXPECT_FAILS(ShardTable::Open(*set), kAborted, kReplaced);
    EXPECT_FAILS(Verify(*set, {}), kAborted, kReplaced);
    EXPECT_FAILS(ScanDataset(*set, {}, [](size_t, const RecordBlock&) { return absl::OkStatus(); }),
                 kAborted, kReplaced);
    EXPECT_FAILS(ReshardInput::Open({*set}, 1, {}, nullptr), kAborted, kReplaced);
    EXPECT_FAILS(Repair(*set, *ParseOutputSpec(folder_ / "r@3"), {}), kAborted, kReplaced);
  }
  EXPECT_FAILS((*table)->OpenFile(1), kAborted, kReplaced);
  EXPECT_FAILS((*table)->Index(1), kAborted, kReplaced);
  // Nor is a new shard read in place of an old one.
  const auto again = ResolveSpec(folder_ / "d@2");
  ASSERT_OK(Write("d@2", "old", 100, /*overwrite=*/true));
  EXPECT_FAILS(ScanDataset(*again, {}, [](size_t, const RecordBlock&) { return absl::OkStatus(); }),
               kAborted, kReplaced);
  // A file that is missing for another reason is missing.
  const auto now = ResolveSpec(folder_ / "d@2");
  fs::remove(folder_ / "d-00001-of-00002");
  EXPECT_FAILS(ShardTable::Open(*now), kNotFound, "d-00001-of-00002: cannot open");
}

TEST_F(StagingTest, WhatIsNoCommitRecordIsNamedWithTheRemedy) {
  ASSERT_OK(Write("d@2", "old", 50));
  const auto before = Files();
  const std::string record = CommitPath(folder_.path(), "d");
  fs::create_symlink(folder_ / "nowhere", record);
  EXPECT_FAILS(ResolveSpec(folder_ / "d@2"), kDataLoss,
               "d.commit: not a commit record, but a link or a special file; "
               "remove it");
  EXPECT_FAILS(Write("d@3", "new", 50), kDataLoss, "not a commit record");
  EXPECT_EQ(Files(), before);  // no lock is left either
  ASSERT_OK(Write("d@2", "old", 50, /*overwrite=*/true));
  EXPECT_EQ(Files(), before);
  fs::create_directory(record);
  EXPECT_FAILS(ResolveSpec(folder_.path()), kFailedPrecondition,
               "expected a commit record, found a folder");
  for (const bool overwrite : {false, true}) {
    EXPECT_FAILS(Write("d@2", "new", 50, overwrite), kFailedPrecondition,
                 "d.commit: expected a commit record, found a folder; move it away");
  }
  EXPECT_FAILS(ResolveSpec(folder_ / "d@2"), kFailedPrecondition,
               "expected a commit record, found a folder");
  EXPECT_EQ(Files(), before);
}

TEST_F(StagingTest, WhatStandsInPlaceOfFoldersIsNamedWithTheRemedy) {
  const std::string sidecars = folder_ / ".shardfeed";
  const auto fails = [&](const std::string& what) {
    EXPECT_FAILS(Write("d@1", "new", 10), kFailedPrecondition, what);
  };
  Put(sidecars, "x");
  fails(".shardfeed: expected the folder for indexes and manifests, found a file; move it");
  EXPECT_EQ(ReadBytes(sidecars), "x");
  fs::remove(sidecars);
  ASSERT_EQ(::mkfifo(sidecars.c_str(), 0600), 0);
  fails(".shardfeed: expected the folder for indexes and manifests, found a special file");
  fs::remove(sidecars);
  const std::string staging = StagingPath(folder_.path(), "d");
  fs::create_directories(sidecars);
  Put(staging, "x");
  fails("d.incomplete: expected the folder for unfinished shards, found a file; move it");
  fs::remove(staging);
  fs::create_directories(staging + "/lock");
  fails("d.incomplete/lock: not a file, but a folder; remove it");
  fs::remove(staging + "/lock");
  fs::create_symlink(folder_ / "nowhere", staging + "/lock");
  fails("d.incomplete/lock: not a file, but a symbolic link; remove it");
  fs::remove_all(staging);
  ASSERT_OK(Write("d@1", "new", 10));
}

TEST_F(StagingTest, OverwritingRemovesShardsOfAnotherSuffixThatAreItsOwnAlone) {
  ASSERT_OK(Write("d@2.gz", "old", 10));
  ASSERT_OK(Write("e@2.gz", "other", 10));
  Put(folder_ / "d-notes.gz", "x");
  ASSERT_OK(Write("d@2", "new", 10, /*overwrite=*/true));
  EXPECT_FALSE(fs::exists(folder_ / "d-00000-of-00002.gz"));
  EXPECT_FALSE(fs::exists(IndexPath(folder_ / "d-00000-of-00002.gz")));
  EXPECT_TRUE(fs::exists(folder_ / "d-notes.gz"));
  EXPECT_TRUE(fs::exists(folder_ / "e-00001-of-00002.gz"));
}

}  // namespace
}  // namespace shardfeed
