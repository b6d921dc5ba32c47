#include "shard/schema/schema.h"

#include "nlohmann/json.hpp"
#include "shardfeed/examples.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

template <typename Fill>
std::string Record(Fill fill) {
  ExampleBuilder builder;
  fill(builder);
  std::string bytes;
  builder.SerializeExample(&bytes);
  return bytes;
}

Schema Gathered() {
  Schema schema;
  EXPECT_OK(schema.AddRecord(Record([](ExampleBuilder& b) {
    b.AddInt64("label", 1);
    b.AddBytes("text", "four");
  })));
  EXPECT_OK(schema.AddRecord(Record([](ExampleBuilder& b) {
    b.AddInt64List("label", {1, 2, 3});
    b.AddFloat("x", 1);
  })));
  return schema;
}

TEST(Schema, GathersKindsCountsAndSizes) {
  const Schema schema = Gathered();
  EXPECT_EQ(schema.records(), 2);
  const auto& features = schema.features();
  ASSERT_EQ(features.size(), 3);
  EXPECT_EQ(features.at("label").kind, FeatureKind::kInt64);
  EXPECT_EQ(features.at("label").records, 2);
  EXPECT_EQ(features.at("label").min_values, 1);
  EXPECT_EQ(features.at("label").max_values, 3);
  EXPECT_EQ(features.at("text").records, 1);
  EXPECT_EQ(features.at("text").max_bytes, 4);
}

TEST(Schema, CountsRecordsThatAreNoExamples) {
  Schema schema;
  EXPECT_FAILS(schema.AddRecord("hello world"), kDataLoss, "not a tf.train.Example");
  EXPECT_EQ(schema.not_examples(), 1);
  EXPECT_TRUE(schema.features().empty());
}

TEST(Schema, CountsKindsThatDiffer) {
  Schema schema = Gathered();
  EXPECT_OK(schema.AddRecord(Record([](ExampleBuilder& b) { b.AddFloat("label", 1); })));
  EXPECT_EQ(schema.features().at("label").mixed_kinds, 1);
}

TEST(Schema, MergingEqualsGatheringAtOnce) {
  Schema twice = Gathered();
  twice.Merge(Gathered());
  Schema merged;
  merged.Merge(Gathered());
  merged.Merge(Gathered());
  EXPECT_EQ(twice.features(), merged.features());
  EXPECT_EQ(merged.features().at("label").records, 4);
}

TEST(Schema, MixedKindsAreTheSameHoweverPartsAreMerged) {
  const std::vector<std::string> records = {
      Record([](ExampleBuilder& b) { b.AddFloat("x", 1); }),
      Record([](ExampleBuilder& b) { b.AddInt64("x", 1); }),
      Record([](ExampleBuilder& b) { b.AddBytes("x", "a"); }),
      Record([](ExampleBuilder& b) { b.AddInt64("x", 2); }),
      std::string("\x0a\x07\x0a\x05\x0a\x01x\x12\x00", 9),  // x without values
      Record([](ExampleBuilder& b) { b.AddFloat("x", 2); }),
      Record([](ExampleBuilder& b) { b.AddInt64("x", 3); }),
      Record([](ExampleBuilder& b) { b.AddInt64("x", 3); }),
      Record([](ExampleBuilder& b) { b.AddInt64("x", 3); }),
  };
  Schema all;
  for (const std::string& record : records) EXPECT_OK(all.AddRecord(record));
  const FeatureSchema& x = all.features().at("x");
  EXPECT_EQ(x.kind, FeatureKind::kInt64);
  EXPECT_EQ(x.records, 9);
  EXPECT_EQ(x.mixed_kinds, 3);
  EXPECT_EQ(x.of_kind, (std::array<uint64_t, 4>{1, 1, 2, 5}));
  for (size_t num_parts = 1; num_parts <= records.size(); ++num_parts) {
    std::vector<Schema> parts(num_parts);
    for (size_t i = 0; i < records.size(); ++i) {
      EXPECT_OK(parts[i % num_parts].AddRecord(records[i]));
    }
    Schema forward;
    Schema backward;
    for (size_t i = 0; i < num_parts; ++i) {
      // As tasks of a job do, through a file.
      Schema read;
      ASSERT_OK(read.FromJson(parts[i].ToJson(), parts[i].records()));
      EXPECT_EQ(read.features(), parts[i].features());
      forward.Merge(read);
      backward.Merge(parts[num_parts - 1 - i]);
    }
    EXPECT_EQ(forward.features(), all.features()) << num_parts;
    EXPECT_EQ(backward.features(), all.features()) << num_parts;
  }
}

