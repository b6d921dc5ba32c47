#include "base/excerpt.h"

#include <string>

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

TEST(ExcerptTest, QuotesTextAsItIs) {
  EXPECT_EQ(Excerpt(""), "\"\"");
  EXPECT_EQ(Excerpt("gr\u00f6\u00dfe"), "\"gr\u00f6\u00dfe\"");
}

TEST(ExcerptTest, EscapesWhatWouldBreakAMessage) {
  EXPECT_EQ(Excerpt("a\"b\\c\n\r\t\x01\x7f"), R"("a\"b\\c\n\r\t\x01\x7f")");
  EXPECT_EQ(Excerpt("\xff\xc3"), R"("\xff\xc3")");
}

TEST(ExcerptTest, CutsBetweenCharacters) {
  EXPECT_EQ(Excerpt("abcdef", 3), "\"abc...\"");
  EXPECT_EQ(Excerpt("abc", 3), "\"abc\"");
  EXPECT_EQ(Excerpt("a\u20ac\u20ac", 3), "\"a...\"");
  EXPECT_EQ(Excerpt("a\u20ac\u20ac", 4), "\"a\u20ac...\"");
}

}  // namespace
}  // namespace shardfeed
