#include "convert/features/feature_choice.h"

#include "convert/sources/csv.h"
#include "convert/sources/json.h"
#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class FeatureChoiceTest : public SourceTest {
 protected:
  std::unique_ptr<Source> Csv(std::string_view content, FeatureChoice choice) {
    return *MakeCsvSource({Write("a.csv", content)}, {.choice = std::move(choice)});
  }
  std::unique_ptr<Source> Json(std::string_view content, FeatureChoice choice) {
    return *MakeJsonSource({Write("a.jsonl", content)}, JsonLayout::kLines,
                           {.choice = std::move(choice)});
  }
};

TEST_F(FeatureChoiceTest, SchemaFiles) {
  EXPECT_THAT(*ReadFeatureKinds(Write("s", R"({"a": "int64", "b": "float", "c": "bytes"})")),
              ElementsAre(Pair("a", ColumnKind::kInt64), Pair("b", ColumnKind::kFloat),
                          Pair("c", ColumnKind::kBytes)));
  EXPECT_THAT(
      *ReadFeatureKinds(Write("s", R"({"format": "shardfeed manifest", "version": 1, "features":
                  {"a": {"kind": "float", "records": 3}, "b": {"kind": "none"}}})")),
      ElementsAre(Pair("a", ColumnKind::kFloat)));
}

TEST_F(FeatureChoiceTest, DefectsOfSchemaFilesAreTold) {
  const auto expect = [this](std::string_view content, const std::string& message,
                             absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    ExpectError(ReadFeatureKinds(Write("s", content)).status(), code, message);
  };
  expect("", "s: not a JSON object: parse error at line");
  expect("[1]", "s: not a JSON object");
  expect(R"({"a": "double"})",
         "s: the kind of \"a\" must be int64, float or bytes, got \"double\"");
  expect(R"({"a": "int64", "b": "bytes", "a": "int64"})", "s: \"a\" appears twice; expected JSON");
  expect(R"({"a": 1})", "s: the kind of \"a\" must be int64, float or bytes, got 1");
  expect(R"({"format": "shardfeed manifest", "version": 1})", "s: a manifest without features");
  expect(R"({"format": "shardfeed manifest", "version": 2, "features": {}})",
         "s: it was changed or damaged", absl::StatusCode::kDataLoss);
  expect(R"({"a": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}",
         "s: not a JSON object: at byte 105 its values are nested more than 100 deep");
  ExpectError(ReadFeatureKinds(Path("none")).status(), absl::StatusCode::kNotFound, "none: cannot");
}

TEST_F(FeatureChoiceTest, ColumnsOfTables) {
  EXPECT_THAT(Texts(Convert(*Csv("a,b,c\n1,x,3\n", {.columns = {"c", "a"}}))),
              ElementsAre("a=int64[1] c=int64[3]"));
  ExpectError(Scan(*Csv("a,b,c\n1,x,3\n", {.columns = {"a", "d"}})),
              absl::StatusCode::kInvalidArgument,
              "a.csv: column \"d\" does not exist; the columns are \"a\", \"b\", \"c\"");
}

TEST_F(FeatureChoiceTest, KindsOfTables) {
  auto source = Csv("a,b,c\n007,1,3\n+8,2,4\n", {.kinds = {{"a", ColumnKind::kInt64},
                                                           {"b", ColumnKind::kFloat},
                                                           {"c", ColumnKind::kBytes},
                                                           {"d", ColumnKind::kBytes}}});
  EXPECT_THAT(Texts(Convert(*source)),
              ElementsAre("a=int64[7] b=float[1] c=bytes[3]", "a=int64[8] b=float[2] c=bytes[4]"));
  EXPECT_THAT(source->notes(), ElementsAre("read as CSV: delimiter ',', header, UTF-8",
                                           "column \"d\" of the schema does not exist"));
  ExpectError(Scan(*Csv("a\n1\nx\n", {.kinds = {{"a", ColumnKind::kInt64}}})),
              absl::StatusCode::kDataLoss,
              "a.csv:3: expected int64 in column \"a\", as the schema says, got \"x\"");
}

