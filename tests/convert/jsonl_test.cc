#include <memory>
#include <random>
#include <string>
#include <vector>

#include "convert/sources/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/remedy.h"
#include "nlohmann/json.hpp"
#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class JsonlTest : public SourceTest {
 protected:
  static std::unique_ptr<Source> Make(std::vector<std::string> paths, FeatureChoice choice = {}) {
    absl::StatusOr<std::unique_ptr<Source>> source =
        MakeJsonSource(std::move(paths), JsonLayout::kLines, {.choice = std::move(choice)});
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }
  std::unique_ptr<Source> Open(std::string_view content, FeatureChoice choice = {}) {
    return Make({Write("a.jsonl", content)}, std::move(choice));
  }
  std::vector<std::string> Read(std::string_view content) { return Texts(Convert(*Open(content))); }
  void ExpectScanError(std::string_view content, const std::string& message) {
    ExpectError(Scan(*Open(content)), absl::StatusCode::kDataLoss, message);
  }
};

TEST_F(JsonlTest, EachKindOfValueBecomesAFeature) {
  EXPECT_THAT(Read(R"({"i": -3, "f": 0.5, "s": "text", "t": true, "n": null, "e": 1e3})"
                   "\n"),
              ElementsAre("e=float[1000] f=float[0.5] i=int64[-3] s=bytes[text] t=int64[1]"));
}

TEST_F(JsonlTest, ListsBecomeLists) {
  EXPECT_THAT(Read(R"({"i": [1, 2, 3], "f": [1, 2.5], "s": ["a", ""], "b": [true, false, 7]})"),
              ElementsAre("b=int64[1 0 7] f=float[1 2.5] i=int64[1 2 3] s=bytes[a ]"));
}

TEST_F(JsonlTest, ASingleValueGoesWithLists) {
  EXPECT_THAT(Read("{\"a\": 1}\n{\"a\": [2, 3]}\n"), ElementsAre("a=int64[1]", "a=int64[2 3]"));
}

TEST_F(JsonlTest, NestedObjectsGiveDottedNames) {
  EXPECT_THAT(Read(R"({"box": {"x": 1, "size": {"w": 2.5}}, "empty": {}})"),
              ElementsAre("box.size.w=float[2.5] box.x=int64[1]"));
}

TEST_F(JsonlTest, NullAndAbsentKeysAreMissing) {
  EXPECT_THAT(Read("{\"a\": null, \"b\": 1}\n{\"a\": \"x\"}\n{}\n"),
              ElementsAre("b=int64[1]", "a=bytes[x]", ""));
  EXPECT_THAT(Read("{\"a\": null}\n{\"a\": {\"b\": 1}}\n"), ElementsAre("", "a.b=int64[1]"));
}

TEST_F(JsonlTest, IntegersAndOtherNumbersMeetInFloat) {
  EXPECT_THAT(Read("{\"a\": 1, \"b\": true}\n{\"a\": 2.5, \"b\": 0.5}\n"),
              ElementsAre("a=float[1] b=float[1]", "a=float[2.5] b=float[0.5]"));
}

TEST_F(JsonlTest, AnEmptyListHasTheKindOfItsKey) {
  EXPECT_THAT(Read("{\"a\": [], \"b\": [], \"c\": []}\n{\"a\": [1], \"b\": 0.5}\n"),
              ElementsAre("a=int64[] b=float[] c=bytes[]", "a=int64[1] b=float[0.5]"));
}

TEST_F(JsonlTest, UnescapesText) {
  EXPECT_THAT(Read(R"({"k\u00e9y": "a\"\\\n\u20ac\ud83d\ude00\u0000z"})"),
              ElementsAre("k\u00e9y=bytes[a\"\\\n\u20ac\U0001f600\0z]"s));
}

TEST_F(JsonlTest, KeepsTheWholeRangeOfInt64) {
  EXPECT_THAT(Read(R"({"a": [9223372036854775807, -9223372036854775808]})"),
              ElementsAre("a=int64[9223372036854775807 -9223372036854775808]"));
}

