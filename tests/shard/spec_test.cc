#include "shard/spec/spec.h"

#include <sys/stat.h>

#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::OnDisk;
using testing::TestFolder;

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
  EXPECT_FAILS(ParseOutputSpec("out/@5"), kInvalidArgument, "the name is missing");
  EXPECT_FAILS(ParseOutputSpec("out/"), kInvalidArgument, "the name is missing");
  EXPECT_FAILS(ParseOutputSpec("out/a@0"), kInvalidArgument, "must be from 1 to 1000000");
  EXPECT_FAILS(ParseOutputSpec("out/a@1000001"), kInvalidArgument, "must be from 1 to 1000000");
  EXPECT_FAILS(ParseOutputSpec("out/a@x"), kInvalidArgument, "after '@' expected a number");
  EXPECT_FAILS(ParseOutputSpec("out/a@5tfrecord"), kInvalidArgument, "after '@' expected");
  EXPECT_FAILS(ParseOutputSpec("out/a*@5"), kInvalidArgument, "must not contain");
  EXPECT_FAILS(ParseOutputSpec("out/.a@5"), kInvalidArgument, "hidden files or sidecars");
  EXPECT_FAILS(ParseOutputSpec("out/a@5.idx"), kInvalidArgument, "hidden files or sidecars");
  EXPECT_FAILS(ParseOutputSpec("out/a@5."), kInvalidArgument, "after '@' expected");
  EXPECT_FAILS(ParseOutputSpec("-"), kInvalidArgument,
               "-: a dataset consists of several files and cannot be written to standard output");
  for (const char* spec : {"-@1", "out/-", "out/--x@3", "-.tfrecord@2"}) {
    EXPECT_FAILS(ParseOutputSpec(spec), kInvalidArgument, "must not begin with '-'");
  }
  for (const char* spec : {"/dev/stdout", "/dev/x@1", "/dev/fd/x@1", "/proc/self/x@1", "/sys/x@2",
                           "/dev/shm/../x@1", "//dev/x"}) {
    EXPECT_FAILS(ParseOutputSpec(spec), kInvalidArgument,
                 "a dataset consists of several files, but /");
  }
  EXPECT_OK(ParseOutputSpec("/dev/shm/x@1"));
  EXPECT_FAILS(ParseOutputSpec("out/a@"), kInvalidArgument, "after '@' expected");
  EXPECT_FAILS(ParseOutputSpec("out/a@-5"), kInvalidArgument, "after '@' expected");
  EXPECT_FAILS(ParseOutputSpec("out/a@b@5"), kInvalidArgument, "must not contain");
  EXPECT_FAILS(ParseOutputSpec(""), kInvalidArgument, "the name is missing");
  EXPECT_FAILS(ParseOutputSpec(std::string_view("out/a\0@5", 8)), kInvalidArgument, "NUL");
  EXPECT_FAILS(ParseOutputSpec("out/a@5.b-00000-of-00001"), kInvalidArgument, "would be ambiguous");
}

TEST(ParseOutputSpec, NameOfOneShardIsRefused) {
  EXPECT_FAILS(ParseOutputSpec("out/train-00003-of-00010.tfrecord"), kInvalidArgument,
               "name the dataset, as in out/train@10.tfrecord");
  EXPECT_FAILS(ParseOutputSpec("out/train-00003-of-00010@4"), kInvalidArgument,
               "name the dataset, as in out/train@10");
}

class ResolveTest : public ::testing::Test {
 protected:
  void Make(std::string_view stem, uint64_t count, std::string_view suffix = "") {
    for (uint64_t i = 0; i < count; ++i) folder_.Write(ShardName(stem, i, count, suffix), "");
  }
  // Writes a manifest of these members without a checksum, as in version 1.
  void Manifest(std::string_view file_stem, std::string json) {
    if (json.starts_with("{\"")) {
      json.insert(1, R"("format": "shardfeed manifest", "version": 1, )");
    }
    folder_.Write(".shardfeed/" + std::string(file_stem) + ".manifest.json", json);
  }
  // The name of a file that Spark wrote; `number` surrounds the job: "00000%-c000".
  std::string Part(std::string number, std::string_view job = kJob) {
    number.replace(number.find('%'), 1, "-" + std::string(job));
    return folder_.Write("part-" + number + ".tfrecord", "");
  }
  void Info(std::string_view splits, std::string_view more = "") {
    folder_.Write("dataset_info.json", R"({"name": "mnist", "splits": )" + std::string(splits) +
                                           std::string(more) + "}");
  }
  void Remove(std::string_view name) { std::filesystem::remove(OnDisk(folder_ / name)); }
  absl::StatusOr<ShardSet> Resolve(std::string_view spec) { return ResolveSpec(folder_ / spec); }
  absl::StatusOr<ShardSet> ResolveFolder() { return ResolveSpec(folder_.path()); }

