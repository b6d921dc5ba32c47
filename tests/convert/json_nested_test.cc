// Lists of lists and of objects in JSON: flat values and the lengths of the lists.

#include <random>
#include <string>
#include <vector>

#include "convert/sources/json.h"
#include "nlohmann/json.hpp"
#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JsonNestedTest : public SourceTest {
 protected:
  std::unique_ptr<Source> Open(std::string_view content, FeatureChoice choice = {}) {
    return *MakeJsonSource({Write("a.jsonl", content)}, JsonLayout::kLines,
                           {.choice = std::move(choice)});
  }
  std::vector<std::string> Read(std::string_view content) { return Texts(Convert(*Open(content))); }
  void ExpectScanError(std::string_view content, const std::string& message) {
    ExpectError(Scan(*Open(content)), absl::StatusCode::kDataLoss, message);
  }
};

TEST_F(JsonNestedTest, ListsOfLists) {
  EXPECT_THAT(
      Read("{\"boxes\": [[1, 2, 3, 4], [], [5]], \"t\": [[\"a\"], [\"b\", \"c\"]]}\n"
           "{\"boxes\": []}\n"
           "{\"boxes\": [[]]}\n"
           "{\"boxes\": null}\n"
           "{\"boxes\": [[0.5]]}\n"),
      ElementsAre("boxes=float[1 2 3 4 5] boxes_lengths=int64[4 0 1] t=bytes[a b c] "
                  "t_lengths=int64[1 2]",
                  "boxes=float[] boxes_lengths=int64[]", "boxes=float[] boxes_lengths=int64[0]", "",
                  "boxes=float[0.5] boxes_lengths=int64[1]"));
}

TEST_F(JsonNestedTest, DeeperListsHaveALengthsFeatureForEachLevel) {
  EXPECT_THAT(Read("{\"x\": [[[1, 2], [3]], [], [[4]]]}\n{\"x\": [[]]}\n{\"x\": [[[]]]}\n"),
              ElementsAre("x=int64[1 2 3 4] x_lengths=int64[2 1 1] x_lengths_lengths=int64[2 0 1]",
                          "x=int64[] x_lengths=int64[] x_lengths_lengths=int64[0]",
                          "x=int64[] x_lengths=int64[0] x_lengths_lengths=int64[1]"));
  const std::string eight = "{\"x\": [[[[[[[[1]]]]]]]]}\n";
  EXPECT_THAT(Read(eight), ElementsAre(HasSubstr("x_lengths_lengths_lengths_lengths")));
  ExpectScanError("{\"x\": [[[[[[[[[1]]]]]]]]]}\n",
                  "a.jsonl:1: \"x\": lists are nested more than 8 deep");
  ExpectScanError("{\"x\": " + std::string(5000, '[') + std::string(5000, ']') + "}",
                  "a.jsonl:1: ");
}

TEST_F(JsonNestedTest, ListsThatAreEmptyEverywhere) {
  EXPECT_THAT(Read("{\"x\": [[], []]}\n{\"x\": []}\n"),
              ElementsAre("x=bytes[] x_lengths=int64[0 0]", "x=bytes[] x_lengths=int64[]"));
}

TEST_F(JsonNestedTest, ListsOfObjects) {
  EXPECT_THAT(
      Read(R"({"o": [{"x": 1, "b": [1.5, 2]}, {"x": 2, "b": []}, {"x": null, "s": "t"}, {}]})"
           "\n"
           R"({"o": []})"
           "\n{}\n"
           R"({"o": [{"y": true}]})"
           "\n"),
      ElementsAre("o.b=float[1.5 2] o.b_lengths=int64[2 0 0 0] o.s=bytes[t] "
                  "o.s_lengths=int64[0 0 1 0] o.x=int64[1 2] o.x_lengths=int64[1 1 0 0] "
                  "o.y=int64[] o.y_lengths=int64[0 0 0 0]",
                  "o.b=float[] o.b_lengths=int64[] o.s=bytes[] o.s_lengths=int64[] o.x=int64[] "
                  "o.x_lengths=int64[] o.y=int64[] o.y_lengths=int64[]",
                  "",
                  "o.b=float[] o.b_lengths=int64[0] o.s=bytes[] o.s_lengths=int64[0] o.x=int64[] "
                  "o.x_lengths=int64[0] o.y=int64[1] o.y_lengths=int64[1]"));
}