TEST_F(JsonlTest, SkipsBlankLinesAndAByteOrderMark) {
  auto source = Open("\xef\xbb\xbf\n{\"a\": 1}\r\n \t\n{\"a\": 2}\n\n");
  EXPECT_THAT(Texts(Convert(*source)), ElementsAre("a=int64[1]", "a=int64[2]"));
  EXPECT_EQ(Items(*source)[1].line, 4);
}

TEST_F(JsonlTest, ReadsSeveralFilesAsOne) {
  auto source = Make({Write("a.jsonl", "{\"a\": 1}\n"), Write("b.jsonl", ""),
                      Write("c.jsonl", "{\"a\": 2.5, \"b\": 1}")});
  EXPECT_THAT(Texts(Convert(*source)), ElementsAre("a=float[1]", "a=float[2.5] b=int64[1]"));
  EXPECT_EQ(source->num_bytes(), 9 + 18);
  EXPECT_EQ(Items(*source)[1].file, 2);
}

TEST_F(JsonlTest, FindsKeysInAnyOrder) {
  EXPECT_THAT(Read("{\"a\": 1, \"b\": 2, \"c\": 3}\n{\"c\": 4, \"a\": 5}\n{\"b\": 6, \"d\": 7, "
                   "\"c\": 8, \"a\": 9}\n"),
              ElementsAre("a=int64[1] b=int64[2] c=int64[3]", "a=int64[5] c=int64[4]",
                          "a=int64[9] b=int64[6] c=int64[8] d=int64[7]"));
}

TEST_F(JsonlTest, NotesKeysThatAreNullEverywhere) {
  auto source = Open("{\"a\": null, \"b\": {\"c\": null, \"d\": 1}}\n{}\n");
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(),
              ElementsAre("2 keys are null everywhere, so no record has these features: \"a\", "
                          "\"b.c\""));
}

TEST_F(JsonlTest, NotesKeysOfEmptyObjects) {
  auto source = Open("{\"a\": {}, \"b\": [{}], \"c\": {\"d\": 1}}\n{\"c\": {}}\n");
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(),
              ElementsAre("2 keys are empty objects everywhere, so no record has these features: "
                          "\"a\", \"b\""));
}

TEST_F(JsonlTest, NotesTruthThatBecomesNumbers) {
  auto source = Open("{\"a\": 1, \"b\": true, \"c\": [2, 0.5]}\n{\"a\": false, \"c\": [true]}\n");
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(),
              ElementsAre(EndsWith("key \"a\": true and false became 1 and 0 beside numbers, first "
                                   "at " +
                                   Path("a.jsonl") + ":2"),
                          HasSubstr("key \"b\": true and false became 1 and 0, first at "),
                          HasSubstr("key \"c\": true and false became 1 and 0 beside numbers")));
  EXPECT_THAT(Texts(Convert(*source)),
              ElementsAre("a=int64[1] b=int64[1] c=float[2 0.5]", "a=int64[0] c=float[1]"));
}

TEST_F(JsonlTest, NamesLineAndColumnOfInvalidJson) {
  ExpectScanError("{\"a\": 1}\n{\"a\": tru}\n", "a.jsonl:2:10: invalid JSON: syntax error");
  ExpectScanError("{\"a\": 1}\n{\"a\": tru}\n", R"(invalid literal; last read: "\"a\": tru}")");
  ExpectScanError("{\"a\": 1\n",
                  "a.jsonl:1:8: invalid JSON: syntax error while parsing object - unexpected end");
  ExpectScanError("{\"a\" 1}\n", "a.jsonl:1:6: invalid JSON: syntax error while parsing object");
  ExpectScanError("{\"a\": 1} {\"b\": 2}\n", "a.jsonl:1:10: invalid JSON: syntax error");
  ExpectScanError("{\"a\": 01}\n", "a.jsonl:1:8: invalid JSON");
  ExpectScanError("{'a': 1}\n", "a.jsonl:1:2: invalid JSON");
  ExpectScanError("{\"a\": nan}\n", "a.jsonl:1:8: invalid JSON");
  ExpectScanError("{\"a\": NaN, \"b\": -Infinity, \"c\": tru}\n", "a.jsonl:1:36: invalid JSON");
  ExpectScanError("{\"a\": \"\t\"}\n", "a.jsonl:1:8: invalid JSON");
  ExpectScanError("{\"a\": \"\\ud800\"}\n", "a.jsonl:1:14: invalid JSON");
  ExpectScanError("{\"a\": 1e999}\n", "a.jsonl:1:11: invalid JSON: number overflow");
}

