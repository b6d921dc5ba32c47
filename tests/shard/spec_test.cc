#include "shard/spec.h"

#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::TestFolder;

TEST(ShardName, IsZeroPaddedToFiveDigitsOrMore) {
  EXPECT_EQ(ShardName("data", 1, 10, ""), "data-00001-of-00010");
  EXPECT_EQ(ShardName("data", 1, 10, ".tfrecord.gz"), "data-00001-of-00010.tfrecord.gz");
  EXPECT_EQ(ShardName("data", 1, 1000000, ""), "data-0000001-of-1000000");
}

TEST(ShardName, ParseIsTheReverse) {
  for (uint64_t count : {1, 7, 99999, 100000, 1234567}) {
    for (const char* suffix : {"", ".tfrecord", ".tfrecord.gz"}) {
      for (const char* stem : {"a", "my-data", "x-00001-of-00002.y", "train.tfrecord"}) {
        const auto parsed = ParseShardName(ShardName(stem, count / 2, count, suffix));
        ASSERT_TRUE(parsed);
        EXPECT_EQ(parsed->stem, stem);
        EXPECT_EQ(parsed->index, count / 2);
        EXPECT_EQ(parsed->count, count);
        EXPECT_EQ(parsed->suffix, suffix);
      }
    }
  }
}

TEST(ShardName, OthersAreNotShards) {
  for (const char* name : {"data", "data-1-of-2", "data-00001-of-", "-00001-of-00002",
                           "data-00001-of-00002x", "data_00001-of-00002", "data-00001-of-00002."}) {
    EXPECT_FALSE(ParseShardName(name)) << name;
  }
}

TEST(ParseOutputSpec, Forms) {
  auto spec = ParseOutputSpec("out/train@64.tfrecord");
  ASSERT_OK(spec);
  EXPECT_EQ(spec->directory, "out");
  EXPECT_EQ(spec->stem, "train");
  EXPECT_EQ(spec->suffix, ".tfrecord");
  EXPECT_EQ(spec->count, 64);
  EXPECT_EQ(ParseOutputSpec("train@3")->directory, "");
  EXPECT_EQ(ParseOutputSpec("out/train")->count, std::nullopt);
  EXPECT_EQ(ParseOutputSpec("out/train@*")->count, std::nullopt);
  EXPECT_EQ(ParseOutputSpec("/train@1")->directory, "/");
  EXPECT_EQ(ParseOutputSpec("x.tfrecord@10")->stem, "x.tfrecord");
}

TEST(ParseOutputSpec, WrongFormsAreRefused) {
  EXPECT_FAILS(ParseOutputSpec("out/@5"), kInvalidArgument, "a name is missing");
  EXPECT_FAILS(ParseOutputSpec("out/"), kInvalidArgument, "a name is missing");
  EXPECT_FAILS(ParseOutputSpec("out/a@0"), kInvalidArgument, "must be 1 to 1000000");
  EXPECT_FAILS(ParseOutputSpec("out/a@1000001"), kInvalidArgument, "must be 1 to 1000000");
  EXPECT_FAILS(ParseOutputSpec("out/a@x"), kInvalidArgument, "after '@' expected a number");
  EXPECT_FAILS(ParseOutputSpec("out/a@5tfrecord"), kInvalidArgument, "after '@' expected");
  EXPECT_FAILS(ParseOutputSpec("out/a*@5"), kInvalidArgument, "must not contain");
  EXPECT_FAILS(ParseOutputSpec("out/.a@5"), kInvalidArgument, "hidden files or sidecars");
  EXPECT_FAILS(ParseOutputSpec("out/a@5.idx"), kInvalidArgument, "hidden files or sidecars");
}

class ResolveTest : public ::testing::Test {
 protected:
  void Make(std::string_view stem, uint64_t count, std::string_view suffix = "") {
    for (uint64_t i = 0; i < count; ++i) folder_.Write(ShardName(stem, i, count, suffix), "");
  }
  absl::StatusOr<ShardSet> Resolve(std::string_view spec) { return ResolveSpec(folder_ / spec); }

  TestFolder folder_;
};

TEST_F(ResolveTest, SetWithItsNumber) {
  Make("train", 10);
  const auto set = Resolve("train@10");
  ASSERT_OK(set);
  ASSERT_EQ(set->paths.size(), 10);
  EXPECT_EQ(set->paths[3], folder_ / "train-00003-of-00010");
  EXPECT_TRUE(set->sharded_name);
  EXPECT_EQ(Resolve("train@*")->paths, set->paths);
  EXPECT_EQ(Resolve("train-*")->paths, set->paths);
  EXPECT_EQ(ResolveSpec(folder_.path())->paths, set->paths);
  EXPECT_EQ(ResolveSpecs(set->paths)->sharded_name, true);
}

TEST_F(ResolveTest, SuffixBehindTheNumberOrInTheStem) {
  Make("train", 3, ".tfrecord.gz");
  Make("test.tfrecord", 2);
  EXPECT_EQ(Resolve("train@3.tfrecord.gz")->paths.size(), 3);
  EXPECT_EQ(Resolve("train@*.tfrecord.gz")->paths.size(), 3);
  EXPECT_EQ(Resolve("test.tfrecord@2")->paths.size(), 2);
}

TEST_F(ResolveTest, MissingShardsAreListed) {
  Make("train", 10);
  std::filesystem::remove(folder_ / "train-00003-of-00010");
  std::filesystem::remove(folder_ / "train-00007-of-00010");
  for (const char* spec : {"train@10", "train@*", "train-*"}) {
    EXPECT_FAILS(Resolve(spec), kDataLoss,
                 "2 of 10 shards are missing: train-00003-of-00010, train-00007-of-00010");
  }
}

