#include "tfrecord/feature_values.h"

#include <map>
#include <random>
#include <string>

#include "tests/testing/files.h"
#include "tfrecord/example.pb.h"
#include "tfrecord/example_reader.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;

TEST(FeatureReader, ReadsWhatProtocolBuffersWrites) {
  Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  for (int64_t value : {int64_t{0}, int64_t{-1}, int64_t{300}, INT64_MIN, INT64_MAX}) {
    features["i"].mutable_int64_list()->add_value(value);
  }
  features["f"].mutable_float_list()->add_value(1.5);
  features["b"].mutable_bytes_list()->add_value("one");
  features["b"].mutable_bytes_list()->add_value("");
  features["none"];
  const std::string record = example.SerializeAsString();
  FeatureReader reader;
  ASSERT_OK(reader.Read(record));
  std::map<std::string_view, const RecordFeature*> found;
  for (const RecordFeature& feature : reader.features()) found[feature.name] = &feature;
  ASSERT_EQ(found.size(), 4);
  EXPECT_THAT(found["i"]->ints, ElementsAre(0, -1, 300, INT64_MIN, INT64_MAX));
  EXPECT_EQ(found["i"]->kind, FeatureKind::kInt64);
  EXPECT_THAT(found["f"]->floats, ElementsAre(1.5));
  EXPECT_THAT(found["b"]->bytes, ElementsAre("one", ""));
  EXPECT_EQ(found["none"]->kind, FeatureKind::kNone);
}

TEST(FeatureReader, PutsTheStepsOfAFeatureListTogether) {
  SequenceExample example;
  auto& list = (*example.mutable_feature_lists()->mutable_feature_list())["tokens"];
  list.add_feature()->mutable_int64_list()->add_value(1);
  list.add_feature()->mutable_int64_list()->add_value(2);
  list.mutable_feature(1)->mutable_int64_list()->add_value(3);
  const std::string record = example.SerializeAsString();
  FeatureReader reader;
  ASSERT_OK(reader.Read(record));
  ASSERT_EQ(reader.features().size(), 1);
  EXPECT_TRUE(reader.features()[0].is_list);
  EXPECT_THAT(reader.features()[0].ints, ElementsAre(1, 2, 3));
}

TEST(FeatureReader, TakesUnpackedValues) {
  // features { feature { key: "x" value { int64_list { value: 5 value: 6 } } } }, not packed
  const std::string record("\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x1a\x06\x08\x05\x08\x06\x08\x07", 17);
  FeatureReader reader;
  ASSERT_OK(reader.Read(record));
  ASSERT_EQ(reader.features().size(), 1);
  EXPECT_THAT(reader.features()[0].ints, ElementsAre(5, 6, 7));
}

TEST(FeatureReader, TakesTheLastOfSeveralFeaturesWithOneName) {
  std::string record;
  for (int64_t value : {1, 2, 3}) {
    Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    features["x"].mutable_int64_list()->add_value(value);
    features["y" + std::to_string(value)].mutable_float_list()->add_value(0);
    // Concatenated messages are merged.
    record += example.SerializeAsString();
  }
  FeatureReader reader;
  ASSERT_OK(reader.Read(record));
  ASSERT_EQ(reader.features().size(), 4);
  for (const RecordFeature& feature : reader.features()) {
    if (feature.name == "x") {
      EXPECT_THAT(feature.ints, ElementsAre(3));
    }
  }
}

TEST(FeatureReader, FailsWhereTheSchemaFails) {
  Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  for (int i = 0; i < 20; ++i) features["i"].mutable_int64_list()->add_value(i * 1000);
  for (int i = 0; i < 20; ++i) features["f"].mutable_float_list()->add_value(i);
  features["b"].mutable_bytes_list()->add_value("bytes");
  const std::string record = example.SerializeAsString();
  std::mt19937 random(1);
  FeatureReader reader;
  for (int i = 0; i < 20000; ++i) {
    std::string broken = record;
    for (uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
      broken[random() % broken.size()] ^= static_cast<char>(1 << random() % 8);
    }
    broken.resize(broken.size() - (random() % 4 == 0 ? random() % broken.size() : 0));
    size_t expected = 0;
    const absl::Status visited =
        VisitFeatures(broken, [&](const FeatureSummary& summary) { expected += summary.values; });
    const absl::Status read = reader.Read(broken);
    ASSERT_EQ(read, visited);
    size_t values = 0;
    for (const RecordFeature& feature : reader.features()) {
      values += feature.ints.size() + feature.floats.size() + feature.bytes.size();
    }
    // Equal but for names that repeat, of which only the last counts.
    if (read.ok()) {
      ASSERT_LE(values, expected);
    }
  }
  EXPECT_FAILS(reader.Read("hello world"), kDataLoss, "not a tf.train.Example");
  EXPECT_TRUE(reader.features().empty());
}

}  // namespace
}  // namespace shardfeed