  // What is said of a name that is not there.
  static std::string NoFile() {
    return testing::OverStore() ? "there is no such object or folder" : "no such file or folder";
  }
  static std::string NoFolder() {
    return testing::OverStore() ? "no such folder" : "cannot list the folder";
  }

  static constexpr std::string_view kJob = "01234567-89ab-cdef-0123-456789abcdef";
  static constexpr std::string_view kOtherJob = "11234567-89ab-cdef-0123-456789abcdef";

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

TEST_F(ResolveTest, SetTellsItsParts) {
  Make("train", 2, ".tfrecord");
  for (const char* spec : {"train@2.tfrecord", "train@*.tfrecord", "train*", ""}) {
    const auto set = Resolve(spec);
    ASSERT_OK(set);
    EXPECT_EQ(set->directory, folder_.path()) << spec;
    EXPECT_EQ(set->stem, "train");
    EXPECT_EQ(set->suffix, ".tfrecord");
    EXPECT_TRUE(set->sharded_name);
  }
}

TEST_F(ResolveTest, OneFileIsItself) {
  Make("train", 2);
  const auto set = Resolve("train-00001-of-00002");
  ASSERT_OK(set);
  EXPECT_EQ(set->paths, std::vector<std::string>{folder_ / "train-00001-of-00002"});
  EXPECT_EQ(set->stem, "train-00001-of-00002");
  EXPECT_FALSE(set->sharded_name);
}

TEST_F(ResolveTest, FileWithAnAtOrAWildcardInItsNameIsItself) {
  SKIP_OVER_STORE("stem@N names no object, so that nothing is listed");
  for (const char* name : {"a@3", "a@x", "a[1]", "a*"}) {
    const std::string path = folder_.Write(name, "");
    const auto set = ResolveSpec(path);
    ASSERT_OK(set);
    EXPECT_EQ(set->paths, std::vector<std::string>{path});
  }
}

TEST_F(ResolveTest, PipeIsRefusedAndNotOpened) {
  SKIP_OVER_STORE("pipes");
  const std::string path = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FAILS(ResolveSpec(path), kInvalidArgument, "neither a file nor a folder");
}

TEST_F(ResolveTest, PipeAtAShardsNameIsOneSoThatOpeningItTells) {
  SKIP_OVER_STORE("pipes");
  folder_.Write("d-00000-of-00002", "");
  ASSERT_EQ(::mkfifo((folder_ / "d-00001-of-00002").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((folder_ / "other").c_str(), 0600), 0);
  for (const std::string& spec : {folder_ / "d@2", folder_ / "d-*", folder_.path()}) {
    const auto set = ResolveSpec(spec);
    ASSERT_OK(set);
    EXPECT_EQ(set->paths.size(), 2);
  }
}

TEST_F(ResolveTest, NulInANameIsRefused) {
  const std::string path = folder_.Write("a", "");
  EXPECT_FAILS(ResolveSpec(path + std::string("\0b", 2)), kInvalidArgument, "NUL");
}

TEST_F(ResolveTest, LinkCountsAsAFile) {
  SKIP_OVER_STORE("links");
  folder_.Write("elsewhere/x", "");
  for (int i : {0, 1}) {
    const std::string link = folder_ / ShardName("train", i, 2, "");
    std::filesystem::create_symlink(i == 0 ? "elsewhere/x" : "nowhere", link);
  }
  EXPECT_EQ(Resolve("train@2")->paths.size(), 2);
  EXPECT_EQ(Resolve("train-*")->paths.size(), 2);
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
  std::filesystem::remove(OnDisk(folder_ / "train-00003-of-00010"));
  std::filesystem::remove(OnDisk(folder_ / "train-00007-of-00010"));
  for (const char* spec : {"train@10", "train@*", "train-*"}) {
    EXPECT_FAILS(Resolve(spec), kDataLoss,
                 "2 of 10 shards are missing: train-00003-of-00010, train-00007-of-00010");
  }
}

TEST_F(ResolveTest, OfManyMissingShardsTheFirstAreListed) {
  folder_.Write("train-00003-of-00100", "");
  EXPECT_FAILS(Resolve("train@100"), kDataLoss,
               "train@100: 99 of 100 shards are missing: train-00000-of-00100, "
               "train-00001-of-00100, train-00002-of-00100, train-00004-of-00100, "
               "train-00005-of-00100 and 94 more");
}

TEST_F(ResolveTest, TotalThatCannotBeIsNoWork) {
  folder_.Write("train-00000-of-18446744073709551615", "");
  EXPECT_FAILS(Resolve("train@*"), kDataLoss,
               "18446744073709551614 of 18446744073709551615 shards are missing");
  folder_.Write("none-00000-of-00000", "");
  EXPECT_FAILS(Resolve("none@*"), kDataLoss, "numbered past the total: none-00000-of-00000");
}

TEST_F(ResolveTest, ForeignShardsAreListed) {
  Make("train", 2);
  Make("train", 3);
  EXPECT_OK(Resolve("train@2"));
  EXPECT_FAILS(Resolve("train@*"), kInvalidArgument, "shards of more than one set");
  Remove("train-00001-of-00003");
  EXPECT_FAILS(
      Resolve("train@*"), kInvalidArgument,
      folder_ / "train@2 (2 of 2 shards), " +
          folder_ /
              "train@3 (2 of 3 shards: "
              "train-00000-of-00003, train-00002-of-00003); name one of them, or remove the "
              "leftovers");
  EXPECT_FAILS(Resolve("train-*"), kInvalidArgument, "do not belong together");
  EXPECT_FAILS(ResolveSpec(folder_.path()), kInvalidArgument, "several sets of shards");
}

TEST_F(ResolveTest, GlobWithAFileThatIsNoShard) {
  Make("train", 2);
  folder_.Write("train-notes", "");
  EXPECT_FAILS(Resolve("train-*"), kInvalidArgument, "train-notes");
}

TEST_F(ResolveTest, GlobOfAPartOfASetTellsHowToReadAPart) {
  Make("train", 3);
  EXPECT_FAILS(Resolve("train-0000[01]*"), kDataLoss,
               "1 of 3 shards is missing: train-00002-of-00003; to read a part of the set, name "
               "its files one by one");
  EXPECT_EQ(ResolveSpecs({folder_ / "train-00000-of-00003", folder_ / "train-00001-of-00003"})
                ->paths.size(),
            2);
}

TEST_F(ResolveTest, GlobOverFolders) {
  folder_.Write("a/s/x", "");
  folder_.Write("b/s/x", "");
  folder_.Write("c/s", "a file where others have a folder");
  folder_.Write("d/y", "");
  folder_.Write(".e/s/x", "");
  const auto set = Resolve("*/s/x*");
  ASSERT_OK(set);
  EXPECT_EQ(set->paths, (std::vector<std::string>{folder_ / "a/s/x", folder_ / "b/s/x"}));
  EXPECT_FAILS(Resolve("d*/s/x*"), kNotFound, "d*/s/x*: no file matches");
  EXPECT_FAILS(Resolve("nothing/x*"), kNotFound, "nothing: " + NoFolder());
}

TEST_F(ResolveTest, GlobTellsWhatItLeftOut) {
  folder_.Write("a.idx", "");
  folder_.Write("a.d/x", "");
  EXPECT_FAILS(Resolve("a*"), kNotFound,
               "no file matches; folders and sidecars are left out: a.d/, a.idx");
}

TEST_F(ResolveTest, GlobOverAllLevelsIsRefused) {
  folder_.Write("a/x", "");
  folder_.Write("a/b/x", "");
  EXPECT_FAILS(Resolve("**/x"), kInvalidArgument, "'**' is not supported");
}

TEST_F(ResolveTest, SidecarsAndHiddenFilesAreIgnored) {
  Make("train", 2);
  for (const char* name : {"train-00000-of-00002.idx", "train-00000-of-00002.tfindex", "train.json",
                           "train-00000-of-00002.crc", "train-00001-of-00002.tmp12", "_SUCCESS",
                           ".train-00000-of-00002.crc"}) {
    folder_.Write(name, "");
  }
  for (const char* spec : {"train@2", "train@*", "train*", "*", ""}) {
    ASSERT_OK(Resolve(spec));
    EXPECT_EQ(Resolve(spec)->paths.size(), 2) << spec;
  }
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
  EXPECT_FAILS(Resolve("train@10"), kNotFound,
               "train@10: no such shards; found train-00000-of-00010.tfrecord ...; did you mean " +
                   folder_ / "train@10.tfrecord");
  EXPECT_FAILS(Resolve("train.tfrecord@10"), kNotFound, "did you mean " + folder_ / "train@10.tfr");
  EXPECT_FAILS(Resolve("train"), kNotFound, "did you mean " + folder_ / "train@10.tfrecord");
  EXPECT_FAILS(Resolve("@3"), kInvalidArgument, "the name before '@' is missing");
  EXPECT_FAILS(Resolve("train@x"), kInvalidArgument, "after '@' expected a number");
  EXPECT_FAILS(ResolveSpec(""), kInvalidArgument, "the name of the dataset is empty");
  EXPECT_FAILS(ResolveSpecs({}), kInvalidArgument, "expected the name of at least one dataset");
  EXPECT_FAILS(Resolve("no/train@3"), kNotFound, "no: " + NoFolder());
  EXPECT_FAILS(Resolve("nothing@3"), kNotFound,
               "nothing@3: no such shards; the folder has " + folder_ / "train@10.tfrecord");
  EXPECT_FAILS(Resolve("nothing"), kNotFound, NoFile());
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
  EXPECT_FAILS(ResolveSpecs({path, path}), kInvalidArgument, "appears twice");
  EXPECT_FAILS(ResolveSpecs({path, folder_ / "*.tfrecord"}), kInvalidArgument, "appears twice");
  SKIP_OVER_STORE("an object has one name");
  EXPECT_FAILS(ResolveSpecs({path, folder_ / "./a.tfrecord"}), kInvalidArgument,
               "appears twice, also as " + path);
}

TEST_F(ResolveTest, SeveralSpecsFollowEachOther) {
  Make("b", 2);
  Make("a", 1);
  const auto set = ResolveSpecs({folder_ / "b@2", folder_ / "a@1"});
  ASSERT_OK(set);
  EXPECT_EQ(set->paths,
            (std::vector<std::string>{folder_ / "b-00000-of-00002", folder_ / "b-00001-of-00002",
                                      folder_ / "a-00000-of-00001"}));
  EXPECT_EQ(set->stem, "");
  EXPECT_FALSE(set->sharded_name);
  const auto reversed = ResolveSpecs({folder_ / "b-00001-of-00002", folder_ / "b-00000-of-00002"});
  ASSERT_OK(reversed);
  EXPECT_FALSE(reversed->sharded_name);
}

TEST_F(ResolveTest, FolderWithManifests) {
  Make("train", 2, ".gz");
  folder_.Write("README.md", "");
  Manifest("train", R"({"stem": "train", "suffix": ".gz", "num_shards": 2, "shards": [{"a": 1}]})");
  const auto set = ResolveFolder();
  ASSERT_OK(set);
  EXPECT_EQ(set->paths, Resolve("train@2.gz")->paths);
  Make("val", 1);
  EXPECT_FAILS(ResolveFolder(), kInvalidArgument, folder_ / "val@1 (1 of 1 shard)");
  Remove("val-00000-of-00001");
  Remove("train-00001-of-00002.gz");
  EXPECT_FAILS(ResolveFolder(), kDataLoss, "train@2.gz: 1 of 2 shards is missing");
}

TEST_F(ResolveTest, FolderWithSeveralManifestsListsThem) {
  Manifest("train", R"({"stem": "train", "suffix": "", "num_shards": 2})");
  Manifest("test", R"({"stem": "test", "suffix": ".gz", "num_shards": 1})");
  EXPECT_FAILS(
      ResolveFolder(), kInvalidArgument,
      "holds 2 datasets; name one of them: " + folder_ / "test@1.gz, " + folder_ / "train@2");
}

TEST_F(ResolveTest, BrokenManifestIsDataLoss) {
  Make("a", 1);
  for (const char* json : {"", "{", "[]", "{}", R"({"stem": "a"})", R"({"stem": 1, "suffix": ""})",
                           R"({"stem": "a", "suffix": "", "num_shards": -1})",
                           R"({"stem": "a", "suffix": "", "num_shards": "1"})",
                           R"({"stem": "a", "suffix": {}, "num_shards": 1})",
                           R"({"stem": "", "suffix": "", "num_shards": 1})"}) {
    Manifest("a", json);
    EXPECT_FAILS(ResolveFolder(), kDataLoss, "not a shardfeed manifest");
  }
  Manifest("a", R"({"stem": "b", "suffix": "", "num_shards": 1})");
  EXPECT_FAILS(ResolveFolder(), kDataLoss, "describes 'b'; was it renamed?");
  Manifest("a", R"({"stem": "a", "suffix": "", "num_shards": 1, "crc32c": "00000000"})");
  EXPECT_FAILS(ResolveFolder(), kDataLoss, "it was changed or damaged");
  folder_.Write(".shardfeed/a.manifest.json",
                R"({"format": "shardfeed manifest", "version": 2, "stem": "a", "suffix": "",
                    "num_shards": 1})");
  EXPECT_FAILS(ResolveFolder(), kDataLoss, "it was changed or damaged");
}

TEST_F(ResolveTest, DeepJsonIsDataLoss) {
  Make("a", 1);
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  Manifest("a", R"({"stem": "a", "suffix": "", "num_shards": )" + deep + "}");
  EXPECT_FAILS(ResolveFolder(), kDataLoss, "nested more than 100 deep");
  Remove(".shardfeed/a.manifest.json");
  Info(deep);
  EXPECT_FAILS(ResolveFolder(), kDataLoss, "nested more than 100 deep");
}

TEST_F(ResolveTest, PlacesThatAreNoPathsAreRefused) {
  EXPECT_FAILS(ParseOutputSpec("https://host/x@1"), kInvalidArgument,
               "https://host/x@1: HTTP servers are only read; write to a path, s3://, gs://, az:// "
               "or abfss://");
  for (const char* spec : {"ftp://b/x@1", "hdfs://host:9000/x"}) {
    EXPECT_FAILS(
        ParseOutputSpec(spec), kInvalidArgument,
        ":// is not supported; datasets are read from paths, s3://, gs://, az://, abfss://, "
        "http:// "
        "and https://, and written to paths, s3://, gs://, az:// and abfss://");
    EXPECT_FAILS(
        ResolveSpec(spec), kInvalidArgument,
        ":// is not supported; datasets are read from paths, s3://, gs://, az://, abfss://, "
        "http:// "
        "and https://");
    EXPECT_FAILS(ResolveSpecs({spec, "other"}), kInvalidArgument, ":// is not supported");
  }
  EXPECT_FAILS(CheckIsPath("gs://b/x@1"), kInvalidArgument,
               "gs://b/x@1: gs:// is not supported here, only local paths are (for a folder named "
               "gs:, write ./gs:/...)");
  EXPECT_FAILS(CheckIsPath("file:///data/x@1"), kInvalidArgument,
               "file:///data/x@1: write it as the plain path /data/x@1");
  EXPECT_EQ(ParseOutputSpec("file:///data/x@1")->directory, "/data");
  for (const char* spec : {"s3://bucket", "s3://bucket/", "s3://bucket/folder/"}) {
    EXPECT_FAILS(ParseOutputSpec(spec), kInvalidArgument, "the name is missing");
  }
  const auto store = ParseOutputSpec("s3://bucket/x@3.tfrecord");
  ASSERT_OK(store);
  EXPECT_EQ(store->directory, "s3://bucket");
  EXPECT_EQ(store->stem, "x");
  folder_.Write("gs:/b/x-00000-of-00001", "");
  EXPECT_OK(Resolve("gs://b/x@1"));  // within the folder
  EXPECT_OK(ParseOutputSpec("./gs://b/x@1"));
}

// Names from a manifest are compared with names of files, and never made into paths.
TEST_F(ResolveTest, ManifestWithAnImpossibleSuffixNamesNothing) {
  Make("a", 1);
  for (const char* suffix : {"tfrecord", "/x", "@1", "."}) {
    Manifest("a", R"({"stem": "a", "num_shards": 1, "suffix": ")" + std::string(suffix) + "\"}");
    EXPECT_FAILS(ResolveFolder(), kNotFound, "no such shards");
  }
  Manifest("a", R"({"stem": "a", "num_shards": 0, "suffix": ""})");
  EXPECT_FAILS(ResolveFolder(), kNotFound, "no such shards");
}