TEST_F(JsonNestedTest, ListsOfObjectsInObjectsAndLists) {
  EXPECT_THAT(Read(R"({"a": {"o": [{"p": {"x": 1}}, {"p": null}, {"q": [{"y": 1}, {"y": 2}]}]}})"
                   "\n"
                   R"({"a": {"o": [{"q": []}, {"q": [{"y": [3, 4]}, {}], "p": {}}]}})"
                   "\n"),
              ElementsAre("a.o.p.x=int64[1] a.o.p.x_lengths=int64[1 0 0] a.o.q.y=int64[1 2] "
                          "a.o.q.y_lengths=int64[1 1] a.o.q.y_lengths_lengths=int64[0 0 2]",
                          "a.o.p.x=int64[] a.o.p.x_lengths=int64[0 0] a.o.q.y=int64[3 4] "
                          "a.o.q.y_lengths=int64[2 0] a.o.q.y_lengths_lengths=int64[0 2]"));
  EXPECT_THAT(Read(R"({"o": [{"s": [[1, 2], [3]]}, {"s": [[4]]}]})"),
              ElementsAre("o.s=int64[1 2 3 4] o.s_lengths=int64[2 1 1] "
                          "o.s_lengths_lengths=int64[2 1]"));
}

TEST_F(JsonNestedTest, AnEmptyListMayPrecedeAListOfAnything) {
  EXPECT_THAT(Read("{\"o\": []}\n{\"o\": [{\"x\": 1}]}\n"),
              ElementsAre("o.x=int64[] o.x_lengths=int64[]", "o.x=int64[1] o.x_lengths=int64[1]"));
  EXPECT_THAT(
      Read("{\"o\": [{\"e\": []}, {\"e\": [{\"x\": 1}]}]}\n"),
      ElementsAre("o.e.x=int64[1] o.e.x_lengths=int64[1] o.e.x_lengths_lengths=int64[0 1]"));
  ExpectScanError(
      "{\"o\": []}\n{\"o\": {}}\n",
      "a.jsonl:2: \"o\": an object here, but a value or list at " + Path("a.jsonl") + ":1");
}

TEST_F(JsonNestedTest, ContradictionsNameBothPlaces) {
  const std::string at = " at " + Path("a.jsonl") + ":1";
  ExpectScanError("{\"a\": [1]}\n{\"a\": [[1]]}\n",
                  "a.jsonl:2: \"a\": a list of lists here, but a value or a list of values" + at);
  ExpectScanError("{\"a\": [[1]]}\n{\"a\": 1}\n",
                  "a.jsonl:2: \"a\": a value or a list of values here, but a list of lists" + at);
  ExpectScanError("{\"a\": [[[1]]]}\n{\"a\": [[1]]}\n",
                  "\"a\": a list of lists here, but lists nested 3 deep" + at);
  ExpectScanError("{\"a\": [[]]}\n{\"a\": 1}\n",
                  "\"a\": a value or a list of values here, but a list");
  ExpectScanError("{\"a\": 1}\n{\"a\": [[]]}\n", "\"a\": a list of lists here, but a value");
  ExpectScanError("{\"a\": [{}]}\n{\"a\": [1]}\n",
                  "a.jsonl:2: \"a\": a value or list here, but a list of objects" + at);
  ExpectScanError("{\"a\": {}}\n{\"a\": [{}]}\n",
                  "a.jsonl:2: \"a\": a list of objects here, but an object" + at);
  ExpectScanError("{\"a\": [{\"b\": 1}]}\n{\"a\": [{\"b\": \"x\"}]}\n",
                  "a.jsonl:2: \"a.b\": text here, but a number" + at);
}

