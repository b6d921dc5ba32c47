#include "shard/schema.h"

#include "nlohmann/json.hpp"
#include "tests/testing/files.h"
#include "tfrecord/example_builder.h"

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

TEST(Schema, JsonGoesBothWays) {
  const Schema schema = Gathered();
  Schema read;
  ASSERT_OK(read.FromJson(schema.ToJson(), 2));
  EXPECT_EQ(read.features(), schema.features());
  EXPECT_FAILS(read.FromJson(nlohmann::json::parse(R"({"a": 1})"), 2), kDataLoss, "");
}

TEST(Schema, RepeatedNameCountsOnce) {
  // Two map entries "a", as a writer other than ours may leave them: the last counts.
  const std::string one = Record([](ExampleBuilder& b) { b.AddInt64("a", 1); });
  const std::string two = Record([](ExampleBuilder& b) { b.AddInt64List("a", {1, 2}); });
  // Both are one Features field of less than 128 bytes: join their contents under one header.
  const std::string entries = one.substr(2) + two.substr(2);
  Schema schema;
  ASSERT_OK(schema.AddRecord(std::string("\x0a") + static_cast<char>(entries.size()) + entries));
  EXPECT_EQ(schema.features().at("a").records, 1);
  EXPECT_EQ(schema.features().at("a").min_values, 2);
}

}  // namespace
}  // namespace shardfeed
