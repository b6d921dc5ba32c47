#include "shard/feature_statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

RecordFeature Ints(std::vector<int64_t> values) {
  RecordFeature feature;
  feature.kind = FeatureKind::kInt64;
  feature.ints = std::move(values);
  return feature;
}

RecordFeature Floats(std::vector<float> values) {
  RecordFeature feature;
  feature.kind = FeatureKind::kFloat;
  feature.floats = std::move(values);
  return feature;
}

RecordFeature Bytes(std::vector<std::string_view> values) {
  RecordFeature feature;
  feature.kind = FeatureKind::kBytes;
  feature.bytes = std::move(values);
  return feature;
}

TEST(FeatureStatistics, CountsAreExact) {
  FeatureStatistics statistics;
  statistics.Add(Ints({3, -7}));
  statistics.Add(Ints({}));
  statistics.Add(Ints({INT64_MAX}));
  statistics.Add(Ints({0}));
  statistics.Add(Floats({1}));  // of another kind
  EXPECT_EQ(statistics.kind(), FeatureKind::kInt64);
  EXPECT_EQ(statistics.records(), 4);
  EXPECT_EQ(statistics.values(), 4);
  EXPECT_EQ(statistics.zeros(), 1);
  EXPECT_EQ(statistics.min_int(), -7);
  EXPECT_EQ(statistics.max_int(), INT64_MAX);
}

TEST(FeatureStatistics, LeavesNaNAndInfinityOutOfTheRest) {
  FeatureStatistics statistics;
  statistics.Add(Floats({NAN, 1, INFINITY, 3, -INFINITY, -NAN}));
  EXPECT_EQ(statistics.nan(), 2);
  EXPECT_EQ(statistics.infinite(), 2);
  EXPECT_EQ(statistics.values(), 6);
  EXPECT_EQ(statistics.mean(), 2);
  EXPECT_EQ(statistics.deviation(), 1);
  EXPECT_EQ(statistics.min(), 1);
  EXPECT_EQ(statistics.max(), 3);
  bool exact;
  EXPECT_EQ(statistics.Distinct(&exact), 5);  // one NaN
}

// Adds the values in records of several sizes, to several statistics that are then merged.
template <typename T, typename Make>
FeatureStatistics InParts(const std::vector<T>& values, Make make) {
  FeatureStatistics parts[3];
  size_t i = 0;
  for (size_t record = 0; i < values.size(); ++record) {
    const size_t end = std::min(values.size(), i + record % 5);
    parts[record * 3 / values.size() % 3].Add(make({values.begin() + i, values.begin() + end}));
    i = end;
  }
  for (size_t part : {1, 2}) parts[0].Merge(parts[part]);
  return std::move(parts[0]);
}

template <typename T>
void CheckAgainstSorting(const FeatureStatistics& statistics, std::vector<T> values) {
  double mean = 0;
  for (T value : values) mean += static_cast<double>(value) / values.size();
  double squares = 0;
  for (T value : values) squares += std::pow(static_cast<double>(value) - mean, 2) / values.size();
  EXPECT_NEAR(statistics.mean(), mean, 1e-9 * std::sqrt(squares) + 1e-12 * std::abs(mean));
  EXPECT_NEAR(statistics.deviation(), std::sqrt(squares), 1e-6 * std::sqrt(squares));
  std::sort(values.begin(), values.end());
  for (double share : {0.0, 0.01, 0.25, 0.5, 0.9, 0.999, 1.0}) {
    const auto rank = std::max<size_t>(1, std::ceil(share * values.size()));
    const auto expected = static_cast<double>(values[rank - 1]);
    EXPECT_NEAR(statistics.Quantile(share), expected, 0.004 * std::abs(expected)) << share;
  }
}

TEST(FeatureStatistics, EqualsSortingAllFloats) {
  std::mt19937 random(1);
  std::lognormal_distribution<float> wide(0, 3);
  std::normal_distribution<float> around(0, 1);
  // As times are: much larger than they differ.
  std::normal_distribution<float> far(1e6, 10);
  for (auto draw : {std::function<float()>([&] { return wide(random); }),
                    std::function<float()>([&] { return around(random); }),
                    std::function<float()>([&] { return far(random); })}) {
    std::vector<float> values(20000);
    for (float& value : values) value = draw();
    CheckAgainstSorting(InParts(values, Floats), values);
  }
}

TEST(FeatureStatistics, EqualsSortingAllIntegers) {
  std::mt19937_64 random(2);
  for (int64_t range : {int64_t{100}, int64_t{1'000'000}, int64_t{1'000'000'000'000}}) {
    std::vector<int64_t> values(20000);
    for (int64_t& value : values) value = static_cast<int64_t>(random() % range) - range / 4;
    CheckAgainstSorting(InParts(values, Ints), values);
  }
}

