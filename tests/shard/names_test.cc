#include "shard/names/names.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

#include "shard/spec/spec.h"

namespace shardfeed {
namespace {

TEST(NoteOnSuffix, TellsOfAnotherCompression) {
  EXPECT_EQ(NoteOnSuffix(".tfrecord.gz", "none"),
            "the suffix .gz does not choose a compression: the shards are not compressed");
  EXPECT_EQ(NoteOnSuffix(".zip", "zlib"),
            "the suffix .zip does not choose a compression: the shards are compressed with zlib");
  for (const char* suffix : {"", ".tfrecord", ".gz.tfrecord"}) {
    EXPECT_EQ(NoteOnSuffix(suffix, "none"), "");
    EXPECT_EQ(NoteOnSuffix(suffix, "gzip"), "");
  }
  EXPECT_EQ(NoteOnSuffix(".GZ", "none"),
            "the suffix .GZ does not choose a compression: the shards are not compressed");
  EXPECT_EQ(NoteOnSuffix(".gzip", "zlib"),
            "the suffix .gzip does not choose a compression: the shards are compressed with zlib");
  for (const char* suffix : {".gz", ".Gz", ".gzip", ".GZIP"}) {
    EXPECT_EQ(NoteOnSuffix(suffix, "gzip"), "");
  }
  EXPECT_EQ(NoteOnSuffix(".zlib", "zlib"), "");
}

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

// Whatever a writer can be told to write can be read back.
TEST(ShardName, EveryNameThatOutputSpecsAllowIsReadBack) {
  std::mt19937_64 random(1);
  const std::string_view pieces[] = {"a",    "-", ".",       "00000", "-00001-of-00002",
                                     "-of-", "7", "tfrecord"};
  const auto text = [&](size_t most) {
    std::string result;
    for (size_t n = random() % (most + 1); n > 0; --n) {
      result += pieces[random() % std::size(pieces)];
    }
    return result;
  };
  int allowed = 0;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t count = 1 + random() % kMaxShards;
    const std::string suffix = text(3);
    const std::string written =
        FormatSpec("out", text(5), count, suffix.empty() ? suffix : "." + suffix);
    const auto spec = ParseOutputSpec(written);
    if (!spec.ok()) continue;
    ++allowed;
    const uint64_t index = random() % count;
    const std::string name = ShardName(spec->stem, index, *spec->count, spec->suffix);
    const auto parsed = ParseShardName(name);
    ASSERT_TRUE(parsed) << name;
    EXPECT_EQ(parsed->stem, spec->stem);
    EXPECT_EQ(parsed->index, index);
    EXPECT_EQ(parsed->count, count);
    EXPECT_EQ(parsed->suffix, spec->suffix);
    EXPECT_EQ(FormatSpec(spec->directory, spec->stem, spec->count, spec->suffix), written);
  }
  EXPECT_GT(allowed, 1000);
}

TEST(ShardName, MoreDigitsThanNeededAreRead) {
  const auto parsed = ParseShardName("data-0000003-of-0000010.gz");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->index, 3);
  EXPECT_EQ(parsed->count, 10);
  EXPECT_EQ(parsed->suffix, ".gz");
}

TEST(ShardName, OthersAreNotShards) {
  for (const char* name : {"data", "data-1-of-2", "data-00001-of-", "-00001-of-00002",
                           "data-00001-of-00002x", "data_00001-of-00002", "data-00001-of-00002.",
                           "data-00001-of-99999999999999999999999", "", "-of-"}) {
    EXPECT_FALSE(ParseShardName(name)) << name;
  }
}

TEST(Sidecars, LiveInAHiddenFolder) {
  EXPECT_EQ(IndexPath("out/train-00000-of-00001"), "out/.shardfeed/train-00000-of-00001.index");
  EXPECT_EQ(IndexPath("a"), ".shardfeed/a.index");
  EXPECT_EQ(ManifestPath("out", "train"), "out/.shardfeed/train.manifest.json");
  EXPECT_EQ(IndexPackPath("out", "train"), "out/.shardfeed/train.indexes");
  EXPECT_EQ(StagingPath("out", "train"), "out/.shardfeed/train.incomplete");
}

}  // namespace
}  // namespace shardfeed