TEST_F(ResolveTest, TfdsFolder) {
  Make("mnist-train.tfrecord", 2);
  Make("mnist-test.tfrecord", 1);
  Info(R"([{"name": "train", "shardLengths": ["5", "5"]}])");
  const auto set = ResolveFolder();
  ASSERT_OK(set);
  EXPECT_EQ(set->paths, Resolve("mnist-train.tfrecord@2")->paths);
  Info(
      R"([{"name": "train", "shardLengths": ["5", "5"]}, {"name": "test", "shardLengths": ["5"]}])");
  EXPECT_FAILS(ResolveFolder(), kInvalidArgument,
               "a TFDS dataset of 2 splits; name one: " + folder_ / "train, " + folder_ / "test");
  for (const char* split : {"train", "test"}) {
    ASSERT_OK(Resolve(split));
    EXPECT_EQ(Resolve(split)->paths, Resolve("mnist-" + std::string(split) + ".tfrecord@*")->paths);
  }
  EXPECT_FAILS(Resolve("dev"), kNotFound, NoFile());
  Info(R"([{"name": "train", "shardLengths": ["5", "5", "5"]}])");
  EXPECT_FAILS(ResolveFolder(), kNotFound, "did you mean " + folder_ / "mnist-train.tfrecord@2");
}