TEST_F(JsonNestedTest, MixedListsAreRefused) {
  ExpectScanError("{\"a\": [1, [2]]}\n",
                  "a.jsonl:1: \"a\": values and lists of values in one list");
  ExpectScanError("{\"a\": [[1], 2]}\n", "\"a\": values and lists of values in one list");
  ExpectScanError("{\"a\": [[1], [[2]]]}\n", "\"a\": values and lists of values in one list");
  ExpectScanError("{\"a\": [{}, 1]}\n", "\"a\": values or lists in a list of objects");
  ExpectScanError("{\"a\": [{}, null]}\n", "\"a\": null in a list of objects");
  ExpectScanError("{\"a\": [1, {}]}\n", "\"a\": an object among values or in a list of lists");
  ExpectScanError("{\"a\": [[{}]]}\n", "\"a\": an object among values or in a list of lists");
  ExpectScanError("{\"a\": [[1, null]]}\n", "\"a\": null in a list");
  ExpectScanError("{\"a\": [[1], null]}\n", "\"a\": null in a list");
}

TEST_F(JsonNestedTest, NamesThatMeetTheNamesOfLengthsAreRefused) {
  const std::string message = "the lengths of the lists in \"a\" have this feature name, too";
  ExpectScanError("{\"a\": [[1]], \"a_lengths\": 2}\n", "a.jsonl:1: \"a_lengths\": " + message);
  ExpectScanError("{\"a_lengths\": 2}\n{\"a\": [[1]]}\n", "a.jsonl:2: \"a_lengths\": " + message);
  ExpectScanError("{\"a\": [[[1]]], \"a_lengths_lengths\": [1]}\n", message);
  ExpectScanError("{\"o\": [{\"x\": 1, \"x_lengths\": 2}]}\n",
                  "the lengths of the lists in \"o.x\"");
  ExpectScanError("{\"o\": [{\"x.y\": 1, \"x\": {\"y\": 1}}]}\n",
                  "two keys give the feature name \"o.x.y\"");
  EXPECT_THAT(Read("{\"a\": [1], \"a_lengths\": 2}\n"),
              ElementsAre("a=int64[1] a_lengths=int64[2]"));
}

TEST_F(JsonNestedTest, ASchemaDeclaresNestedNames) {
  const std::string content =
      "{\"o\": [{\"x\": 1, \"y\": 18446744073709551616}], \"b\": [[1], [2]]}\n";
  auto source = Open(content, {.columns = {"o", "b"},
                               .kinds = {{"o.x", ColumnKind::kFloat},
                                         {"o.y", ColumnKind::kBytes},
                                         {"o.y_lengths", ColumnKind::kInt64},
                                         {"b", ColumnKind::kBytes}}});
  EXPECT_THAT(Texts(Convert(*source)),
              ElementsAre("b=bytes[1 2] b_lengths=int64[1 1] o.x=float[1] o.x_lengths=int64[1] "
                          "o.y=bytes[18446744073709551616] o.y_lengths=int64[1]"));
  EXPECT_THAT(source->notes(), ElementsAre());
  EXPECT_THAT(Texts(Convert(*Open(content, {.columns = {"o.x"}}))),
              ElementsAre("o.x=int64[1] o.x_lengths=int64[1]"));
  ExpectError(
      Scan(*Open(content, {.columns = {"b"}, .kinds = {{"b_lengths", ColumnKind::kBytes}}})),
      absl::StatusCode::kDataLoss, "\"b_lengths\": lengths of lists are int64");
}

TEST_F(JsonNestedTest, NothingIsLearnedFromRecordsThatAreLeftOut) {
  auto source = Open(
      "{\"a\": [[1]], \"z\": [null]}\n"  // not learned: depth, names
      "{\"o\": [], \"a\": 1}\n"
      "{\"o\": [{\"x\": 1}], \"z\": [null]}\n"  // not learned: objects
      "{\"o\": [2], \"a_lengths\": 3}\n");
  source->SkipDefects([](const absl::Status&, uint64_t) {});
  EXPECT_THAT(Texts(Convert(*source)),
              ElementsAre("a=int64[1] o=int64[]", "a_lengths=int64[3] o=int64[2]"));
}