TEST_F(FeatureChoiceTest, KindsOfAnotherDatasetAreTold) {
  const ChosenKinds kinds = {{"a", ChosenKind(ColumnKind::kInt64, "out/train@64")},
                             {"b", ChosenKind(ColumnKind::kInt64, "out/train@64")}};
  ExpectError(Scan(*Csv("a\n1\nx\n", {.kinds = kinds})), absl::StatusCode::kDataLoss,
              "a.csv:3: expected int64 in column \"a\", as in out/train@64, got \"x\"");
  ExpectError(Scan(*Json("{\"a\": \"x\"}", {.kinds = kinds})), absl::StatusCode::kDataLoss,
              "a.jsonl:1: \"a\": expected int64, as in out/train@64, got \"\\\"x\\\"\"");
  auto source = Csv("a\n1\n", {.kinds = kinds});
  EXPECT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(), testing::Contains("column \"b\" of out/train@64 does not exist"));
  source = Json("{\"a\": 1}", {.kinds = kinds});
  EXPECT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(), ElementsAre("no record has the key \"b\" of out/train@64"));
}

TEST_F(FeatureChoiceTest, ManyNamesShareANote) {
  ChosenKinds kinds;
  for (const char* name : {"p", "q", "r", "s"}) kinds.emplace(name, ColumnKind::kBytes);
  auto source = Csv("a\n1\n", {.kinds = kinds});
  EXPECT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(),
              testing::Contains("4 columns of the schema do not exist: \"p\", \"q\", \"r\", ..."));
  source = Json("{\"a\": 1, \"b\": null, \"c\": null}", {.kinds = kinds});
  EXPECT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(),
              ElementsAre("2 keys are null everywhere, so no record has these features: \"b\", "
                          "\"c\"",
                          "no record has 4 keys of the schema: \"p\", \"q\", \"r\", ..."));
}

TEST_F(FeatureChoiceTest, KeysOfJson) {
  const std::string lines =
      "{\"a\": 1, \"o\": {\"x\": 2, \"y\": [[3]], \"z\": {\"w\": 4}}, \"l\": "
      "[null]}\n{\"o\": 5}\n";
  EXPECT_THAT(Texts(Convert(*Json(lines, {.columns = {"a", "o.x", "o.z"}}))),
              ElementsAre("a=int64[1] o.x=int64[2] o.z.w=int64[4]", ""));
  ExpectError(Scan(*Json(lines, {.columns = {"a", "b"}})), absl::StatusCode::kInvalidArgument,
              "a.jsonl: no record has a value for the key \"b\"");
}

TEST_F(FeatureChoiceTest, NumbersBecomeTextInJson) {
  auto source = Json("{\"a\": 1, \"b\": 2.5, \"c\": [\"x\", 1]}\n{\"a\": [], \"b\": \"y\"}\n",
                     {.kinds = {{"a", ColumnKind::kFloat},
                                {"b", ColumnKind::kBytes},
                                {"c", ColumnKind::kBytes},
                                {"d", ColumnKind::kInt64}}});
  EXPECT_THAT(Texts(Convert(*source)),
              ElementsAre("a=float[1] b=bytes[2.5] c=bytes[x 1]", "a=float[] b=bytes[y]"));
  EXPECT_THAT(source->notes(), ElementsAre("no record has the key \"d\" of the schema"));
  for (const auto& [kind, value] :
       std::vector<std::pair<ColumnKind, std::string>>{{ColumnKind::kInt64, "1.5"},
                                                       {ColumnKind::kInt64, "\"x\""},
                                                       {ColumnKind::kFloat, "[\"x\"]"}}) {
    ExpectError(Scan(*Json("{\"a\": " + value + "}", {.kinds = {{"a", kind}}})),
                absl::StatusCode::kDataLoss, "as the schema says");
  }
  ExpectError(Scan(*Json("{\"a\": [null]}", {.kinds = {{"a", ColumnKind::kBytes}}})),
              absl::StatusCode::kDataLoss, "a.jsonl:1: \"a\": ");
}

}  // namespace
}  // namespace shardfeed