TEST(Schema, RecordsAfterAMergeCountAsOfTheirKind) {
  const std::string number = Record([](ExampleBuilder& b) { b.AddInt64("x", 1); });
  const std::string real = Record([](ExampleBuilder& b) { b.AddFloat("x", 1); });
  Schema schema;
  for (int i = 0; i < 3; ++i) EXPECT_OK(schema.AddRecord(number));
  Schema other;
  for (int i = 0; i < 5; ++i) EXPECT_OK(other.AddRecord(real));
  schema.Merge(other);
  EXPECT_EQ(schema.features().at("x").kind, FeatureKind::kFloat);
  EXPECT_EQ(schema.features().at("x").mixed_kinds, 3);
  for (int i = 0; i < 3; ++i) EXPECT_OK(schema.AddRecord(number));
  EXPECT_EQ(schema.features().at("x").kind, FeatureKind::kInt64);
  EXPECT_EQ(schema.features().at("x").mixed_kinds, 5);
}

TEST(Schema, MergesMixedKindsOfEarlierVersions) {
  nlohmann::json json = Gathered().ToJson();
  json["label"]["mixed_kinds"] = 1;
  Schema earlier;
  ASSERT_OK(earlier.FromJson(json, 2));
  Schema merged = Gathered();
  merged.Merge(earlier);
  EXPECT_EQ(merged.features().at("label").records, 4);
  EXPECT_EQ(merged.features().at("label").mixed_kinds, 1);
}

TEST(Schema, CountsOfKindsThatAnEarlierManifestDoesNotTellStayUnknown) {
  Schema mixed = Gathered();
  EXPECT_OK(mixed.AddRecord(Record([](ExampleBuilder& b) { b.AddFloat("label", 1); })));
  nlohmann::json json = mixed.ToJson();
  EXPECT_EQ(json["label"]["kinds"], nlohmann::json({{"float", 1}, {"int64", 2}}));
  json["label"].erase("kinds");
  Schema earlier;
  ASSERT_OK(earlier.FromJson(json, 3));
  EXPECT_FALSE(earlier.features().at("label").knows_kinds);
  EXPECT_TRUE(earlier.features().at("text").knows_kinds);
  // A copy of the dataset takes over what is there, and a merged one does not make up counts.
  EXPECT_EQ(earlier.ToJson(), json);
  EXPECT_EQ(DifferenceOf(earlier, mixed), "");
  for (const auto& [first, second] : {std::pair{earlier, mixed}, std::pair{mixed, earlier}}) {
    Schema merged = first;
    merged.Merge(second);
    EXPECT_EQ(merged.features().at("label").mixed_kinds, 2);
    EXPECT_FALSE(merged.ToJson()["label"].contains("kinds"));
  }
  Schema first;
  first.Merge(mixed);
  EXPECT_EQ(first.ToJson(), mixed.ToJson());
}

TEST(Schema, EarlierManifestsMayHaveRecordsWithoutAKind) {
  Schema some = Gathered();
  EXPECT_OK(some.AddRecord(std::string("\x0a\x0b\x0a\x09\x0a\x05label\x12\x00", 13)));
  nlohmann::json json = some.ToJson();
  EXPECT_EQ(json["label"]["kinds"], nlohmann::json({{"int64", 2}, {"none", 1}}));
  json["label"].erase("kinds");
  Schema earlier;
  ASSERT_OK(earlier.FromJson(json, 3));
  EXPECT_FALSE(earlier.features().at("label").knows_kinds);
  EXPECT_EQ(DifferenceOf(earlier, some), "");
  // So empty lists of one kind are told from those.
  Schema empty;
  EXPECT_OK(empty.AddRecord(Record([](ExampleBuilder& b) { b.AddInt64List("label", {}); })));
  EXPECT_EQ(empty.ToJson()["label"]["kinds"], nlohmann::json({{"int64", 1}}));
}

TEST(Schema, CountsOfKindsAreCompared) {
  Schema mixed = Gathered();
  EXPECT_OK(mixed.AddRecord(Record([](ExampleBuilder& b) { b.AddFloat("label", 1); })));
  EXPECT_EQ(DifferenceOf(mixed, mixed), "");
  nlohmann::json json = mixed.ToJson();
  json["label"]["kinds"] = {{"bytes", 1}, {"int64", 2}};
  Schema stored;
  ASSERT_OK(stored.FromJson(json, 3));
  EXPECT_EQ(
      DifferenceOf(stored, mixed),
      "feature 'label': records of kind bytes 1 instead of 0, records of kind float 0 instead "
      "of 1");
}