TEST_F(ResolveTest, ForeignShardsAreListed) {
  Make("train", 2);
  Make("train", 3);
  EXPECT_OK(Resolve("train@2"));
  EXPECT_FAILS(Resolve("train@*"), kInvalidArgument, "shards of more than one set");
  EXPECT_FAILS(Resolve("train-*"), kInvalidArgument, "do not belong together");
  EXPECT_FAILS(ResolveSpec(folder_.path()), kInvalidArgument, "several sets of shards");
}

TEST_F(ResolveTest, GlobWithAFileThatIsNoShard) {
  Make("train", 2);
  folder_.Write("train-notes", "");
  EXPECT_FAILS(Resolve("train-*"), kInvalidArgument, "train-notes");
}

TEST_F(ResolveTest, SameShardTwiceIsRefused) {
  Make("train", 2);
  folder_.Write("train-000001-of-000002", "");
  EXPECT_FAILS(Resolve("train@2"), kDataLoss, "more than one name");
}

TEST_F(ResolveTest, NumberPastTheTotalIsRefused) {
  Make("train", 2);
  folder_.Write("train-00002-of-00002", "");
  EXPECT_FAILS(Resolve("train@2"), kDataLoss, "numbered past the total: train-00002-of-00002");
}

TEST_F(ResolveTest, WrongSuffixOrNumberGetsAHint) {
  Make("train", 10, ".tfrecord");
  EXPECT_FAILS(Resolve("train@10"), kNotFound, "did you mean ");
  EXPECT_FAILS(Resolve("train@9.tfrecord"), kNotFound, "train@10.tfrecord");
  EXPECT_FAILS(Resolve("nothing@3"), kNotFound, "no such shards");
  EXPECT_FAILS(Resolve("nothing"), kNotFound, "no such file or folder");
  EXPECT_FAILS(Resolve("x*"), kNotFound, "no file matches");
}

TEST_F(ResolveTest, PlainFilesAreSorted) {
  folder_.Write("b.tfrecord", "");
  folder_.Write("a.tfrecord", "");
  folder_.Write("a.tfrecord.idx", "");
  const auto set = Resolve("*");
  ASSERT_OK(set);
  EXPECT_EQ(set->paths, (std::vector<std::string>{folder_ / "a.tfrecord", folder_ / "b.tfrecord"}));
  EXPECT_FALSE(set->sharded_name);
}

TEST_F(ResolveTest, FileNamedTwiceIsRefused) {
  const std::string path = folder_.Write("a.tfrecord", "");
  EXPECT_FAILS(ResolveSpecs({path, path}), kInvalidArgument, "named twice");
}

TEST_F(ResolveTest, FolderWithManifests) {
  Make("train", 2);
  folder_.Write(".shardfeed/train.manifest.json",
                R"({"stem": "train", "suffix": "", "num_shards": 2})");
  EXPECT_EQ(ResolveSpec(folder_.path())->paths.size(), 2);
  folder_.Write(".shardfeed/test.manifest.json",
                R"({"stem": "test", "suffix": "", "num_shards": 1})");
  EXPECT_FAILS(ResolveSpec(folder_.path()), kInvalidArgument, "holds 2 datasets");
  folder_.Write(".shardfeed/test.manifest.json", "{}");
  EXPECT_FAILS(ResolveSpec(folder_.path()), kDataLoss, "not a manifest");
}

TEST_F(ResolveTest, TfdsFolder) {
  Make("mnist-train.tfrecord", 2);
  Make("mnist-test.tfrecord", 1);
  const std::string train = R"({"name": "train", "shardLengths": ["5", "5"]})";
  const std::string test = R"({"name": "test", "shardLengths": ["5"]})";
  const auto info = [&](const std::string& splits) {
    folder_.Write("dataset_info.json", R"({"name": "mnist", "splits": [)" + splits + "]}");
  };
  info(train);
  EXPECT_EQ(ResolveSpec(folder_.path())->paths.size(), 2);
  info(train + "," + test);
  EXPECT_FAILS(ResolveSpec(folder_.path()), kInvalidArgument, "mnist-test.tfrecord@1");
}

TEST_F(ResolveTest, SparkFolder) {
  const std::string job = "-01234567-89ab-cdef-0123-456789abcdef-c000.tfrecord.gz";
  folder_.Write("part-00000" + job, "");
  folder_.Write("part-00002" + job, "");
  EXPECT_FAILS(ResolveSpec(folder_.path()), kFailedPrecondition, "did not finish");
  folder_.Write("_SUCCESS", "");
  EXPECT_EQ(ResolveSpec(folder_.path())->paths.size(), 2);
  EXPECT_EQ(Resolve("part-*")->paths.size(), 2);
  folder_.Write("part-00001-11234567-89ab-cdef-0123-456789abcdef-c000.tfrecord.gz", "");
  EXPECT_FAILS(ResolveSpec(folder_.path()), kInvalidArgument, "more than one Spark job");
}

TEST_F(ResolveTest, EmptyFolder) {
  EXPECT_FAILS(ResolveSpec(folder_.path()), kNotFound, "holds no shards");
}

TEST(Sidecars, LiveInAHiddenFolder) {
  EXPECT_EQ(IndexPath("out/train-00000-of-00001"), "out/.shardfeed/train-00000-of-00001.index");
  EXPECT_EQ(IndexPath("a"), ".shardfeed/a.index");
  EXPECT_EQ(ManifestPath("out", "train"), "out/.shardfeed/train.manifest.json");
  EXPECT_EQ(StagingPath("out", "train"), "out/.shardfeed/train.incomplete");
}

}  // namespace
}  // namespace shardfeed