TEST_F(JsonlTest, KeepsMessagesShort) {
  const absl::Status status = Scan(*Open("{\"a\": \"" + std::string(1 << 20, 'x') + "\n"));
  ExpectError(status, absl::StatusCode::kDataLoss, "a.jsonl:1:1048584: invalid JSON");
  EXPECT_LT(status.message().size(), 500);
}

TEST_F(JsonlTest, NamesALineThatIsNoObject) {
  ExpectScanError("{}\n[1, 2]\n",
                  "a.jsonl:2: got an array, but each line must be a JSON object: \"[1, 2]\"");
  ExpectScanError("{}\n7\n", "a.jsonl:2: got a number, but");
  ExpectScanError("null\n", "a.jsonl:1: got null, but");
  ExpectScanError("\"x\"\n", "a.jsonl:1: got a string, but");
}

TEST_F(JsonlTest, RecognizesOtherLayoutsOfJson) {
  ExpectScanError("[{\"a\": 1}, {\"a\": 2}]\n",
                  "the file starts like an array of objects, which the kind json reads");
  ExpectScanError("[\n  {\"a\": 1}\n]\n", "the file starts like an array of objects");
  ExpectScanError("{\n  \"a\": 1\n}\n", "like an object that spans several lines");
  EXPECT_THAT(std::string(Scan(*Open("{\"a\": 1\n")).message()), Not(HasSubstr("starts like")));
}

TEST_F(JsonlTest, NamesIntegersOutsideOfInt64) {
  ExpectScanError("{\"a\": {\"b\": 18446744073709551615}}\n",
                  "a.jsonl:1: \"a.b\": the integer 18446744073709551615 is outside of int64");
  ExpectScanError("{}\n{\"a\": [1, 123456789012345678901234]}\n",
                  "a.jsonl:2: \"a\": the integer 123456789012345678901234 is outside of int64");
}

TEST_F(JsonlTest, IntegersOutsideOfInt64AreWhatASchemaSays) {
  const std::string content =
      "{\"a\": 18446744073709551616}\n{\"a\": [18446744073709551615, -9223372036854775809]}\n";
  const absl::Status status = Scan(*Open(content));
  ASSERT_TRUE(RemedyOf(status).has_value());
  EXPECT_EQ(RemedyOf(status)->option, "schema");
  EXPECT_EQ(RemedyOf(status)->purpose, "make it bytes (its text) or float");
  EXPECT_THAT(Texts(Convert(*Open(content, {.kinds = {{"a", ColumnKind::kBytes}}}))),
              ElementsAre("a=bytes[18446744073709551616]",
                          "a=bytes[18446744073709551615 -9223372036854775809]"));
  auto source = Open(content, {.kinds = {{"a", ColumnKind::kFloat}}});
  EXPECT_THAT(Texts(Convert(*source)),
              ElementsAre("a=float[1.84467441e+19]", "a=float[1.84467441e+19 -9.22337204e+18]"));
  EXPECT_THAT(source->notes(),
              ElementsAre(HasSubstr("key \"a\": 2 numbers lose digits because floats have 32 bits, "
                                    "the first is 18446744073709551615 at ")));
  ExpectError(Scan(*Open(content, {.kinds = {{"a", ColumnKind::kInt64}}})),
              absl::StatusCode::kDataLoss, "the integer 18446744073709551616 is outside of int64");
}