TEST_F(ResolveTest, TfdsFolderWithItsOwnFileNames) {
  Make("train", 2, ".tfrecord");
  for (const char* name : {"{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}",
                           "{SPLIT}-{SHARD_INDEX}-of-{NUM_SHARDS}.{FILEFORMAT}"}) {
    Info(R"([{"name": "train", "shardLengths": ["5", "5"], "filepathTemplate": ")" +
         std::string(name) + "\"}]");
    ASSERT_OK(ResolveFolder());
    EXPECT_EQ(ResolveFolder()->paths.size(), 2);
  }
  for (const char* name : {"{SPLIT}", "{OTHER}-{SHARD_X_OF_Y}", "{SPLIT-{SHARD_X_OF_Y}",
                           "below/{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}"}) {
    Info(R"([{"name": "train", "shardLengths": ["5", "5"], "filepathTemplate": ")" +
         std::string(name) + "\"}]");
    EXPECT_FAILS(ResolveFolder(), kDataLoss, "from its filepathTemplate '" + std::string(name));
  }
}

TEST_F(ResolveTest, TfdsFolderWithoutShardLengthsTakesTheSetOfThatName) {
  Make("mnist-train.tfrecord", 2);
  Info(R"([{"name": "train"}])");
  ASSERT_OK(ResolveFolder());
  EXPECT_EQ(ResolveFolder()->paths.size(), 2);
}

