#include "shard/statistics/feature_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/little_endian.h"
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
  statistics.Add(Floats({1}));  // another kind
  EXPECT_EQ(statistics.kind(), FeatureKind::kInt64);
  EXPECT_EQ(statistics.records(), 4);
  EXPECT_EQ(statistics.values(), 4);
  EXPECT_EQ(statistics.zeros(), 1);
  EXPECT_EQ(statistics.min_int(), -7);
  EXPECT_EQ(statistics.max_int(), INT64_MAX);
}

// Long lists are scanned without branches in the bytes of a record, and one by one in a feature.
TEST(FeatureStatistics, OfARecordsBytesAreThoseOfItsFeatures) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const float special[] = {0.0f,      -0.0f, 1e-42f, -1e-42f, INFINITY,
                           -INFINITY, NAN,   -NAN,   3e38f,   -3e38f};
  for (int round = 0; round < 300; ++round) {
    std::vector<float> values(random() % 150);
    for (float& value : values) {
      const bool odd = round % 3 > 0 && random() % (round % 3 == 1 ? 4 : 60) == 0;
      value = odd ? special[random() % std::size(special)] : normal(random);
    }
    // The packed values, in two parts.
    const std::string bytes =
        "r" + std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size());
    const size_t cut = 1 + 4 * (values.empty() ? 0 : random() % values.size());
    const std::vector<ValueSpan> spans = {{1, cut, 0}, {cut, bytes.size(), 0}};
    FeatureStatistics of_feature;
    FeatureStatistics of_bytes;
    for (uint64_t seed : {1, 2}) {
      of_feature.Add(Floats(values), seed);
      of_bytes.Add(FeatureKind::kFloat, bytes, spans, values.size(), seed);
    }
    StatisticsWriter expected;
    StatisticsWriter found;
    of_feature.Write(expected, true);
    of_bytes.Write(found, true);
    ASSERT_EQ(found.code(), expected.code()) << "round " << round;
    EXPECT_EQ(std::signbit(of_bytes.min()), of_bytes.min() < 0);  // 0 is not -0
  }
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
  EXPECT_EQ(statistics.frequent().counted(), FrequentValues::kSampled);
  EXPECT_GT(statistics.frequent().max_error(), 0);
  EXPECT_LE(statistics.frequent().max_error(), values.size() / 20);
  for (const auto& entry : top) {
    EXPECT_NEAR(entry.count, counts[static_cast<int64_t>(entry.key)],
                statistics.frequent().max_error());
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

// ---- The code

std::string CodeOf(const FeatureStatistics& statistics, bool whole = true) {
  StatisticsWriter out;
  statistics.Write(out, whole);
  return out.code();
}

std::optional<FeatureStatistics> Decoded(const std::string& code, uint64_t records) {
  StatisticsReader in(code);
  FeatureStatistics statistics;
  statistics.Read(in, records);
  if (!in.ok() || !in.at_end()) return std::nullopt;
  return statistics;
}

// Records of one feature, of all kinds and shapes of values.
std::vector<std::vector<RecordFeature>> AllSorts(size_t records) {
  std::mt19937_64 random(7);
  static std::vector<std::string> texts;
  for (int i = 0; texts.size() < 3000; ++i) texts.push_back("text " + std::string(i % 60, 'x'));
  for (size_t i = 0; i < texts.size(); ++i) texts[i] += std::to_string(i);
  std::vector<std::vector<RecordFeature>> all(6);
  for (size_t i = 0; i < records; ++i) {
    all[0].push_back(Ints({static_cast<int64_t>(random() % 20) - 10}));
    all[1].push_back(Ints({static_cast<int64_t>(random())}));
    all[2].push_back(Floats({static_cast<float>(random() % 1000) / 7 - 50, NAN, INFINITY}));
    std::vector<float> list(random() % 100);
    for (float& value : list) value = static_cast<float>(random() % 100);
    all[3].push_back(Floats(list));
    all[4].push_back(Bytes({texts[random() % 3], texts[random() % 3]}));
    all[5].push_back(Bytes({texts[random() % texts.size()]}));
  }
  return all;
}

TEST(FeatureStatistics, OfManyRecordsWithOneValueAreThoseOfEach) {
  for (const uint64_t different : {300, 5000}) {
    std::mt19937 random(6);
    FeatureStatistics floats, ints, each_float, each_int;
    for (int batch = 0; batch < 40; ++batch) {
      std::vector<uint64_t> seeds;
      std::vector<int64_t> numbers;
      std::string bytes;
      for (int i = 0; i < 256; ++i) {
        seeds.push_back(Spread(256 * batch + i));
        numbers.push_back(static_cast<int64_t>(random() % different) - 100);
        const float value = static_cast<float>(numbers.back()) / 8;
        AppendLittleEndian(std::bit_cast<uint32_t>(value), &bytes);
        each_float.Add(Floats({value}), seeds.back());
        each_int.Add(Ints({numbers.back()}), seeds.back());
      }
      const char* const ints_of_batch = reinterpret_cast<const char*>(numbers.data());
      for (size_t i = 0; i < seeds.size(); ++i) {
        if (seeds[i] <= floats.SeedLimit(FeatureKind::kFloat)) {
          floats.Offer(FeatureKind::kFloat, bytes.data() + 4 * i, seeds[i]);
        }
        if (seeds[i] <= ints.SeedLimit(FeatureKind::kInt64)) {
          ints.Offer(FeatureKind::kInt64, ints_of_batch + 8 * i, seeds[i]);
        }
      }
      floats.AddSingles(FeatureKind::kFloat, bytes.data(), seeds.size());
      ints.AddSingles(FeatureKind::kInt64, ints_of_batch, seeds.size());
    }
    EXPECT_EQ(CodeOf(floats), CodeOf(each_float));
    EXPECT_EQ(CodeOf(ints), CodeOf(each_int));
  }
}

TEST(FeatureStatistics, DoNotDependOnTheOrder) {
  std::mt19937 random(8);
  for (const std::vector<RecordFeature>& records : AllSorts(5000)) {
    FeatureStatistics forward;
    for (size_t i = 0; i < records.size(); ++i) forward.Add(records[i], Spread(i));
    std::vector<size_t> order(records.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    FeatureStatistics parts[5];
    for (size_t i : order) parts[random() % 5].Add(records[i], Spread(i));
    FeatureStatistics merged;
    for (int part : {3, 0, 4, 1, 2}) merged.Merge(parts[part]);
    EXPECT_EQ(CodeOf(merged), CodeOf(forward));
    EXPECT_EQ(merged.mean(), forward.mean());
    EXPECT_EQ(merged.deviation(), forward.deviation());
  }
}

TEST(FeatureStatistics, DoNotDependOnTheOrderOfKinds) {
  FeatureStatistics a;
  a.Add(Bytes({"x"}));
  a.Add(Ints({1}));
  FeatureStatistics b;
  b.Add(Floats({1}));
  FeatureStatistics merged = b;
  merged.Merge(a);
  a.Merge(b);
  EXPECT_EQ(CodeOf(a), CodeOf(merged));
  EXPECT_EQ(a.kind(), FeatureKind::kInt64);
  EXPECT_EQ(a.records(), 1);
}

TEST(FeatureStatistics, SurviveTheirCode) {
  for (const std::vector<RecordFeature>& records : AllSorts(3000)) {
    FeatureStatistics original;
    FeatureStatistics more;
    for (size_t i = 0; i < records.size(); ++i) {
      (i % 3 == 0 ? more : original).Add(records[i], Spread(i));
    }
    std::optional<FeatureStatistics> whole = Decoded(CodeOf(original), 3000);
    ASSERT_TRUE(whole.has_value());
    EXPECT_EQ(CodeOf(*whole), CodeOf(original));
    // The result is the same as if the original had been merged.
    whole->Merge(more);
    FeatureStatistics expected = original;
    expected.Merge(more);
    EXPECT_EQ(CodeOf(*whole), CodeOf(expected));

    const std::string brief = CodeOf(original, false);
    EXPECT_LE(brief.size(), 64 << 10);
    std::optional<FeatureStatistics> told = Decoded(brief, 3000);
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(CodeOf(*told, false), brief);
    EXPECT_EQ(told->frequent().max_error(), original.frequent().max_error());
    EXPECT_EQ(told->Quantile(0.5), original.Quantile(0.5));
    const auto ours = original.frequent().Top(5);
    const auto theirs = told->frequent().Top(5);
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i].key, theirs[i].key);
      EXPECT_EQ(ours[i].count, theirs[i].count);
      EXPECT_EQ(ours[i].text, theirs[i].text);
    }
    // Merging these approximates frequent values, and is exact in everything else.
    FeatureStatistics both = *told;
    both.Merge(more);
    EXPECT_EQ(both.values(), expected.values());
    EXPECT_EQ(both.mean(), expected.mean());
    EXPECT_EQ(both.frequent().counted(), expected.frequent().counted());
  }
}