TEST_F(JsonlTest, MinusZeroAsTextKeepsItsSign) {
  // It stays an integer for other keys, also where it is one of those that are nested.
  const std::string content =
      "{\"b\": [-0, -0.0, 1.0, 1e5, -0], \"i\": -0, \"f\": [0.5, -0], \"n\": [[-0, 1], [-0]]}";
  auto source = Open(content, {.kinds = {{"b", ColumnKind::kBytes}, {"i", ColumnKind::kInt64}}});
  EXPECT_THAT(Texts(Convert(*source)),
              ElementsAre("b=bytes[-0 -0.0 1.0 1e5 -0] f=float[0.5 0] i=int64[0] n=int64[0 1 0] "
                          "n_lengths=int64[2 1]"));
  EXPECT_THAT(source->notes(), testing::IsEmpty());
}

TEST_F(JsonlTest, NumbersAsTextKeepTheirDigits) {
  const FeatureChoice bytes = {.kinds = {{"b", ColumnKind::kBytes}}};
  EXPECT_THAT(Texts(Convert(*Open("{\"a\": [1.10, 1E5, -0], \"b\": [1.10, 1E5, 100, \"x\", true, "
                                  "0.1000000000000000055511, 1e999]}",
                                  bytes))),
              ElementsAre("a=float[1.10000002 100000 0] "
                          "b=bytes[1.10 1E5 100 x true 0.1000000000000000055511 1e999]"));
  ExpectError(Scan(*Open("{\"a\": 1e999}", bytes)), absl::StatusCode::kDataLoss,
              "a.jsonl:1: \"a\": the number 1e999 is outside of float32");
  for (const char* number : {"01", "1.", ".5", "1e", "+1", "1.5.5", "-"}) {
    ExpectError(Scan(*Open("{\"b\": " + std::string(number) + "}", bytes)),
                absl::StatusCode::kDataLoss, "a.jsonl:1:");
  }
}

TEST_F(JsonlTest, TakesNaNAndInfinity) {
  EXPECT_THAT(Read("{\"a\": NaN, \"b\": [1, Infinity, -Infinity], \"c\": \"NaN, Infinity\"}\n"
                   "{\"a\": 1}\n"),
              ElementsAre("a=float[nan] b=float[1 inf -inf] c=bytes[NaN, Infinity]", "a=float[1]"));
  EXPECT_THAT(Texts(Convert(
                  *Open("{\"a\":[NaN,-Infinity, 2.50]}", {.kinds = {{"a", ColumnKind::kBytes}}}))),
              ElementsAre("a=bytes[NaN -Infinity 2.50]"));
  // Not where a number cannot be, nor for integers.
  ExpectScanError("{\"a\": 1NaN}\n", "a.jsonl:1");
  ExpectScanError("{\"a\": --Infinity}\n", "a.jsonl:1:8: invalid JSON");
  ExpectScanError("{NaN: 1}\n", "a.jsonl:1:4: invalid JSON");
  ExpectScanError("{\"a\": \"x\"}\n{\"a\": NaN}\n", "a.jsonl:2: \"a\": a number here, but text at");
  ExpectError(Scan(*Open("{\"a\": NaN}", {.kinds = {{"a", ColumnKind::kInt64}}})),
              absl::StatusCode::kDataLoss,
              "a.jsonl:1: \"a\": expected int64, as the schema says, got \"NaN\"");
}

TEST_F(JsonlTest, NumbersThatBecomeZeroAreNoted) {
  const std::string long_zero = "0." + std::string(400, '0') + "1";
  auto source = Open("{\"a\": [0.0, -0.0, 0e-400, 0.5], \"b\": \"1e-400\"}\n{\"a\": -1e-400}\n" +
                     ("{\"a\": [1E-0400, " + long_zero + ", 1e-50]}\n"));
  EXPECT_THAT(Texts(Convert(*source)),
              ElementsAre("a=float[0 -0 0 0.5] b=bytes[1e-400]", "a=float[-0]", "a=float[0 0 0]"));
  EXPECT_THAT(
      source->notes(),
      ElementsAre("key \"a\": 4 numbers lose digits because floats have 32 bits, the first "
                  "is -1e-400 at " +
                  Path("a.jsonl") +
                  ":2, which becomes 0; declare the key as bytes in a schema to keep them"));
  source = Open("{\"a\": 0.5}\n{\"a\": 1e-50}\n{\"a\": -1e-50}\n");
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(), ElementsAre(HasSubstr("key \"a\": 2 numbers lose digits")));
  // Dashes and zeros of other kinds.
  source = Open("{\"a\": \"e-mail 2024-01-31\", \"b\": 1e-12, \"c\": \"" + std::string(300, '0') +
                "\"}\n");
  EXPECT_THAT(source->notes(), testing::IsEmpty());
}

