#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipeline/dataset.h"
#include "tests/pipeline/dataset_chains.h"
#include "tests/reader/dataset_fixture.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::shardfeed::testing::Collect;
using ::shardfeed::testing::FirstError;
using ::shardfeed::testing::Noisy;
using ::shardfeed::testing::Square;
using ::shardfeed::testing::Start;
using ::shardfeed::testing::TestFolder;
using ::testing::ElementsAre;

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

TEST(DatasetTest, TheCacheIsFilledOnce) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  const Dataset ds = Dataset::Range(0, 100).Map({}, [calls](RowContext&) {
    ++*calls;
    return absl::OkStatus();
  });
  EXPECT_EQ(Collect(ds.Cache().Repeat(3)).size(), 300);
  EXPECT_EQ(*calls, 100);
  EXPECT_FAILS(FirstError(Dataset::Range(0, 100000).Cache(1000)), kResourceExhausted,
               "the elements take more than 1000 bytes");
  // Two paths to the same cache in one run.
  const Dataset cached = ds.Cache();
  EXPECT_EQ(Collect(Dataset::Zip({cached, Square(cached).Select({"square"})}).Repeat(2)).size(),
            200);
}

TEST(DatasetTest, CachesDeliverWhatWasMade) {
  const TestFolder folder;
  const Dataset rows = Noisy(Dataset::Range(0, 3000)).Shuffle(1, 100);
  const Dataset batches = rows.PaddedBatch(7);
  for (const Dataset& ds : {rows, batches}) {
    const std::vector<std::string> once = Collect(ds);
    std::vector<std::string> twice = once;
    twice.insert(twice.end(), once.begin(), once.end());
    EXPECT_EQ(Collect(ds.Cache().Repeat(2)), twice);
    auto it = Start(ds.Cache(folder.path()).Repeat(2));
    EXPECT_EQ(Collect(*it), twice);
    EXPECT_THAT(FilesIn(folder.path()), ElementsAre());
  }
  // Random steps after a cache still vary.
  const std::vector<std::string> epochs = Collect(Noisy(Dataset::Range(0, 50).Cache()).Repeat(2));
  EXPECT_EQ(epochs, Collect(Noisy(Dataset::Range(0, 50)).Repeat(2)));
  EXPECT_FAILS(FirstError(rows.Cache(folder.path(), 10000)), kResourceExhausted,
               "shardfeed-cache: the elements take more than 10000 bytes");
  EXPECT_FAILS(FirstError(rows.Cache(folder / "none")), kNotFound, folder / "none");
  EXPECT_THAT(FilesIn(folder.path()), ElementsAre());
}

TEST(DatasetTest, ASnapshotIsMadeOnce) {
  const TestFolder folder;
  auto calls = std::make_shared<std::atomic<int>>(0);
  const Dataset made = Noisy(Dataset::Range(0, 2000).Map({}, [calls](RowContext&) {
                         ++*calls;
                         return absl::OkStatus();
                       })).Batch(7);
  const Dataset ds = made.Snapshot(folder / "s");
  const std::vector<std::string> all = Collect(made);
  *calls = 0;
  // A run that ends earlier leaves nothing.
  Collect(*Start(ds), 100);
  EXPECT_THAT(FilesIn(folder.path()), ElementsAre());
  EXPECT_GT(calls->exchange(0), 0);
  EXPECT_EQ(Collect(ds), all);
  EXPECT_THAT(FilesIn(folder.path()), ElementsAre("s"));
  EXPECT_EQ(calls->exchange(0), 2000);
  EXPECT_EQ(Collect(ds), all);
  EXPECT_EQ(*calls, 0);
  // A state of the run that wrote the snapshot is valid for one that reads it.
  folder.Write("s2", testing::ReadBytes(folder / "s"));
  std::filesystem::remove(folder / "s");
  auto writing = Start(ds);
  Collect(*writing, 123);
  const std::string state = *writing->StateDict();
  folder.Write("s", testing::ReadBytes(folder / "s2"));
  auto reading = Start(ds);
  ASSERT_OK(reading->LoadStateDict(state));
  EXPECT_EQ(Collect(*reading), std::vector(all.begin() + 123, all.end()));
  EXPECT_EQ(Collect(ds.Unbatch().Skip(500).Take(3)).size(), 3);
}

TEST(DatasetTest, ElementsAreKeptInLocalFoldersOnly) {
  const Dataset ds = Dataset::Range(0, 10);
  for (const std::string url : {"s3://bucket/x", "s3:/bucket/x", "file:///tmp/x"}) {
    EXPECT_FAILS(ds.Snapshot(url).status(), kInvalidArgument,
                 "snapshot: path must be a file in a local folder, not the URL '" + url + "'");
    EXPECT_FAILS(ds.Cache(url, 1 << 20).status(), kInvalidArgument,
                 "cache: path must be a local folder, not the URL '" + url + "'");
  }
  EXPECT_FALSE(std::filesystem::exists("s3:"));
}

TEST(DatasetTest, SnapshotsThatCannotBeReadSaySo) {
  const TestFolder folder;
  const Dataset ds = Noisy(Dataset::Range(0, 2000)).Batch(7);
  Collect(ds.Snapshot(folder / "s"));
  const std::string bytes = testing::ReadBytes(folder / "s");
  EXPECT_FAILS(FirstError(ds.Skip(1).Snapshot(folder / "s")), kFailedPrecondition,
               "s: the snapshot belongs to another chain or other data");
  EXPECT_FAILS(FirstError(ds.Shard(0, 2).Snapshot(folder / "s")), kFailedPrecondition, "another");
  // Any byte that was changed, and any end that is missing.
  for (size_t at = 0; at < bytes.size(); at += 4999) {
    std::string damaged = bytes;
    damaged[at] ^= 0x40;
    folder.Write("s", damaged);
    EXPECT_FAILS(FirstError(ds.Snapshot(folder / "s")), kDataLoss, "delete the file");
    folder.Write("s", bytes.substr(0, at));
    EXPECT_FAILS(FirstError(ds.Snapshot(folder / "s")), kDataLoss, "delete the file");
  }
  std::string frame;
  AppendFrame("{}", &frame);
  folder.Write("s", frame);
  EXPECT_FAILS(FirstError(ds.Snapshot(folder / "s")), kDataLoss, "not a snapshot of shardfeed");
  frame.clear();
  AppendFrame(R"({"format":"shardfeed snapshot","version":7})", &frame);
  folder.Write("s", frame);
  EXPECT_FAILS(FirstError(ds.Snapshot(folder / "s")), kFailedPrecondition,
               "has version 7, but this shardfeed reads version 1");
}

}  // namespace
}  // namespace shardfeed
