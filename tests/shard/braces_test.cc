#include "shard/names/braces.h"

#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Names(std::string_view text) {
  auto names = ExpandBraces(text);
  EXPECT_OK(names);
  return names.ok() ? *names : std::vector<std::string>();
}

TEST(Braces, NumbersCountWithTheirZeros) {
  EXPECT_THAT(Names("a-{8..11}.tar"), ElementsAre("a-8.tar", "a-9.tar", "a-10.tar", "a-11.tar"));
  EXPECT_THAT(Names("{08..11}"), ElementsAre("08", "09", "10", "11"));
  EXPECT_THAT(Names("{8..011}"), ElementsAre("008", "009", "010", "011"));
  EXPECT_THAT(Names("{2..0}"), ElementsAre("2", "1", "0"));
  EXPECT_THAT(Names("{3..3}"), ElementsAre("3"));
}

TEST(Braces, ListsAndSeveralBraces) {
  EXPECT_THAT(Names("{a,,bc}/x"), ElementsAre("a/x", "/x", "bc/x"));
  EXPECT_THAT(Names("s3://b/{a,b}-{0..1}.tar"),
              ElementsAre("s3://b/a-0.tar", "s3://b/a-1.tar", "s3://b/b-0.tar", "s3://b/b-1.tar"));
}

TEST(Braces, LettersAndSteps) {
  EXPECT_THAT(Names("{a..c}.tar"), ElementsAre("a.tar", "b.tar", "c.tar"));
  EXPECT_THAT(Names("{00..05..2}"), ElementsAre("00", "02", "04"));
  EXPECT_THAT(Names("{5..0..2}"), ElementsAre("5", "3", "1"));
  EXPECT_THAT(Names("{5..0..-2}"), ElementsAre("5", "3", "1"));
  EXPECT_THAT(Names("{1..2..0}"), ElementsAre("1", "2"));
}

TEST(Braces, BracesWithinBraces) {
  EXPECT_THAT(Names("{a,{b,c}}"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Names("{{a,b},c}.tar"), ElementsAre("a.tar", "b.tar", "c.tar"));
  EXPECT_THAT(Names("{x-{1..2},y}/z"), ElementsAre("x-1/z", "x-2/z", "y/z"));
  EXPECT_THAT(Names("{{1..2}}"), ElementsAre("{1}", "{2}"));
}

TEST(Braces, OthersStay) {
  for (const char* text : {"", "plain", "{", "}", "{}", "}{", "{a}", "{a..bc}", "{1..}", "x{1..2",
                           "{1..2..}", "{1..2..3..4}", "{-1..2}"}) {
    EXPECT_THAT(Names(text), ElementsAre(text));
  }
  EXPECT_THAT(Names("{x}{1..2}"), ElementsAre("{x}1", "{x}2"));
  EXPECT_THAT(Names("{a{1..2}"), ElementsAre("{a1", "{a2"));
}

TEST(Braces, TooManyAreRefused) {
  EXPECT_EQ(Names("{1..1000000}").size(), 1000000u);
  EXPECT_FAILS(ExpandBraces("a{0..1000000}"), kInvalidArgument,
               "{0..1000000}: stands for more than 1000000 names");
  EXPECT_FAILS(ExpandBraces("{0..18446744073709551615}"), kInvalidArgument, "more than 1000000");
  EXPECT_FAILS(ExpandBraces("{1..1001}{1..1000}"), kInvalidArgument,
               "{1..1001}{1..1000}: stands for more than 1000000 names");
  EXPECT_FAILS(ExpandBraces(std::string(101, '{')), kInvalidArgument,
               "more than 100 pairs of braces");
}

}  // namespace
}  // namespace shardfeed