// The parser stands a number in for NaN, which must not be mistaken for the same number of the
// text.
TEST_F(JsonlTest, NoNumberStandsForNaN) {
  EXPECT_THAT(Read("{\"a\": [1.2345678987654e-250, NaN]}"), ElementsAre("a=float[0 nan]"));
}

TEST_F(JsonlTest, NotesNumbersThatLoseDigits) {
  auto source = Open(
      "{\"a\": 16777217.0, \"b\": 16777217, \"c\": 16777217, \"d\": 0.1}\n"
      "{\"a\": [1700000001.5, 0.5, 1e20], \"b\": 3, \"c\": 0.5, \"d\": 31.95376472}\n");
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(
      source->notes(),
      ElementsAre(
          "key \"a\": 2 numbers lose digits because floats have 32 bits, the first is "
          "16777217 at " +
              Path("a.jsonl") +
              ":1, which becomes 16777216; declare the key as bytes in a schema to keep them",
          "key \"c\": 1 number loses digits because floats have 32 bits, the first is "
          "16777217 at " +
              Path("a.jsonl") +
              ":1, which becomes 16777216; declare the key as bytes in a schema to keep them"));
}

TEST_F(JsonlTest, LeftOutRecordsAreNotInTheNotes) {
  auto source = Open("{\"a\": 0.5}\n{\"a\": 16777217.0, \"a\": 1}\n{\"a\": 16777219}\n");
  source->SkipDefects([](const absl::Status&, uint64_t) {});
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(),
              ElementsAre(HasSubstr("key \"a\": 1 number loses digits because "
                                    "floats have 32 bits, the first is 16777219 at " +
                                    Path("a.jsonl") + ":3")));
}

TEST_F(JsonlTest, NamesNumbersOutsideOfFloat32) {
  ExpectScanError("{\"a\": 1e39}\n", "a.jsonl:1: \"a\": the number 1e+39 is outside of float32");
}

TEST_F(JsonlTest, NamesBothLinesWhereTextMeetsNumbers) {
  ExpectScanError("{\"a\": null}\n{\"a\": []}\n{\"a\": 1}\n{\"a\": 1.5}\n{\"a\": \"x\"}\n",
                  "a.jsonl:5: \"a\": text here, but a number at " + Path("a.jsonl") + ":3");
  ExpectError(Scan(*Make({Write("a.jsonl", "{\"a\": {\"b\": \"x\"}}"),
                          Write("b.jsonl", "\n{\"a\": {\"b\": [true]}}")})),
              absl::StatusCode::kDataLoss,
              "b.jsonl:2: \"a.b\": a number here, but text at " + Path("a.jsonl") + ":1");
}

TEST_F(JsonlTest, NamesBothLinesWhereAnObjectMeetsAValue) {
  ExpectScanError(
      "{\"a\": 1}\n{\"a\": {\"b\": 1}}\n",
      "a.jsonl:2: \"a\": an object here, but a value or list at " + Path("a.jsonl") + ":1");
  ExpectScanError(
      "{\"a\": {}}\n{\"a\": []}\n",
      "a.jsonl:2: \"a\": a value or list here, but an object at " + Path("a.jsonl") + ":1");
}

TEST_F(JsonlTest, NamesListsThatNoFeatureCanHold) {
  ExpectScanError("{\"a\": [1, null]}\n", "a.jsonl:1: \"a\": null in a list");
  ExpectScanError("{\"a\": [1, \"x\"]}\n", "a.jsonl:1: \"a\": text and numbers in one list");
}