TEST(Schema, JsonGoesBothWays) {
  const Schema schema = Gathered();
  Schema read;
  ASSERT_OK(read.FromJson(schema.ToJson(), 2));
  EXPECT_EQ(read.features(), schema.features());
  EXPECT_FAILS(read.FromJson(nlohmann::json::parse(R"({"a": 1})"), 2), kDataLoss, "");
}

TEST(Schema, JsonThatContradictsItselfIsDataLoss) {
  const auto expect = [](const char* key, const nlohmann::json& value, std::string_view message) {
    nlohmann::json json = Gathered().ToJson();
    json["text"][key] = value;
    Schema read;
    EXPECT_FAILS(read.FromJson(json, 2), kDataLoss, std::string(message));
  };
  expect("kind", "string", "unknown feature kind 'string'");
  expect("kind", 1, "\"kind\": expected a string, got 1");
  expect("records", 5, "\"records\": expected an integer from 0 to 4, got 5");
  expect("records", -1, "\"records\": expected an integer from 0 to 4, got -1");
  expect("records", 0.5, "\"records\": expected an integer from 0 to 4, got 0.5");
  expect("min_values", 2, "min_values is greater than max_values");
  expect("max_values", "1", "\"max_values\": expected an unsigned 64-bit integer, got \"1\"");
  expect("min_bytes", 5, "min_bytes is greater than max_bytes");
  expect("list", 1, "\"list\": expected true or false, got 1");
  expect("dtype", 8, "\"dtype\": expected a string, got 8");
  expect("shape", "2", "\"shape\": expected");
  expect("shape", {2}, "a shape is not that of its feature's values");
  expect("shape", {1, -1}, "a shape is not that of its feature's values");
  expect("shape", {0.5}, "the sizes of a shape are not integers");
  expect("mixed_kinds", 2, "\"mixed_kinds\": expected an integer from 0 to 1, got 2");
  expect("kinds", 1, "the kinds of a feature are not an object");
  expect("kinds", {{"bytes", 2}}, "\"bytes\": expected an integer from 0 to 1, got 2");
  expect("kinds", {{"bytes", 1}, {"double", 0}}, "unknown feature kind 'double'");
  expect("kinds", {{"float", 1}}, "the kinds of a feature contradict its kind or mixed_kinds");
  Schema read;
  EXPECT_FAILS(read.FromJson(nlohmann::json::array(), 2), kDataLoss, "are not an object");
  EXPECT_FAILS(read.FromJson({{"a", 1}}, 2), kDataLoss, "a feature is not an object");
  EXPECT_FAILS(read.FromJson(nlohmann::json::object(), 2, 3), kDataLoss,
               "not_examples is 3, but there are only 2 records");
}

TEST(Schema, TypesAreNotedMergedAndKeptAsJson) {
  Schema schema = Gathered();
  const FeatureTypes types = {{"label", {"uint8", {-1}}},
                              {"text", {"bytes", {}}},
                              {"x", {"float64", {1}}},
                              {"none has it", {"int64", {}}}};
  schema.SetTypes(types);
  EXPECT_EQ(schema.features().size(), 4);
  EXPECT_EQ(schema.features().at("label").type, (FeatureType{"uint8", {-1}}));
  Schema read;
  ASSERT_OK(read.FromJson(schema.ToJson(), 2));
  EXPECT_EQ(read.features(), schema.features());
  EXPECT_EQ(read.Types(), schema.Types());
  EXPECT_EQ(read.Types().size(), 4);
  Schema merged;
  merged.Merge(schema);
  EXPECT_EQ(merged.Types(), schema.Types());
  Schema other = Gathered();
  other.SetTypes({{"label", {"int64", {-1}}}, {"text", {"bytes", {1}}}, {"x", {"float64", {1}}}});
  merged.Merge(other);
  EXPECT_EQ(merged.features().at("label").type, (FeatureType{"", {-1}}));
  EXPECT_EQ(merged.features().at("text").type, (FeatureType{"bytes", {}}));
  EXPECT_EQ(merged.features().at("x").type, (FeatureType{"float64", {1}}));
  merged.Merge(Gathered());
  EXPECT_EQ(merged.Types(), (FeatureTypes{{"none has it", {"int64", {}}}}));
}

