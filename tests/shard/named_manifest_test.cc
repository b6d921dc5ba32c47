#include "shard/declarations/named_manifest.h"

#include <filesystem>

#include "shard/names/names.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::TestFolder;

TEST(NamedManifest, IsFoundByAnyName) {
  TestFolder folder;
  std::filesystem::create_directories(folder / ".shardfeed");
  Manifest manifest;
  manifest.stem = "train";
  manifest.shards = {{ShardName("train", 0, 1, ""), 0, 0, 0}};
  folder.Write(".shardfeed/train.manifest.json", FormatManifest(manifest));
  folder.Write("train-00000-of-00001", "");
  folder.Write("classes.txt", "cat");
  for (const std::string& name : {folder / "train@1", folder / "train@*", folder / "train",
                                  folder.path(), folder / ".shardfeed/train.manifest.json"}) {
    EXPECT_TRUE(NamesDataset(name)) << name;
    const auto found = ReadNamedManifest(name);
    ASSERT_OK(found);
    EXPECT_EQ(found->name, name);
    EXPECT_EQ(found->manifest.stem, "train");
  }
  EXPECT_FALSE(NamesDataset(folder / "classes.txt"));
  EXPECT_FALSE(NamesDataset(folder / "none"));
  EXPECT_FAILS(ReadNamedManifest(folder / "val@1"), kNotFound, "val@1: no such shards");
  EXPECT_FAILS(ReadNamedManifest(folder / "classes.txt"), kFailedPrecondition,
               "classes.txt: is not a dataset with a manifest; name one as folder/name@N");
  folder.Write("val-00000-of-00001", "");
  EXPECT_FAILS(ReadNamedManifest(folder / "val@1"), kFailedPrecondition,
               "val@1: the dataset has no manifest, so its classes and options are unknown");
}

TEST(NamedManifest, TellsTheOptionsOfConvert) {
  Manifest manifest;
  EXPECT_EQ(OptionOf(manifest, "--jpeg"), std::nullopt);
  manifest.made_by["options"] = "--jpeg keep --quality 90";
  EXPECT_EQ(OptionOf(manifest, "--jpeg"), "keep");
  EXPECT_EQ(OptionOf(manifest, "--quality"), "90");
  EXPECT_EQ(OptionOf(manifest, "--qual"), std::nullopt);
}

}  // namespace
}  // namespace shardfeed