TEST_F(JsonNestedTest, KeysInListsThatAreDataAreRefused) {
  std::string content = "{\"o\": [{\"k\": 1}";
  for (int i = 0; i < 1000; ++i) content += ", {\"k" + std::to_string(i) + "\": 1}";
  ExpectScanError(content + "]}\n", "a.jsonl:1: more than 1000 different keys in lists of objects");
}

TEST_F(JsonNestedTest, NoticesThatAFileChanged) {
  auto source = Open("{\"a\": [[1]], \"o\": [{\"x\": 1}]}\n");
  ASSERT_TRUE(Scan(*source).ok());
  for (const char* line : {R"({"a": [1]})", R"({"a": [[[1]]]})", R"({"a": [["x"]]})", R"({"a": 1})",
                           R"({"a": [{"x": 1}]})", R"({"o": [{"y": 1}]})", R"({"o": [{"x": "t"}]})",
                           R"({"o": [1]})", R"({"o": {"x": 1}})", R"({"o": [{"x": [[1]]}]})"}) {
    ExpectError(BuildItem(*source, {line, 0, 1}).status(), absl::StatusCode::kFailedPrecondition,
                "a.jsonl: changed while");
  }
}

// Random nests of lists, flattened by the test itself.
TEST_F(JsonNestedTest, AgreesWithAPlainModel) {
  std::mt19937 random(1);
  for (int depth = 1; depth <= 4; ++depth) {
    std::string content;
    std::vector<std::string> expected;
    std::vector<std::vector<int>> lengths;
    std::string values;
    const std::function<nlohmann::json(int)> nest = [&](int level) {
      nlohmann::json list = nlohmann::json::array();
      for (int n = random() % 4; n > 0; --n) {
        if (level + 1 < depth) {
          list.push_back(nest(level + 1));
        } else {
          list.push_back(random() % 100);
          values += (values.empty() ? "" : " ") + list.back().dump();
        }
      }
      lengths[level].push_back(static_cast<int>(list.size()));
      return list;
    };
    // The first record settles the depth.
    std::string first = "7";
    std::string first_text = "x=int64[7]";
    for (int level = 0; level < depth; ++level) first = "[" + first + "]";
    for (int i = 0; i < 200; ++i) {
      lengths.assign(depth, {});
      values.clear();
      content += "{\"x\": " + (i == 0 ? "7" + std::string() : nest(0).dump()) + "}\n";
      if (i == 0) content = "{\"x\": " + first + "}\n";
      std::string text = i == 0 ? first_text : "x=int64[" + values + "]";
      std::string name = "x";
      for (int level = depth - 1; level > 0; --level) {
        name += "_lengths";
        std::string all;
        for (int length : lengths[level]) all += (all.empty() ? "" : " ") + std::to_string(length);
        text += " " + name + "=int64[" + (i == 0 ? "1" : all) + "]";
      }
      expected.push_back(text);
    }
    EXPECT_EQ(Read(content), expected);
  }
}

// Any bytes result in records or an error, and nothing that the first pass accepted fails in Build.
TEST_F(JsonNestedTest, SurvivesGarbage) {
  std::mt19937 random(1);
  const std::string sound = R"({"a": [[1], [2.5, NaN]], "o": [{"x": 1, "y": [[]]}, {"z": "t"}]})";
  for (int i = 0; i < 5000; ++i) {
    std::string content = sound + "\n" + sound + "\n";
    for (int change = random() % 4; change >= 0; --change) {
      content[random() % content.size()] = "{}[]\",:\\x1.e-\n\xc3"[random() % 16];
    }
    auto source = Open(content);
    if (i % 2 == 0) source->SkipDefects([](const absl::Status&, uint64_t) {});
    if (Scan(*source).ok()) {
      EXPECT_EQ(Convert(*source).size(), source->num_records());
    }
  }
}

}  // namespace
}  // namespace shardfeed
