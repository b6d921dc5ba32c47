#include "io/bounded_json.h"

#include "nlohmann/json.hpp"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using Json = nlohmann::json;

std::string Nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(BoundedJson, ParsesUpToTheBounds) {
  Json json;
  EXPECT_OK(ParseBoundedJson(Nested(kMaxJsonDepth), &json));
  EXPECT_OK(ParseBoundedJson("[1, 2, 3]", &json, 4));
  EXPECT_EQ(json.size(), 3);
}

TEST(BoundedJson, BeyondTheBoundsIsDataLoss) {
  Json json;
  EXPECT_FAILS(ParseBoundedJson(Nested(kMaxJsonDepth + 1), &json), kDataLoss,
               "at byte 100 its values are nested more than 100 deep");
  EXPECT_FAILS(ParseBoundedJson(Nested(100'000), &json), kDataLoss, "nested more than 100 deep");
  EXPECT_FAILS(ParseBoundedJson(std::string(100'000, '{'), &json), kDataLoss, "nested more");
  EXPECT_FAILS(ParseBoundedJson("[1, 2, 3, 4]", &json, 4), kDataLoss,
               "it holds 5 values, expected at most 4");
  EXPECT_FAILS(ParseTopOfJson(R"({"a": )" + Nested(100'000) + "}", &json), kDataLoss,
               "nested more");
}

TEST(BoundedJson, BracketsInStringsAreNotCounted) {
  Json json;
  const std::string brackets(1000, '[');
  EXPECT_OK(ParseBoundedJson(R"({"\"\\)" + brackets + R"(": ",)" + brackets + "\"}", &json, 2));
  // A string that ends with an escaped backslash is complete, and what follows counts.
  EXPECT_FAILS(ParseBoundedJson(R"(["\\",)" + Nested(1000) + "]", &json), kDataLoss, "nested more");
}

TEST(BoundedJson, OtherTextIsDataLoss) {
  Json json;
  for (const char* text : {"", "{", "]]]]", "nul", "\"", "\"\\", "{\"a\": \"\xff\"}"}) {
    EXPECT_FAILS(ParseBoundedJson(text, &json), kDataLoss, "parse error");
  }
}

TEST(BoundedJson, TopLeavesOutWhatIsNested) {
  Json json;
  ASSERT_OK(ParseTopOfJson(R"({"a": 1, "b": [1, 2], "c": {"d": 1}, "e": "x"})", &json));
  EXPECT_EQ(json["a"], 1);
  EXPECT_EQ(json["e"], "x");
  for (const char* key : {"b", "c"}) EXPECT_FALSE(json.value(key, Json()).is_structured()) << key;
}

TEST(JsonMembers, AreReadByTypeAndRange) {
  const Json json = {{"n", 7}, {"t", "x"}, {"f", true}, {"l", {"a", "b"}}, {"o", {{"p", 1}}}};
  JsonMembers members;
  EXPECT_EQ(members.Number(json, "n", 7), 7);
  EXPECT_EQ(members.Text(json, "t"), "x");
  EXPECT_TRUE(members.Flag(json, "f"));
  EXPECT_EQ(members.Texts(json, "l"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(members.Number(members.Object(json, "o"), "p"), 1);
  EXPECT_EQ(members.Array(json, "l").size(), 2);
  EXPECT_OK(members.status());
}

TEST(JsonMembers, NameWhatIsNotAsExpected) {
  const auto error = [](const Json& json, auto read) {
    JsonMembers members;
    read(members, json);
    members.Text(json, "none");  // the first defect counts
    return std::string(members.status().message());
  };
  const auto number = [](JsonMembers& m, const Json& json) {
    EXPECT_EQ(m.Number(json, "a", 9), 0);
  };
  EXPECT_EQ(error({{"a", -1}}, number), "\"a\": expected an integer from 0 to 9, got -1");
  EXPECT_EQ(error({{"a", 10}}, number), "\"a\": expected an integer from 0 to 9, got 10");
  EXPECT_EQ(error({{"a", 1.5}}, number), "\"a\": expected an integer from 0 to 9, got 1.5");
  EXPECT_EQ(error({{"b", 1}}, number), "\"a\" is missing, expected an integer from 0 to 9");
  EXPECT_EQ(error({{"a", Json::array()}}, [](JsonMembers& m, const Json& j) { m.Text(j, "a"); }),
            "\"a\": expected a string, got an array");
  EXPECT_EQ(error({{"a", std::string(50, 'x')}},
                  [](JsonMembers& m, const Json& j) { EXPECT_FALSE(m.Flag(j, "a")); }),
            "\"a\": expected true or false, got a string of 52 bytes");
  EXPECT_EQ(error({{"a", {1, 2}}}, [](JsonMembers& m, const Json& j) { m.Texts(j, "a"); }),
            "\"a\": expected a list of strings, got an array");
  EXPECT_EQ(error({{"a", 1}}, [](JsonMembers& m, const Json& j) { m.Object(j, "a"); }),
            "\"a\": expected an object, got 1");
  EXPECT_EQ(error({{"a", 1}}, [](JsonMembers& m, const Json& j) { m.Array(j, "a"); }),
            "\"a\": expected a list, got 1");
}

}  // namespace
}  // namespace shardfeed
