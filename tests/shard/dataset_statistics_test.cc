#include "shard/dataset_statistics.h"

#include <string>

#include "shardfeed/examples.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <typename Fill>
std::string Record(Fill fill) {
  ExampleBuilder builder;
  fill(builder);
  std::string bytes;
  builder.SerializeExample(&bytes);
  return bytes;
}

DatasetStatistics Numbers(int begin, int end) {
  DatasetStatistics statistics;
  for (int i = begin; i < end; ++i) {
    statistics.AddRecord(Record([&](ExampleBuilder& b) {
      b.AddInt64("i", i);
      b.AddBytes("color", i % 2 == 0 ? "red" : "green");
      if (i % 10 != 0) b.AddFloat("f", static_cast<float>(i));
    }));
  }
  return statistics;
}

TEST(DatasetStatistics, KnowsEachFeature) {
  DatasetStatistics statistics = Numbers(0, 500);
  statistics.Merge(Numbers(500, 1000));
  statistics.AddRecord("no Example");
  EXPECT_EQ(statistics.schema().records(), 1001);
  EXPECT_EQ(statistics.schema().not_examples(), 1);
  ASSERT_EQ(statistics.features().size(), 3);
  EXPECT_EQ(statistics.features().at("i").max_int(), 999);
  EXPECT_EQ(statistics.features().at("f").values(), 900);
  EXPECT_EQ(statistics.features().at("color").frequent().size(), 2);
}

TEST(Compare, EqualDatasetsDoNotDiffer) {
  const DatasetDifference difference = Compare(Numbers(0, 1000), Numbers(0, 1000), "a", "b");
  EXPECT_THAT(difference.schema, IsEmpty());
  ASSERT_EQ(difference.drift.size(), 3);
  for (const Drift& drift : difference.drift) {
    EXPECT_EQ(drift.distance, 0) << drift.feature;
    EXPECT_FALSE(drift.significant);
  }
}

TEST(Compare, NamesDifferencesOfTheSchema) {
  DatasetStatistics a;
  DatasetStatistics b;
  a.AddRecord(Record([](ExampleBuilder& builder) {
    builder.AddInt64("kind", 1);
    builder.AddInt64("only a", 1);
    builder.AddInt64List("shape", {1, 2, 3});
    builder.AddInt64List("ragged", {1, 2});
  }));
  b.AddRecord(Record([](ExampleBuilder& builder) {
    builder.AddFloat("kind", 1);
    builder.AddInt64("only b", 1);
    builder.AddInt64("shape", 1);
    builder.AddInt64List("ragged", {1, 2});
  }));
  b.AddRecord(Record([](ExampleBuilder& builder) {
    builder.AddInt64("shape", 1);
    builder.AddInt64List("ragged", {});
  }));
  EXPECT_THAT(Compare(a, b, "train", "val").schema,
              ElementsAre("feature 'kind' is int64 in train and float in val",
                          "only train has feature 'only a'",
                          "feature 'shape' has 3 values in train and one value in val",
                          "only val has feature 'only b'"));
}

TEST(Compare, MeasuresNumbersFrequenciesAndMissingValues) {
  DatasetStatistics a;
  DatasetStatistics b;
  for (int i = 0; i < 1000; ++i) {
    const auto add = [&](DatasetStatistics& to, int64_t number, const char* text, bool present) {
      to.AddRecord(Record([&](ExampleBuilder& builder) {
        builder.AddFloat("number", static_cast<float>(number));
        builder.AddBytes("text", text);
        if (present) builder.AddInt64("rare", 1);
      }));
    };
    add(a, i, i < 500 ? "x" : "y", true);
    add(b, i + 600, i < 400 ? "x" : "y", i % 4 != 0);
  }
  const std::vector<Drift> drift = Compare(a, b, "a", "b").drift;
  ASSERT_EQ(drift.size(), 3);
  EXPECT_EQ(drift[0].feature, "number");
  EXPECT_NEAR(drift[0].distance, 0.6, 0.005);
  EXPECT_EQ(drift[0].measure, "distribution");
  EXPECT_TRUE(drift[0].significant);
  EXPECT_EQ(drift[1].feature, "rare");
  EXPECT_NEAR(drift[1].distance, 0.25, 1e-9);
  EXPECT_EQ(drift[1].measure, "missing");
  EXPECT_EQ(drift[2].feature, "text");
  EXPECT_NEAR(drift[2].distance, 0.1, 1e-9);
  EXPECT_EQ(drift[2].measure, "frequency");
}

TEST(Compare, DoesNotTakeChanceForDrift) {
  const DatasetStatistics all = Numbers(0, 1000);
  DatasetStatistics few;
  for (int i : {10, 950, 980}) few.Merge(Numbers(i, i + 1));
  for (const Drift& drift : Compare(all, few, "a", "b").drift) {
    EXPECT_FALSE(drift.significant) << drift.feature << " " << drift.distance;
  }
}

}  // namespace
}  // namespace shardfeed