TEST_F(ResolveTest, TfdsFolderThatCannotBeRead) {
  Info("[]");
  EXPECT_FAILS(ResolveFolder(), kNotFound, "lists no splits");
  Info("[1]");
  EXPECT_FAILS(ResolveFolder(), kDataLoss, "cannot derive the files");
  Info(R"([{"name": "train"}])", R"(, "fileFormat": "riegeli")");
  EXPECT_FAILS(ResolveFolder(), kInvalidArgument,
               "the shards are riegeli files; only tfrecord and array_record files can be read");
  folder_.Write("dataset_info.json", "{");
  EXPECT_FAILS(ResolveFolder(), kDataLoss,
               "dataset_info.json: not a TFDS dataset description: invalid JSON");
}

TEST_F(ResolveTest, HuggingFaceDescriptionIsPassedOver) {
  Make("train", 2);
  Info(R"({"train": {"name": "train", "num_bytes": 5}})");
  EXPECT_OK(ResolveFolder());
}

TEST_F(ResolveTest, SparkFolder) {
  const std::string second = Part("00002%-c000");
  const std::string first = Part("00000%-c000");
  EXPECT_FAILS(ResolveFolder(), kFailedPrecondition, "the Spark job that wrote it did not finish");
  EXPECT_FAILS(ResolveFolder(), kFailedPrecondition, "by a glob: " + folder_ / "part-*");
  EXPECT_EQ(Resolve("part-*")->paths, (std::vector<std::string>{first, second}));
  folder_.Write("_SUCCESS", "");
  const auto set = ResolveFolder();
  ASSERT_OK(set);
  EXPECT_EQ(set->paths, (std::vector<std::string>{first, second}));
  EXPECT_FALSE(set->sharded_name);
}