TEST(FeatureStatistics, QuantilesOfSmallWholeNumbersAreExact) {
  FeatureStatistics statistics;
  for (int64_t value = -256; value <= 256; ++value) statistics.Add(Ints({value}));
  for (int i = 1; i <= 513; ++i) {
    EXPECT_EQ(statistics.Quantile((i - 0.5) / 513), i - 257) << i;
  }
}

TEST(FeatureStatistics, MergingWithNothingChangesNothing) {
  FeatureStatistics statistics;
  statistics.Merge(FeatureStatistics());
  EXPECT_EQ(statistics.kind(), FeatureKind::kNone);
  EXPECT_EQ(statistics.Quantile(0.5), 0);
  FeatureStatistics some;
  some.Add(Floats({2, 4}));
  statistics.Merge(some);
  some.Merge(FeatureStatistics());
  EXPECT_EQ(statistics.mean(), 3);
  EXPECT_EQ(some.mean(), 3);
  EXPECT_EQ(statistics.Quantile(1), 4);
}

TEST(FeatureStatistics, CountsFewValuesExactly) {
  FeatureStatistics statistics;
  for (int i = 0; i < 1000; ++i) statistics.Add(Bytes({i % 3 == 0 ? "a" : "bb"}));
  const auto top = statistics.frequent().Top(5);
  ASSERT_EQ(top.size(), 2);
  EXPECT_EQ(top[0].text, "bb");
  EXPECT_EQ(top[0].count, 666);
  EXPECT_EQ(top[1].count, 334);
  EXPECT_EQ(statistics.total_bytes(), 2 * 666 + 334);
  bool exact;
  EXPECT_EQ(statistics.Distinct(&exact), 2);
  EXPECT_TRUE(exact);
}

TEST(FeatureStatistics, FindsFrequentValuesAmongManyWithinTheError) {
  std::mt19937_64 random(3);
  std::map<int64_t, uint64_t> counts;
  std::vector<int64_t> values(200000);
  for (int64_t& value : values) {
    // Five of a hundred values are 7, and three are 8; the others are nearly all different.
    const uint64_t kind = random() % 100;
    value = kind < 5 ? 7 : kind < 8 ? 8 : static_cast<int64_t>(random() >> 20);
    ++counts[value];
  }
  const FeatureStatistics statistics = InParts(values, Ints);
  const auto top = statistics.frequent().Top(2);
  ASSERT_EQ(top.size(), 2);
  EXPECT_EQ(top[0].key, 7);
  EXPECT_EQ(top[1].key, 8);
  EXPECT_LE(statistics.frequent().size(), 2 * FrequentValues::kCapacity);
  EXPECT_LE(statistics.frequent().max_error(), values.size() / FrequentValues::kCapacity);
  for (const auto& entry : statistics.frequent().Top(SIZE_MAX)) {
    const uint64_t count = counts[static_cast<int64_t>(entry.key)];
    EXPECT_LE(entry.count, count);
    EXPECT_GE(entry.count + statistics.frequent().max_error(), count);
  }
  bool exact;
  const auto distinct = static_cast<double>(statistics.Distinct(&exact));
  EXPECT_FALSE(exact);
  EXPECT_NEAR(distinct, counts.size(), 0.06 * counts.size());
}

TEST(FeatureStatistics, KeepsTheBeginningOfLongValues) {
  FeatureStatistics statistics;
  const std::string image(100000, 'x');
  statistics.Add(Bytes({image}));
  const auto top = statistics.frequent().Top(1);
  EXPECT_EQ(top[0].text.size(), FrequentValues::kShownBytes);
  EXPECT_EQ(top[0].bytes, image.size());
}

TEST(NumberHistogram, MeasuresTheDistanceOfDistributions) {
  NumberHistogram a;
  NumberHistogram b;
  for (int i = 0; i < 100; ++i) {
    a.Add(i);
    b.Add(i + 25);
  }
  EXPECT_NEAR(NumberHistogram::Distance(a, b), 0.25, 1e-9);
  EXPECT_EQ(NumberHistogram::Distance(a, a), 0);
  NumberHistogram far;
  far.Add(-1e300);
  EXPECT_EQ(NumberHistogram::Distance(a, far), 1);
}

TEST(NumberHistogram, TakesNumbersOfAllSizes) {
  NumberHistogram histogram;
  for (double value : {-1.7e308, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1.7e308}) {
    histogram.Add(value);
  }
  EXPECT_LT(histogram.Quantile(0), -1.6e308);
  EXPECT_EQ(histogram.Quantile(0.25), -1);
  EXPECT_EQ(histogram.Quantile(0.5), 0);
  EXPECT_GT(histogram.Quantile(1), 1.6e308);
}

}  // namespace
}  // namespace shardfeed