TEST_F(JsonlTest, RefusesKeysThatCannotNameFeatures) {
  ExpectScanError("{\"a\": 1, \"a\": 2}\n", "a.jsonl:1: the key \"a\" appears twice in one object");
  ExpectScanError("{\"a\": null, \"a\": 2}\n", "the key \"a\" appears twice");
  ExpectScanError("{\"b\": {\"a\": 1, \"a\": 2}}\n", "the key \"b.a\" appears twice");
  ExpectScanError("{\"\": 1}\n", "a.jsonl:1: an empty key");
  ExpectScanError("{\"a\": {\"\": 1}}\n", "a.jsonl:1: an empty key in \"a\"");
  ExpectScanError("{\"a.b\": 1, \"a\": {\"b\": 2}}\n",
                  "a.jsonl:1: two keys give the feature name \"a.b\"");
}

TEST_F(JsonlTest, RefusesKeysThatAreData) {
  std::string content;
  for (int i = 0; i <= 100000; ++i) content += "{\"user" + std::to_string(i) + "\": 1}\n";
  ExpectScanError(content, "a.jsonl:100001: more than 100000 different keys");
}

TEST_F(JsonlTest, RefusesDeepNesting) {
  std::string line;
  for (int i = 0; i < 5000; ++i) line += "{\"a\":";
  ExpectScanError(line + "1" + std::string(5000, '}'), "a.jsonl:1: ");
}

TEST_F(JsonlTest, RefusesAnEmptyInput) {
  ExpectScanError("", "a.jsonl: no records: every line is blank");
  ExpectScanError("\n  \n", "a.jsonl: no records");
  ExpectScanError("{\"a\": \"\xff\"}\n", "a.jsonl:1: not UTF-8 at byte 7");
  ExpectScanError("\xff\xfe{\0}\0\n\0"s,
                  "a.jsonl: looks like UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)");
  ExpectError(MakeJsonSource({}, JsonLayout::kLines).status(), absl::StatusCode::kInvalidArgument,
              "expected JSON files");
  ExpectError(Scan(*Make({Path("none.jsonl")})), absl::StatusCode::kNotFound, "none.jsonl");
}

TEST_F(JsonlTest, NoticesThatAFileChanged) {
  auto source = Open("{\"a\": 1}\n");
  ASSERT_TRUE(Scan(*source).ok());
  for (const char* line :
       {"{\"a\": \"x\"}", "{\"b\": 1}", "{\"a\": {}}", "{\"a\": 1.5}", "{", "[]"}) {
    const absl::Status status = BuildItem(*source, {line, 0, 1}).status();
    ExpectError(status, absl::StatusCode::kFailedPrecondition, "a.jsonl: changed while");
  }
  Write("a.jsonl", "{\"a\": 1}\n{}\n");
  ExpectError(source->ForEach([](const Item&) { return absl::OkStatus(); }),
              absl::StatusCode::kFailedPrecondition, "a.jsonl: changed while");
}

TEST_F(JsonlTest, StopsAtTheFirstErrorOfTheSink) {
  auto source = Open("{}\n{}\n");
  ASSERT_TRUE(Scan(*source).ok());
  ExpectError(source->ForEach([](const Item&) { return absl::UnavailableError("full"); }),
              absl::StatusCode::kUnavailable, "full");
}