TEST_F(ResolveTest, SparkFilesOfAnotherJobAreForeign) {
  Part("00000%-c000");
  Part("00001%-c000", kOtherJob);
  folder_.Write("_SUCCESS", "");
  for (const char* spec : {"", "part-*"}) {
    EXPECT_FAILS(Resolve(spec), kInvalidArgument,
                 "files of more than one Spark job: 1 file of Spark job " + std::string(kJob));
  }
  EXPECT_OK(Resolve("part-*" + std::string(kOtherJob) + "*"));
}

TEST_F(ResolveTest, SparkPartUnderTwoNamesIsRefused) {
  Part("00000%-c000");
  Part("000000%-c000");
  EXPECT_FAILS(Resolve("part-*"), kDataLoss, "the same part under more than one name");
}

TEST_F(ResolveTest, SparkOrderIsPartThenBucketThenFile) {
  const std::vector<std::string> paths = {Part("99999%-c000"), Part("99999%-c001"),
                                          Part("100000%_00000.c000"), Part("100000%_00001.c000")};
  EXPECT_EQ(Resolve("part-*")->paths, paths);
}

TEST_F(ResolveTest, HadoopPartsHaveNoJob) {
  folder_.Write("part-r-00001", "");
  folder_.Write("part-r-00000", "");
  folder_.Write("_SUCCESS", "");
  EXPECT_EQ(ResolveFolder()->paths,
            (std::vector<std::string>{folder_ / "part-r-00000", folder_ / "part-r-00001"}));
}