// Whoever writes a manifest may write anything.
TEST(FeatureStatistics, DoNotBelieveTheirCode) {
  std::mt19937 random(9);
  size_t refused = 0;
  for (const std::vector<RecordFeature>& records : AllSorts(300)) {
    FeatureStatistics original;
    for (const RecordFeature& record : records) original.Add(record);
    for (bool whole : {true, false}) {
      const std::string code = CodeOf(original, whole);
      for (size_t end = 0; end < code.size(); end += 1 + code.size() / 200) {
        EXPECT_FALSE(Decoded(code.substr(0, end), 300).has_value());
      }
      EXPECT_FALSE(Decoded(code, 100).has_value());  // more records than there are
      for (int i = 0; i < 500; ++i) {
        std::string changed = code;
        for (int k = 0; k < 1 + i % 4; ++k) {
          changed[random() % changed.size()] = static_cast<char>(random());
        }
        std::optional<FeatureStatistics> decoded = Decoded(changed, 300);
        refused += !decoded.has_value();
        if (!decoded) continue;
        // What is accepted can be used.
        bool exact;
        decoded->Quantile(0.9);
        decoded->frequent().Top(20);
        decoded->Distinct(&exact);
        EXPECT_GE(decoded->deviation(), 0);
        decoded->Merge(original);
        CodeOf(*decoded);
      }
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(FeatureStatistics, LooksAtSomeValuesOfLongLists) {
  // Ten thousand lists in which every second value is 1000 more: whoever looks at each 64th value
  // sees only one half.
  FeatureStatistics statistics;
  std::vector<int64_t> list(1024);
  for (int i = 0; i < 10000; ++i) {
    for (size_t k = 0; k < list.size(); ++k) {
      list[k] = static_cast<int64_t>(k % 2 * 1000 + (i + k) % 10);
    }
    statistics.Add(Ints(list), Spread(i));
  }
  EXPECT_EQ(statistics.values(), 10240000);
  EXPECT_EQ(statistics.min_int(), 0);
  EXPECT_EQ(statistics.max_int(), 1009);
  EXPECT_EQ(statistics.zeros(), 512000);
  EXPECT_EQ(statistics.histogram().count(), 10240000);
  EXPECT_NEAR(statistics.mean(), 504.5, 10);
  EXPECT_NEAR(statistics.deviation(), 500, 5);
  bool exact;
  statistics.Distinct(&exact);
  EXPECT_FALSE(exact);
}

TEST(NumberHistogram, SumsExactly) {
  // The sum of doubles would be 0 in the one order and 2 in the other.
  for (bool small_first : {false, true}) {
    NumberHistogram histogram;
    if (small_first) histogram.Add(1, 2);
    histogram.Add(1e17);
    histogram.Add(-1e17);
    if (!small_first) histogram.Add(1, 2);
    EXPECT_EQ(histogram.Mean(), 0.5);
  }
  NumberHistogram close;
  for (int i = 0; i < 1000; ++i) close.Add(1e15 + i % 2);
  EXPECT_EQ(close.Mean(), 1e15 + 0.5);
  EXPECT_EQ(close.Deviation(), 0.5);
}

TEST(NumberHistogram, AddsFloatsAsOneByOne) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(1, 100);
  std::vector<float> values = {0.0f, -0.0f, 1e-42f, -1e-42f, INFINITY, -INFINITY, NAN, 3e38f};
  for (int i = 0; i < 200000; ++i) {
    values.push_back(i % 2 == 0 ? std::bit_cast<float>(static_cast<uint32_t>(random()))
                                : normal(random));
  }
  std::string bytes;
  NumberHistogram one_by_one;
  for (const float value : values) {
    AppendLittleEndian(std::bit_cast<uint32_t>(value), &bytes);
    if (std::isfinite(value)) one_by_one.Add(value);
  }
  NumberHistogram together;
  together.AddFloats(bytes.data(), values.size());
  StatisticsWriter expected, got;
  one_by_one.Write(expected);
  together.Write(got);
  EXPECT_EQ(together.count(), one_by_one.count());
  EXPECT_EQ(got.code(), expected.code());
}

TEST(StatisticsReader, ReadsOnlyTheShortestNumbers) {
  StatisticsWriter out;
  const unsigned __int128 large = ~(unsigned __int128){0};
  out.Number(large);
  out.Number(0);
  out.Number(127);
  StatisticsReader in(out.code());
  EXPECT_TRUE(in.Wide() == large);
  EXPECT_EQ(in.Number(), 0);
  EXPECT_EQ(in.Number(), 127);
  EXPECT_TRUE(in.ok() && in.at_end());
  StatisticsReader longer(std::string_view("\x80\x00", 2));
  longer.Number();
  EXPECT_FALSE(longer.ok());
  const std::string ones(30, '\xff');
  StatisticsReader wider(ones);
  wider.Wide();
  EXPECT_FALSE(wider.ok());
}

}  // namespace
}  // namespace shardfeed