TEST(Schema, DeclaredFeaturesStayKnownWithoutRecords) {
  const FeatureTypes types = {
      {"m", {"float32", {2, 3}}}, {"text", {"bytes", {-1}}}, {"u", {"uint8", {}}}};
  Schema empty;
  empty.SetTypes(types);
  EXPECT_EQ(empty.features().at("m").kind, FeatureKind::kFloat);
  EXPECT_EQ(empty.features().at("text").kind, FeatureKind::kBytes);
  EXPECT_EQ(empty.features().at("u").kind, FeatureKind::kInt64);
  EXPECT_EQ(empty.Types(), types);
  Schema read;
  ASSERT_OK(read.FromJson(empty.ToJson(), 0));
  EXPECT_EQ(read.features(), empty.features());
  EXPECT_EQ(DifferenceOf(read, Schema()), "");
  // A shard without records takes nothing from what others have.
  Schema merged = Gathered();
  merged.Merge(read);
  EXPECT_EQ(merged.features().at("label"), Gathered().features().at("label"));
  EXPECT_EQ(merged.features().at("m").records, 0);
}

TEST(Schema, NamesAloneAreKeptAsJsonAndRemoved) {
  Schema schema = Gathered();
  schema.SetTypes({{"alone", {}}, {"declared", {"int64", {}}}});
  Schema read;
  ASSERT_OK(read.FromJson(schema.ToJson(), 2));
  EXPECT_EQ(read.features(), schema.features());
  EXPECT_TRUE(read.features().at("alone").is_name_alone());
  EXPECT_FALSE(read.features().at("declared").is_name_alone());
  EXPECT_FALSE(read.features().at("label").is_name_alone());
  read.RemoveNamesAlone();
  EXPECT_FALSE(read.features().contains("alone"));
  EXPECT_EQ(read.features().size() + 1, schema.features().size());
}

TEST(Schema, ShapesThatTheRecordsDoNotHaveAreLeftOut) {
  Schema schema = Gathered();
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2, 3}, {-1, 2}, {-1, 0}, {3, -1}, {INT64_MAX, INT64_MAX}, {-2}}) {
    schema.SetTypes({{"label", {"int64", shape}}});
    EXPECT_EQ(schema.features().at("label").type, (FeatureType{"int64", {}}));
  }
}

TEST(Schema, TypesAreNoDifference) {
  Schema noted = Gathered();
  noted.SetTypes({{"label", {"uint8", {-1}}}});
  EXPECT_EQ(DifferenceOf(noted, Gathered()), "");
}

TEST(Schema, RepeatedNameCountsOnce) {
  // Two map entries "a", as other writers may leave them: the last one counts.
  const std::string one = Record([](ExampleBuilder& b) { b.AddInt64("a", 1); });
  const std::string two = Record([](ExampleBuilder& b) { b.AddInt64List("a", {1, 2}); });
  // Both are one Features field of less than 128 bytes: join their contents under one header.
  const std::string entries = one.substr(2) + two.substr(2);
  Schema schema;
  ASSERT_OK(schema.AddRecord(std::string("\x0a") + static_cast<char>(entries.size()) + entries));
  EXPECT_EQ(schema.features().at("a").records, 1);
  EXPECT_EQ(schema.features().at("a").min_values, 2);
}

// ---- Feature lists

// A message of less than 128 bytes as the field of this number.
std::string Field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

std::string Sequence(const std::string& context, const std::string& lists) {
  return (context.empty() ? "" : Field(1, context)) + Field(2, lists);
}

std::string Entry(const std::string& name, const std::string& value) {
  return Field(1, Field(1, name) + Field(2, value));
}

const std::string kBytesStep = Field(1, Field(1, Field(1, "ab")));
const std::string kFloatStep = Field(1, Field(2, Field(1, "1234")));
const std::string kInt64Step = Field(1, Field(3, Field(1, std::string(1, 5))));