// Random objects, written by another implementation, larger together than the read buffer.
TEST_F(JsonlTest, ReadsBackRandomObjects) {
  std::mt19937 random(1);
  const auto text = [&random] {
    std::string value;
    for (int n = random() % 12; n > 0; --n) {
      value += std::vector<std::string>{
          "a", "\"", "\\", "\n", "\u20ac", "\U0001f600", " "}[random() % 7];
    }
    return value;
  };
  std::string content;
  std::vector<std::string> expected;
  for (int i = 0; i < 20000; ++i) {
    nlohmann::ordered_json object;
    std::vector<std::string> parts;
    if (random() % 4 != 0) {
      const int64_t value = static_cast<int64_t>(random()) - (int64_t{1} << 31);
      object["int"] = value;
      parts.push_back("int=int64[" + std::to_string(value) + "]");
    }
    if (random() % 4 != 0) {
      nlohmann::ordered_json list = nlohmann::ordered_json::array();
      std::string values;
      for (int n = random() % 4; n > 0; --n) {
        list.push_back(text());
        values += (values.empty() && list.size() == 1 ? "" : " ") + list.back().get<std::string>();
      }
      // The fixture's text does not distinguish an empty first value from none.
      if (list.empty() || !list[0].get<std::string>().empty()) {
        object["list"] = list;
        parts.push_back("list=bytes[" + values + "]");
      }
    }
    if (random() % 4 != 0) {
      const std::string value = text();
      object["outer"]["inner"] = value;
      parts.push_back("outer.inner=bytes[" + value + "]");
    }
    content += (object.is_null() ? "{}" : object.dump(-1, ' ', random() % 2 == 0)) + "\n";
    std::string line;
    for (const std::string& part : parts) line += (line.empty() ? "" : " ") + part;
    expected.push_back(line);
  }
  ASSERT_EQ(Texts(Convert(*Open(content))), expected);
}

// Any bytes result in records or an error, and nothing that the first pass accepted fails in Build.
TEST_F(JsonlTest, SurvivesGarbage) {
  std::mt19937 random(1);
  const std::string sound = R"({"a": [1, 2.5], "b": {"c": "x\u00e9", "d": null}, "e": true})";
  for (int i = 0; i < 3000; ++i) {
    std::string content = sound + "\n" + sound + "\n";
    for (int change = random() % 4; change >= 0; --change) {
      content[random() % content.size()] = "{}[]\",:\\x1.e-\n\xc3"[random() % 16];
    }
    auto source = Open(content);
    if (Scan(*source).ok()) {
      EXPECT_EQ(Convert(*source).size(), source->num_records());
    }
  }
}

TEST_F(JsonlTest, AKeyNamesTheSplits) {
  const auto make = [this](std::string_view content) {
    return *MakeJsonSource({Write("a.jsonl", content)}, JsonLayout::kLines,
                           {.split_key = "of.split"});
  };
  auto source =
      make("{\"i\": 1, \"of\": {\"split\": \"val\"}}\n{\"i\": 2, \"of.split\": \"train\"}\n");
  ASSERT_TRUE(Scan(*source).ok());
  ASSERT_EQ(source->splits().size(), 2);
  EXPECT_EQ(source->splits()[1].name, "train");
  const std::vector<Kept> items = Items(*source);
  EXPECT_EQ(*source->SplitOf({.bytes = items[1].bytes}), 1);
  // Folds are often numbered.
  source = make("{\"of\": {\"split\": 3}}\n{\"of\": {\"split\": 0}}\n");
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_EQ(source->splits()[0].name, "3");
  ExpectError(Scan(*make("{\"of\": {\"split\": \"a\"}}\n{\"i\": 1}\n")),
              absl::StatusCode::kDataLoss,
              "a.jsonl:2: no value in \"of.split\", which names the split");
  ExpectError(Scan(*make("{\"of\": {\"split\": null}}\n")), absl::StatusCode::kDataLoss,
              "a.jsonl:1: no value in \"of.split\"");
  ExpectError(Scan(*make("{\"of\": {\"split\": 0.5}}\n")), absl::StatusCode::kDataLoss,
              "a.jsonl:1: \"of.split\": expected text or an integer that names the split, got "
              "\"0.5\"");
  // -0 is the integer, also if a schema says bytes of another key.
  source = *MakeJsonSource(
      {Write("b.jsonl", "{\"of\": {\"split\": -0}, \"b\": -0}\n")}, JsonLayout::kLines,
      {.choice = {.kinds = {{"b", ColumnKind::kBytes}}}, .split_key = "of.split"});
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_EQ(source->splits()[0].name, "0");
  source = make("{\"i\": 1, \"of\": {\"split\": \"a\"}}\n{\"i\": \"x\"}\n");
  uint64_t num_defects = 0;
  source->SkipDefects([&](const absl::Status&, uint64_t records) { num_defects += records; });
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_EQ(num_defects, 1);
  EXPECT_EQ(source->num_records(), 1);
}

}  // namespace
}  // namespace shardfeed
