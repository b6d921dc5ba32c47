#include "shard/statistics/dataset_statistics.h"

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "shardfeed/examples.h"
#include "tests/testing/files.h"
#include "tfrecord/crc32c.h"

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

std::string Varied(int i) {
  return Record([&](ExampleBuilder& b) {
    b.AddInt64("i", i * 37 % 1000);
    b.AddBytes("text", std::string(i % 7, 'a'));
    if (i % 3 != 0) b.AddFloatList("list", std::vector<float>(i % 40, 0.5f * i));
    if (i % 5 != 0) b.AddInt64List("ids", std::vector<int64_t>(i % 4, i));
  });
}

// Records are shown to the statistics by the schema, whether it knows their layout already or not.
TEST(DatasetStatistics, EqualThoseOfFeaturesReadOneByOne) {
  DatasetStatistics statistics;
  std::map<std::string, FeatureStatistics> expected;
  FeatureReader reader;
  for (int i = 0; i < 3000; ++i) {
    const std::string record = Varied(i / 3);
    statistics.AddRecord(record);
    ASSERT_OK(reader.Read(record));
    for (const RecordFeature& feature : reader.features()) {
      if (feature.kind != FeatureKind::kNone) expected[std::string(feature.name)].Add(feature);
    }
  }
  ASSERT_EQ(statistics.features().size(), expected.size());
  for (const auto& [name, feature] : statistics.features()) {
    const FeatureStatistics& other = expected.at(name);
    EXPECT_EQ(feature.records(), other.records()) << name;
    EXPECT_EQ(feature.values(), other.values()) << name;
    EXPECT_EQ(feature.min(), other.min()) << name;
    EXPECT_EQ(feature.max(), other.max()) << name;
    EXPECT_EQ(feature.total_bytes(), other.total_bytes()) << name;
    EXPECT_EQ(feature.lengths().Mean(), other.lengths().Mean()) << name;
    if (name == "i" || name == "ids") {
      EXPECT_EQ(feature.mean(), other.mean()) << name;
      EXPECT_EQ(feature.deviation(), other.deviation()) << name;
    }
  }
  bool exact;
  EXPECT_EQ(statistics.values().equal_records().repeated(&exact), 2000);
  EXPECT_TRUE(exact);
}

// Example { features { feature { key: "n" value { int64_list { value: [5, 6] } } } } }, not packed.
TEST(DatasetStatistics, KnowsUnpackedNumbers) {
  const std::string record("\x0a\x0d\x0a\x0b\x0a\x01n\x12\x06\x1a\x04\x08\x05\x08\x06", 15);
  DatasetStatistics statistics;
  for (int i = 0; i < 3; ++i) statistics.AddRecord(record);
  EXPECT_EQ(statistics.schema().not_examples(), 0);
  const FeatureStatistics& feature = statistics.features().at("n");
  EXPECT_EQ(feature.values(), 6);
  EXPECT_EQ(feature.mean(), 5.5);
}

TEST(DatasetStatistics, KeepsTheFirstNamesOfManyFeatures) {
  DatasetStatistics one;
  DatasetStatistics parts[2];
  for (int i = 0; i < 600; ++i) {
    const std::string record = Record([&](ExampleBuilder& b) {
      for (int k = 0; k < 300; ++k) b.AddInt64(fmt::format("f{:04}", (i * 7 + k * 3) % 1000), k);
    });
    one.AddRecord(record);
    parts[i % 2].AddRecord(record);
  }
  parts[1].Merge(parts[0]);
  EXPECT_FALSE(one.values().has_all());
  ASSERT_EQ(one.features().size(), ValueStatistics::kMaxFeatures);
  EXPECT_EQ(one.features().rbegin()->first, "f0255");
  for (const auto& [name, feature] : one.features()) {
    EXPECT_EQ(feature.records(), one.schema().features().at(name).records) << name;
    EXPECT_EQ(feature.mean(), parts[1].features().at(name).mean()) << name;
  }
}

TEST(ValueStatistics, SurviveTheirCode) {
  DatasetStatistics statistics;
  for (int i = 0; i < 2000; ++i) statistics.AddRecord(Varied(i));
  for (bool whole : {true, false}) {
    const std::string code = statistics.values().Format(whole);
    const std::optional<ValueStatistics> read = ValueStatistics::Parse(code, 2000);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->Format(whole), code);
    EXPECT_FALSE(ValueStatistics::Parse(code, 1999).has_value());
    EXPECT_FALSE(ValueStatistics::Parse(code.substr(1), 2000).has_value());
    EXPECT_FALSE(ValueStatistics::Parse("", 2000).has_value());
    for (size_t i = 0; i < code.size(); i += 1 + code.size() / 300) {
      std::string changed = code;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      EXPECT_FALSE(ValueStatistics::Parse(changed, 2000).has_value()) << i;
    }
  }
}

