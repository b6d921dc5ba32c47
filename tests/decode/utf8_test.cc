#include "decode/features/utf8.h"

#include <string>

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;

constexpr size_t kNone = std::string_view::npos;

TEST(Utf8Test, TextIsFine) {
  for (const std::string& text :
       {""s, "plain"s, "\0"s, "\xc3\xa9t\xc3\xa9"s, "\xe2\x82\xac"s, "\xed\x9f\xbf\xee\x80\x80"s,
        "\xf0\x9f\x98\x80"s, "\xf4\x8f\xbf\xbf"s, "\xef\xbb\xbfwith a mark"s}) {
    EXPECT_EQ(FindInvalidUtf8(text), kNone) << text;
  }
}

TEST(Utf8Test, WhereItIsNot) {
  const std::string before = "0123456789 0123456789 \xc3\xa9 ";
  for (const std::string& bad :
       {"\x80"s, "\xc3"s, "\xc0\xaf"s, "\xc1\xbf"s, "\xe0\x9f\xbf"s, "\xe2\x82"s, "\xe2\x28\xa1"s,
        "\xed\xa0\x80"s, "\xf0\x8f\xbf\xbf"s, "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s, "\xff"s}) {
    EXPECT_EQ(FindInvalidUtf8(bad), 0);
    EXPECT_EQ(FindInvalidUtf8(before + bad), before.size());
    EXPECT_EQ(FindInvalidUtf8(before + bad + before), before.size());
  }
}

}  // namespace
}  // namespace shardfeed
