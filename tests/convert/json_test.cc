#include "convert/sources/json.h"

#include <random>

#include "nlohmann/json.hpp"
#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;

// JSON arrays; jsonl_test.cc tests what they share with JSON Lines.
class JsonArrayTest : public SourceTest {
 protected:
  std::unique_ptr<Source> Open(std::string_view content) {
    return *MakeJsonSource({Write("a.json", content)}, JsonLayout::kArray);
  }
  std::vector<std::string> Read(std::string_view content) { return Texts(Convert(*Open(content))); }
  void ExpectScanError(std::string_view content, const std::string& message) {
    ExpectError(Scan(*Open(content)), absl::StatusCode::kDataLoss, message);
  }
};

TEST_F(JsonArrayTest, ObjectsInAnyLayout) {
  const auto expected = ElementsAre("a=int64[1] b=bytes[x,y]", "a=int64[2] c.d=int64[1 2]", "");
  EXPECT_THAT(Read("[{\"a\":1,\"b\":\"x,y\"},{\"a\":2,\"c\":{\"d\":[1,2]}},{}]"), expected);
  EXPECT_THAT(Read("\xef\xbb\xbf\n [\r\n  {\n\"a\": 1,\n \"b\": \"x,y\"} ,\t{\"a\": 2, \"c\": "
                   "{\"d\": [1,\n2]}}\n,\n{ } ] \n\n"),
              expected);
}

TEST_F(JsonArrayTest, BracketsAndQuotesInTextAreText) {
  EXPECT_THAT(Read(R"([{"a": "}],[{\"\\"}, {"a]": "\\\\"}])"),
              ElementsAre("a=bytes[}],[{\"\\]", "a]=bytes[\\\\]"));
}

TEST_F(JsonArrayTest, ItemsHaveTheirLine) {
  auto source = Open("[\n{},\n\n{\"a\":\n1}, {}]");
  ASSERT_TRUE(Scan(*source).ok());
  const std::vector<Kept> items = Items(*source);
  ASSERT_EQ(items.size(), 3);
  EXPECT_EQ(items[0].line, 2);
  EXPECT_EQ(items[1].line, 4);
  EXPECT_EQ(items[2].line, 5);
}

TEST_F(JsonArrayTest, ReadsObjectsLargerThanTheBuffer) {
  nlohmann::json array = nlohmann::json::array();
  for (size_t size : {0, 3000000, 5, 1048576}) {
    array.push_back({{"n", size}, {"text", std::string(size, '"')}});
  }
  auto source = Open(array.dump(1));
  const std::vector<Example> examples = Convert(*source);
  ASSERT_EQ(examples.size(), 4);
  EXPECT_EQ(examples[1].features().feature().at("text").bytes_list().value(0),
            std::string(3000000, '"'));
}

TEST_F(JsonArrayTest, DefectsAreTold) {
  ExpectScanError("", "a.json:1: the file is empty; expected an array of objects");
  ExpectScanError("[]", "a.json: no records: the array is empty");
  ExpectScanError("{\"data\": []}",
                  "a.json:1: expected an array of objects, got an object; the "
                  "kind jsonl reads one object per line, and jq .KEY takes");
  ExpectScanError("\nhello", "a.json:2: expected an array of objects, got \"hello\"");
  ExpectScanError("[{},\n1]",
                  "a.json:2: got a number, but each element of the array must be an object");
  ExpectScanError("[\"x\"]",
                  "a.json:1: got a string, but each element of the array must be an object");
  ExpectScanError("[[{}]]", "a.json:1: got an array, but each element of the array must be");
  ExpectScanError(
      "[{}\n{}]",
      "a.json:2: expected a comma or the end of the array after an element, got \"{}]\"");
  ExpectScanError("[{},\n]",
                  "a.json:2: expected an element after the comma, got the end of the array");
  ExpectScanError("[{},,{}]", "a.json:1: expected an element, got a comma");
  ExpectScanError("[{},\n{\"a\": 1},\n",
                  "a.json:3: the file ends inside the array; it may be truncated");
  ExpectScanError("[{},\n{\"a\": 1", "a.json:2: the file ends inside the element that starts here");
  ExpectScanError("[{},\n{\"a\": \"1}]",
                  "a.json:2: the file ends inside the element that starts here");
  ExpectScanError("[{}]\n[{}]",
                  "a.json:2: expected the end of the file after the array, got \"[{}]\"; a file "
                  "must hold a single array");
  ExpectScanError("[{},\n{\"a\":\n  tru}]", "a.json:3:6: invalid JSON");
  ExpectScanError("[{},\n {\"a\": 1]]", "a.json:2:8: invalid JSON");
  ExpectScanError("[{\"a\": 1},\n{\"a\": \"x\"}]", "a.json:2: \"a\": text here, but a number at");
  ExpectScanError("[{\"a\": \"\xff\"}]", "a.json:1: not UTF-8");
}

TEST_F(JsonArrayTest, AgreesWithAnotherParser) {
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string text;
    for (int n = random() % 12; n >= 0; --n) {
      static constexpr const char* kTokens[] = {"[",  "]",  "{",    "}",       ",",    "{}",
                                                "[]", "\"", "\\\"", "\"a\":1", "null", "{\"a\":1}"};
      text += kTokens[random() % 12];
    }
    if (i % 2 == 0) text = "[" + text + "]";
    const auto json = nlohmann::json::parse(text, nullptr, false);
    bool sound = json.is_array() && !json.empty();
    for (const auto& element : json) sound = sound && element.is_object();
    EXPECT_EQ(Scan(*Open(text)).ok(), sound) << text << " " << Scan(*Open(text));
  }
}

}  // namespace
}  // namespace shardfeed
