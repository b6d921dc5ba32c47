#include "base/suggestion.h"

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

const std::vector<std::string> kKinds = {"imagefolder", "images", "captions", "files", "csv", "tsv",
                                         "jsonl",       "json",   "text",     "tar",   "idx"};

TEST(Nearest, ForgivesSlips) {
  EXPECT_EQ(Nearest("cvs", kKinds), "csv");                   // swapped
  EXPECT_EQ(Nearest("imagefoldr", kKinds), "imagefolder");    // left out
  EXPECT_EQ(Nearest("image-folder", kKinds), "imagefolder");  // inserted
  EXPECT_EQ(Nearest("jsonk", kKinds), "jsonl");  // replaced, or inserted: the same number
  EXPECT_EQ(Nearest("CSV", kKinds), "csv");
  EXPECT_EQ(Nearest("cap", kKinds), "captions");  // the only one that begins so
}

TEST(Nearest, IsNothingFarFetched) {
  for (const char* given : {"", "x", "parquet", "ima", "lmdb", "xyz"}) {
    EXPECT_EQ(Nearest(given, kKinds), std::nullopt) << given;
  }
  EXPECT_EQ(Nearest("csv", {"csv"}), std::nullopt);  // it is known, so it is no typo
  EXPECT_EQ(Nearest(std::string(1000, 'a'), {std::string(1000, 'a') + "b"}), std::nullopt);
  EXPECT_EQ(Nearest("a", {}), std::nullopt);
}

TEST(Nearest, PrefersTheFewestEdits) {
  EXPECT_EQ(Nearest("trian", {"terrain", "train", "brain"}), "train");
  EXPECT_EQ(Nearest("größe", {"grösse", "größen"}), "größen");
}

TEST(DidYouMean, EndsAMessage) {
  EXPECT_EQ("no csw" + DidYouMean("csw", {"csv"}), "no csw; did you mean 'csv'?");
  EXPECT_EQ("no csw" + DidYouMean("csw", {"images"}), "no csw");
}

}  // namespace
}  // namespace shardfeed