TEST(Schema, KindOfListsOfSeveralKindsIsTheFirstThatOccurs) {
  const std::string a = Sequence("", Entry("x", kBytesStep + kFloatStep));
  const std::string b = Sequence("", Entry("x", kFloatStep + kBytesStep));
  const std::string c = Sequence("", Entry("x", kBytesStep + kInt64Step + kBytesStep));
  const auto gathered = [](const std::vector<std::string>& records) {
    Schema schema;
    for (const std::string& record : records) EXPECT_OK(schema.AddRecord(record));
    return schema;
  };
  const FeatureSchema x = gathered({a, b, c}).features().at("x");
  EXPECT_EQ(x.kind, FeatureKind::kInt64);
  EXPECT_EQ(x.mixed_kinds, 3);
  EXPECT_EQ(x.of_kind, (std::array<uint64_t, 4>{}));
  EXPECT_EQ(gathered({c, b, a}).features().at("x"), x);
  EXPECT_EQ(gathered({a}).features(), gathered({b}).features());
  EXPECT_EQ(gathered({b}).features().at("x").kind, FeatureKind::kFloat);
  for (const auto& [first, second] :
       {std::pair{gathered({a, b}), gathered({c})}, std::pair{gathered({c}), gathered({a, b})}}) {
    Schema merged;
    ASSERT_OK(merged.FromJson(first.ToJson(), first.records()));
    merged.Merge(second);
    EXPECT_EQ(merged.features().at("x"), x);
  }
  // A record of one kind decides.
  const std::string bytes = Sequence("", Entry("x", kBytesStep));
  EXPECT_EQ(gathered({c, bytes, a}).features().at("x").kind, FeatureKind::kBytes);
  EXPECT_EQ(gathered({bytes, a, c}).features(), gathered({c, a, bytes}).features());
}

TEST(Schema, PartsWithoutStepsTakeNothingFromWhatOthersKnow) {
  // "b" is a feature of the context as well, so it has values although its list has no steps.
  const std::string context = Entry("b", Field(3, Field(1, std::string(1, 5))));
  Schema without;
  EXPECT_OK(without.AddRecord(Sequence(context, Entry("b", ""))));
  EXPECT_TRUE(without.features().at("b").is_list);
  EXPECT_EQ(without.features().at("b").max_values, 1);
  Schema steps;
  EXPECT_OK(steps.AddRecord(Sequence(context, Entry("b", kInt64Step + kInt64Step))));
  Schema all;
  EXPECT_OK(all.AddRecord(Sequence(context, Entry("b", ""))));
  EXPECT_OK(all.AddRecord(Sequence(context, Entry("b", kInt64Step + kInt64Step))));
  for (const auto& [first, second] : {std::pair{without, steps}, std::pair{steps, without}}) {
    Schema merged = first;
    merged.Merge(second);
    EXPECT_EQ(merged.features(), all.features());
    EXPECT_TRUE(merged.knows_steps());
    EXPECT_EQ(merged.features().at("b").min_step_values, 1);
    EXPECT_EQ(DifferenceOf(all, merged), "");
  }
}

TEST(Schema, StepsThatAnEarlierManifestDoesNotTellStayUnknown) {
  Schema found;
  EXPECT_OK(found.AddRecord(Sequence("", Entry("b", kInt64Step))));
  nlohmann::json json = found.ToJson();
  json["b"].erase("min_step_values");
  json["b"].erase("max_step_values");
  Schema earlier;
  ASSERT_OK(earlier.FromJson(json, 1));
  EXPECT_FALSE(earlier.knows_steps());
  Schema merged = found;
  merged.Merge(earlier);
  EXPECT_FALSE(merged.knows_steps());
  EXPECT_FALSE(merged.ToJson()["b"].contains("min_step_values"));
  earlier.SetSteps(found);
  EXPECT_TRUE(earlier.knows_steps());
  EXPECT_EQ(earlier.features(), found.features());
}

// ---- Names

// The remembered layout of a record with a repeated name has a gap, which is not the feature
// without a name.
TEST(Schema, FeatureWithoutNameBehindRepeatedName) {
  const std::string entries = Record([](ExampleBuilder& b) { b.AddInt64("a", 1); }).substr(2) +
                              Record([](ExampleBuilder& b) { b.AddInt64("a", 2); }).substr(2);
  const std::string twice = std::string("\x0a") + static_cast<char>(entries.size()) + entries;
  const std::string no_name = Record([](ExampleBuilder& b) { b.AddFloat("", 1); });
  Schema schema;
  ASSERT_OK(schema.AddRecord(twice));
  ASSERT_OK(schema.AddRecord(no_name));
  ASSERT_EQ(schema.features().size(), 2);
  EXPECT_EQ(schema.features().at("").kind, FeatureKind::kFloat);
  EXPECT_EQ(schema.features().at("").records, 1);
  EXPECT_EQ(schema.features().at("a").records, 1);
}

}  // namespace
}  // namespace shardfeed
