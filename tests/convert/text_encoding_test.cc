#include "convert/input/text_encoding.h"

#include <string>

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;

// Converts the text, and appends what happened to the rest: "+2" for two bytes that are left, "!"
// before an invalid character.
std::string Convert(TextEncoding encoding, const std::string& text) {
  std::string out(text.size() * kMaxUtf8PerByte, 'x');
  const ConvertedText converted = ConvertToUtf8(encoding, text, out.data());
  out.resize(converted.written);
  if (!converted.valid) return out + "!";
  const size_t left = text.size() - converted.read;
  return left == 0 ? out : out + "+" + std::to_string(left);
}

TEST(TextEncodingTest, ConvertsSingleBytes) {
  EXPECT_EQ(Convert(TextEncoding::kLatin1, "a\xe4\x80\xff"), "a\u00e4\u0080\u00ff");
  EXPECT_EQ(Convert(TextEncoding::kWindows1252, "a\xe4\x80\x9f\x81"), "a\u00e4\u20ac\u0178\u0081");
  EXPECT_EQ(Convert(TextEncoding::kLatin1, ""), "");
}

TEST(TextEncodingTest, ConvertsPairsOfBytes) {
  EXPECT_EQ(Convert(TextEncoding::kUtf16Le, "a\0\xe4\0\xac\x20\x3d\xd8\x00\xde"s),
            "a\u00e4\u20ac\U0001f600");
  EXPECT_EQ(Convert(TextEncoding::kUtf16Be, "\0a\0\xe4\x20\xac\xd8\x3d\xde\x00"s),
            "a\u00e4\u20ac\U0001f600");
}

TEST(TextEncodingTest, FindsEncodingsOfWideUnits) {
  EXPECT_EQ(FindWideEncoding("\xff\xfeh\0"s), "UTF-16");
  EXPECT_EQ(FindWideEncoding("\xfe\xff\0h"s), "UTF-16");
  EXPECT_EQ(FindWideEncoding("\xff\xfe\0\0h\0\0\0"s), "UTF-32");
  EXPECT_EQ(FindWideEncoding("\0\0\xfe\xff\0\0\0h"s), "UTF-32");
  EXPECT_EQ(FindWideEncoding("h\0i\0"s), "UTF-16LE");
  EXPECT_EQ(FindWideEncoding("\0h\0i"s), "UTF-16BE");
  EXPECT_EQ(FindWideEncoding("h\0\0\0i\0\0\0"s), "UTF-32LE");
  EXPECT_EQ(FindWideEncoding("\0\0\0h\0\0\0i"s), "UTF-32BE");
  for (const std::string& text : {""s, "hi"s, "h\0i"s, "\0\0\0\0\0\0\0\0"s, "\xef\xbb\xbfhi"s}) {
    EXPECT_EQ(FindWideEncoding(text), "") << text;
  }
}

TEST(TextEncodingTest, StopsBeforeACharacterThatIsCutOrInvalid) {
  EXPECT_EQ(Convert(TextEncoding::kUtf16Le, "a\0b"s), "a+1");
  EXPECT_EQ(Convert(TextEncoding::kUtf16Le, "a\0\x3d\xd8"s), "a+2");
  EXPECT_EQ(Convert(TextEncoding::kUtf16Le, "a\0\x3d\xd8\0"s), "a+3");
  EXPECT_EQ(Convert(TextEncoding::kUtf16Le, "a\0\x3d\xd8z\0"s), "a!");
  EXPECT_EQ(Convert(TextEncoding::kUtf16Le, "a\0\x00\xde"s), "a!");
}

TEST(TextEncodingTest, TellsWindows1252FromOtherEncodings) {
  for (const char* text : {
           "f\xfcnf gro\xdf"
           "e \xc4pfel\n",                          // German
           "l\x92\xe9t\xe9 \xe0 la mer, 5 \x80\n",  // French
           "\xab"
           "CAF\xc9\xbb, d\xe9j\xe0\x85\n",  // capitals before a quote
           "\x93"
           "a\xf1o\x94\x85 \xbfqu\xe9?",  // Spanish
           "20 \xb0"
           "C, \xb1"
           "5 m\xb2K, na\xefve, Brand\xaex",
           "Citro\xebn,\xe0,\xe9",  // words of a letter
           "Caf\xe9",
       }) {
    EXPECT_TRUE(LooksLikeWindows1252(text)) << text;
  }
  for (const char* text : {
           "plain text\n",
           "f\xc3\xbcnf gro\xdf"
           "e\n",                                     // UTF-8 with damage
           "Hello \xed\xa0\xbd\xed\xb8\x80 world\n",  // surrogates, as some databases export them
           "Mr Muell\xc3\n",                          // characters of UTF-8 that are cut
           "price 5 \xe2\x82\n", "caf\xe2\x80\n", "\xc0\x80 end\n",
           "a\x81"
           "b\xe9",                                    // an undefined byte
           "caf\xe9\x01",                              // binary
           "x,\xff,1\n2,3,4\n",                        // a stray byte
           "\xf0\xd2\xc9\xd7\xc5\xd4 \xcd\xc9\xd2\n",  // Russian in KOI8-R
           "\xcf\xf0\xe8\xe2\xe5\xf2 \xec\xe8\xf0\n",  // and in Windows-1251
           "\x83"
           "e\x83X\x83g",                       // Japanese in Shift-JIS
           "\xc4\xe3\xba\xc3\xca\xc0\xbd\xe7",  // Chinese in GBK
           "Zaj\xb9"
           "c i \xbf\xf3\xb3w",  // Polish in Windows-1250
       }) {
    EXPECT_FALSE(LooksLikeWindows1252(text)) << text;
  }
}

TEST(TextEncodingTest, FindsWhatWindows1252DoesNotHave) {
  EXPECT_EQ(FindUnlikeWindows1252("f\xfcnf CAF\xc9\xbb \xc3"), std::nullopt);
  EXPECT_EQ(FindUnlikeWindows1252("f\xfcnf \x9d"), 5u);
  EXPECT_EQ(FindUnlikeWindows1252("f\xfcnf \xc3\xbc"), 5u);
  EXPECT_EQ(FindUnlikeWindows1252("5 \xe2\x82\xac"), 2u);
  EXPECT_EQ(FindUnlikeWindows1252("\xf0\x9f\x98\x80"), 0u);
}

TEST(TextEncodingTest, KnowsUsualNames) {
  EXPECT_EQ(ParseTextEncoding("UTF-8"), TextEncoding::kUtf8);
  EXPECT_EQ(ParseTextEncoding("Latin-1"), TextEncoding::kLatin1);
  EXPECT_EQ(ParseTextEncoding("cp1252"), TextEncoding::kWindows1252);
  EXPECT_EQ(ParseTextEncoding("utf-16be"), TextEncoding::kUtf16Be);
  EXPECT_EQ(ParseTextEncoding("shift-jis"), std::nullopt);
}

}  // namespace
}  // namespace shardfeed