TEST(EqualRecords, EstimatesWhatItCannotCount) {
  constexpr uint64_t kDifferent = 4 * EqualRecords::kExact;
  EqualRecords one;
  EqualRecords parts[3];
  for (uint64_t i = 0; i < 2 * kDifferent; ++i) {
    const std::string record = fmt::format("record {}", i % kDifferent);
    const uint32_t crc = Crc32c(record);
    one.Add(record, crc);
    parts[i % 3].Add(record, crc);
  }
  bool exact;
  EXPECT_NEAR(static_cast<double>(*one.repeated(&exact)), kDifferent, 0.03 * kDifferent);
  EXPECT_FALSE(exact);
  for (int part : {0, 1}) parts[2].Merge(parts[part]);
  EXPECT_EQ(parts[2].repeated(&exact), one.repeated(&exact));
  // A result alone does not say what it has in common with others.
  StatisticsWriter out;
  one.Write(out, false);
  StatisticsReader in(out.code());
  EqualRecords read;
  read.Read(in, 2 * kDifferent);
  EXPECT_EQ(read.repeated(&exact), one.repeated(&exact));
  EqualRecords empty;
  empty.Merge(read);
  EXPECT_EQ(empty.repeated(&exact), one.repeated(&exact));
  read.Merge(parts[0]);
  EXPECT_EQ(read.repeated(&exact), std::nullopt);
}

TEST(EqualRecords, KeepsOnlyTheResultOfEarlierDigests) {
  StatisticsWriter out;
  for (uint64_t number : {3, 0, 1, 2}) out.Number(number);  // records, mask, earlier, digests
  out.Fixed(5, 8);
  out.Number(2);
  out.Fixed(9, 8);
  out.Number(1);
  StatisticsReader in(out.code());
  EqualRecords earlier;
  earlier.Read(in, 3);
  EXPECT_TRUE(in.ok() && in.at_end());
  bool exact;
  EXPECT_EQ(earlier.repeated(&exact), 1);
  EXPECT_TRUE(exact);
  EqualRecords others;
  others.Add("record", Crc32c("record"));
  earlier.Merge(others);
  EXPECT_EQ(earlier.repeated(&exact), std::nullopt);
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

TEST(Compare, MeasuresValuesThatAreNoNumbersAndLengths) {
  const auto of = [](const auto& fill) {
    DatasetStatistics statistics;
    for (int i = 0; i < 1000; ++i) {
      statistics.AddRecord(Record([&](ExampleBuilder& builder) { fill(i, builder); }));
    }
    return statistics;
  };
  const auto compared = [](const DatasetStatistics& a, const DatasetStatistics& b) {
    const Drift drift = Compare(a, b, "a", "b").drift.at(0);
    EXPECT_TRUE(drift.significant);
    return fmt::format("{} {:.2f}", drift.measure, drift.distance);
  };
  const auto floats = [&](float every_second) {
    return of([=](int i, ExampleBuilder& b) {
      b.AddFloat("x", i % 2 == 0 ? every_second : static_cast<float>(i));
    });
  };
  const DatasetStatistics plain = floats(500);
  EXPECT_EQ(compared(plain, floats(NAN)), "NaN 0.50");
  EXPECT_EQ(compared(plain, floats(INFINITY)), "infinite 0.50");
  EXPECT_EQ(compared(plain, of([](int, ExampleBuilder& b) { b.AddFloat("x", NAN); })), "NaN 1.00");
  const auto lists = [&](int least) {
    return of([=](int i, ExampleBuilder& b) {
      b.AddInt64List("x", std::vector<int64_t>(least + i % 3, 5));
    });
  };
  EXPECT_EQ(compared(lists(1), lists(50)), "length 1.00");
}

TEST(Compare, NamesFeaturesWithoutStatistics) {
  const auto of = [](int64_t value) {
    DatasetStatistics statistics;
    statistics.AddRecord(Record([&](ExampleBuilder& builder) {
      for (int i = 0; i < 300; ++i) builder.AddInt64(fmt::format("c{:03}", i), value);
    }));
    return statistics;
  };
  const DatasetDifference difference = Compare(of(1), of(2), "a", "b");
  EXPECT_EQ(difference.drift.size(), 300);
  ASSERT_EQ(difference.not_compared.size(), 300 - ValueStatistics::kMaxFeatures);
  EXPECT_EQ(difference.not_compared.front(), "c256");
  EXPECT_FALSE(of(1).CountsValuesOf("c299"));
  EXPECT_TRUE(of(1).CountsValuesOf("c000"));
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