TEST_F(ResolveTest, FolderWithASetAndASparkJobIsAmbiguous) {
  Make("train", 2);
  Part("00000%-c000");
  EXPECT_FAILS(ResolveFolder(), kInvalidArgument, "train@2 (2 of 2 shards), 1 file of Spark job");
}

TEST_F(ResolveTest, FolderWithALoneSetMayHoldOtherFiles) {
  Make("train", 2);
  folder_.Write("README.md", "");
  EXPECT_EQ(ResolveFolder()->paths.size(), 2);
  Remove("train-00000-of-00002");
  EXPECT_FAILS(ResolveFolder(), kDataLoss, "1 of 2 shards is missing: train-00000-of-00002");
}

TEST_F(ResolveTest, FolderOfPlainFilesListsThem) {
  folder_.Write("b.tfrecord", "");
  folder_.Write("a.tfrecord", "");
  EXPECT_FAILS(ResolveFolder(), kInvalidArgument,
               "holds no set of shards, but 2 files without a shard number (" +
                   folder_ / "a.tfrecord, " + folder_ / "b.tfrecord); name files by a glob");
}

TEST_F(ResolveTest, EmptyFolder) {
  EXPECT_FAILS(ResolveFolder(), kNotFound, testing::OverStore() ? NoFile() : "holds no shards");
  folder_.Write("3.0.1/train-00000-of-00001", "");
  EXPECT_FAILS(ResolveFolder(), kNotFound,
               "holds no shards; the folders in it are " + folder_ / "3.0.1");
}

TEST_F(ResolveTest, FolderNamedWithASlash) {
  Make("train", 2);
  EXPECT_EQ(ResolveSpec(folder_.path() + "//")->paths, ResolveFolder()->paths);
}

TEST_F(ResolveTest, UnfinishedDatasetIsToldAsSuch) {
  SKIP_OVER_STORE("unfinished datasets are seen in folders alone");
  std::filesystem::create_directories(StagingPath(folder_.path(), "train"));
  EXPECT_FAILS(Resolve("train@2"), kNotFound, "it is being written, or its writer did not finish");
}

}  // namespace
}  // namespace shardfeed
