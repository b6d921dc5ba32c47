#include "convert/converter.h"

#include <map>

#include "shard/manifest/manifest.h"
#include "shardfeed/index.h"
#include "shardfeed/verify.h"
#include "tests/testing/files.h"
#include "tfrecord/example.pb.h"

namespace shardfeed {
namespace {

using testing::ReadBytes;
using testing::TestFolder;

// The numbers 0 to n-1, with faults on demand.
class NumberSource : public Source {
 public:
  explicit NumberSource(uint64_t n) : n_(n) {}

  absl::Status Scan(std::stop_token, const std::function<void(uint64_t)>&) override {
    return absl::OkStatus();
  }
  uint64_t num_records() const override { return n_; }
  uint64_t num_bytes() const override { return 8 * n_; }
  std::vector<std::string> notes() const override { return {"a note"}; }
  std::string InputFingerprint() const override { return std::to_string(n_); }
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override {
    for (uint64_t i = 0; i < n_ + surplus; ++i) {
      const std::string bytes = std::to_string(i % distinct);
      absl::Status status = sink({.bytes = bytes, .line = i + 1});
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override {
    if (item.line > fail_from || item.line == fail_at + 1) {
      return absl::DataLossError("numbers:" + std::to_string(item.line) + ": wrong");
    }
    builder.AddInt64("number", std::stoll(std::string(item.bytes)));
    return absl::OkStatus();
  }

  int64_t surplus = 0;
  uint64_t distinct = UINT64_MAX;
  uint64_t fail_at = UINT64_MAX;
  uint64_t fail_from = UINT64_MAX;

 private:
  uint64_t n_;
};

class ConvertTest : public ::testing::Test {
 protected:
  ConvertOptions To(const std::string& name) {
    ConvertOptions options;
    options.output = *ParseOutputSpec(folder_ / name);
    return options;
  }
  std::vector<int64_t> Numbers(const std::string& name) {
    std::vector<int64_t> numbers;
    const auto access = RandomAccess::Open(*ResolveSpec(folder_ / name), 1);
    EXPECT_OK((*access)->Read(0, (*access)->num_records(), [&](uint64_t, std::string_view payload) {
      Example example;
      EXPECT_TRUE(example.ParseFromArray(payload.data(), payload.size()));
      numbers.push_back(example.features().feature().at("number").int64_list().value(0));
      return absl::OkStatus();
    }));
    return numbers;
  }
  std::vector<int64_t> Count(int64_t n) {
    std::vector<int64_t> numbers(n);
    for (int64_t i = 0; i < n; ++i) numbers[i] = i;
    return numbers;
  }

  TestFolder folder_;
};

TEST_F(ConvertTest, KeepsTheOrderThroughTheShards) {
  for (uint64_t shards : {1, 2, 7, 64}) {
    NumberSource source(20000);
    ConvertOptions options = To("d@" + std::to_string(shards));
    options.overwrite = true;
    const auto manifests = Convert(source, options);
    ASSERT_OK(manifests);
    ASSERT_EQ(manifests->size(), 1);
    const Manifest* manifest = &manifests->front();
    EXPECT_EQ(manifest->shards.size(), shards);
    EXPECT_EQ(manifest->notes, std::vector<std::string>{"a note"});
    EXPECT_EQ(Numbers("d@*"), Count(20000));
    for (const ManifestShard& shard : manifest->shards) {
      EXPECT_NEAR(shard.records, 20000.0 / shards, 1.0);
    }
  }
}

TEST_F(ConvertTest, FewerRecordsThanShards) {
  NumberSource source(3);
  ASSERT_OK(Convert(source, To("d@8")));
  EXPECT_EQ(Numbers("d@8"), Count(3));
  EXPECT_EQ(Verify(*ResolveSpec(folder_ / "d@8"), {})->num_defects(), 0);
}

TEST_F(ConvertTest, ShuffleIsTheSameForAnyNumberOfThreadsAndShards) {
  std::vector<int64_t> order;
  for (int threads : {1, 3}) {
    for (const char* name : {"a@2", "b@5"}) {
      NumberSource source(5000);
      ConvertOptions options = To(name);
      options.shuffle_seed = 9;
      options.threads = threads;
      options.overwrite = true;
      ASSERT_OK(Convert(source, options));
      if (order.empty()) order = Numbers(name);
      EXPECT_EQ(Numbers(name), order);
    }
  }
  EXPECT_NE(order, Count(5000));
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, Count(5000));
}

TEST_F(ConvertTest, LimitTakesTheFirstOfTheOrder) {
  NumberSource source(5000);
  ConvertOptions options = To("d@2");
  options.limit = 10;
  ASSERT_OK(Convert(source, options));
  EXPECT_EQ(Numbers("d@2"), Count(10));
  options.overwrite = true;
  options.shuffle_seed = 1;
  ASSERT_OK(Convert(source, options));
  EXPECT_EQ(Numbers("d@2").size(), 10);
  EXPECT_NE(Numbers("d@2"), Count(10));
}

TEST_F(ConvertTest, ShardSizeChoosesTheNumber) {
  NumberSource source(10000);  // about 30 bytes per frame
  ConvertOptions options = To("d");
  options.shard_bytes = 100000;
  const auto manifests = Convert(source, options);
  ASSERT_OK(manifests);
  EXPECT_GE(manifests->front().shards.size(), 3);
  EXPECT_LE(manifests->front().shards.size(), 5);
}

TEST_F(ConvertTest, FirstWrongRecordIsReportedAndNothingIsLeft) {
  NumberSource source(100000);
  source.fail_from = 5000;
  ConvertOptions options = To("d@4");
  options.threads = 4;
  EXPECT_FAILS(Convert(source, options), kDataLoss, "numbers:5001: wrong");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(ConvertTest, InputThatChangesIsRefused) {
  NumberSource source(100);
  source.surplus = -1;
  EXPECT_FAILS(Convert(source, To("d@4")), kDataLoss, "changed while it was being read");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(ConvertTest, ExistingDatasetIsToldBeforeTheScan) {
  NumberSource source(100);
  ASSERT_OK(Convert(source, To("d@4")));
  EXPECT_FAILS(Convert(source, To("d@4")), kAlreadyExists, "there is a dataset of this name");
}

TEST_F(ConvertTest, SplitsAreByTheHashOfTheKey) {
  std::vector<int64_t> test;
  for (uint64_t n : {3000, 5000}) {
    NumberSource source(n);
    ConvertOptions options = To("d@8");
    options.splits = *ParseSplits("train=0.9,test=0.1");
    options.overwrite = true;
    const auto manifests = Convert(source, options);
    ASSERT_OK(manifests);
    ASSERT_EQ(manifests->size(), 2);
    EXPECT_EQ((*manifests)[0].shards.size(), 8);
    EXPECT_EQ((*manifests)[1].shards.size(), 1);
    std::vector<int64_t> all = Numbers("d-train@8");
    EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
    const std::vector<int64_t> of_test = Numbers("d-test@1");
    EXPECT_NEAR(of_test.size(), n / 10.0, n / 50.0);
    // More records do not change the split of existing ones.
    EXPECT_TRUE(std::equal(test.begin(), test.end(), of_test.begin()));
    test = of_test;
    all.insert(all.end(), test.begin(), test.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, Count(n));
  }
}

TEST_F(ConvertTest, SplitsAreShuffledEach) {
  NumberSource source(3000);
  ConvertOptions options = To("d@4");
  options.splits = *ParseSplits("a=0.5,b=0.25,c=0.25");
  options.shuffle_seed = 1;
  ASSERT_OK(Convert(source, options));
  std::vector<int64_t> all;
  for (const char* name : {"d-a@2", "d-b@1", "d-c@1"}) {
    const std::vector<int64_t> numbers = Numbers(name);
    EXPECT_FALSE(std::is_sorted(numbers.begin(), numbers.end()));
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, Count(3000));
}

TEST_F(ConvertTest, ListsOfSplits) {
  const auto splits = ParseSplits("train=0.8,dev-1=1e-1,test=.1");
  ASSERT_OK(splits);
  EXPECT_EQ((*splits)[1].name, "dev-1");
  EXPECT_EQ((*splits)[1].share, 0.1);
  EXPECT_FAILS(ParseSplits("train=0.8,test=0.1"), kInvalidArgument, "the shares add up to 0.9");
  EXPECT_FAILS(ParseSplits("a=0.5,a=0.5"), kInvalidArgument, "the split a appears twice");
  EXPECT_FAILS(ParseSplits("a/b=1"), kInvalidArgument, "may contain only letters, digits, _ and -");
  for (const char* text :
       {"", "a", "a=", "=1", "a=1,", "a=x", "a=-1,b=2", "a=0,b=1", "a=0.5 ,b=0.5", "a=nan"}) {
    EXPECT_FALSE(ParseSplits(text).ok()) << text;
  }
}

TEST_F(ConvertTest, LimitAndSplitsDoNotGoTogether) {
  NumberSource source(10);
  ConvertOptions options = To("d@1");
  options.splits = *ParseSplits("a=0.5,b=0.5");
  options.limit = 3;
  EXPECT_FAILS(Convert(source, options), kInvalidArgument, "cannot be combined with splits");
}

TEST_F(ConvertTest, DuplicatesAreLeftOut) {
  NumberSource source(10000);
  source.distinct = 700;
  ConvertOptions options = To("d@3");
  options.deduplicate = true;
  for (const auto& [name, threads] : {std::pair("d@3", 1), std::pair("e@3", 3)}) {
    options.output = *ParseOutputSpec(folder_ / name);
    options.threads = threads;
    const auto manifests = Convert(source, options);
    ASSERT_OK(manifests);
    EXPECT_EQ(Numbers(name), Count(700));
    EXPECT_EQ(manifests->front().notes[1],
              "left out 9300 of 10000 records as duplicates of earlier ones");
  }
}

TEST_F(ConvertTest, ResumeGivesTheSameFiles) {
  const auto files = [this](const std::string& folder) {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / folder)) {
      if (!entry.is_regular_file()) continue;
      found[std::filesystem::relative(entry.path(), folder_ / folder).string()] =
          ReadBytes(entry.path().string());
    }
    return found;
  };
  for (const std::optional<uint64_t> seed :
       {std::optional<uint64_t>(), std::optional<uint64_t>(3)}) {
    std::filesystem::remove_all(folder_ / "a");
    std::filesystem::remove_all(folder_ / "b");
    ConvertOptions options = To("a/d@7");
    options.shuffle_seed = seed;
    options.resume = true;
    options.threads = 2;
    NumberSource whole(20000);
    ASSERT_OK(Convert(whole, options));
    // The first run fails in the fifth shard; then the error is removed.
    options.output = *ParseOutputSpec(folder_ / "b/d@7");
    NumberSource source(20000);
    source.fail_at = 13000;
    EXPECT_FAILS(Convert(source, options), kDataLoss, "numbers:13001: wrong");
    source.fail_at = UINT64_MAX;
    ConvertProgress progress;
    ASSERT_OK(Convert(source, options, &progress));
    EXPECT_GE(progress.shards_taken_over, seed ? 0 : 1);
    EXPECT_EQ(files("b"), files("a"));
    EXPECT_EQ(progress.records, 20000);
  }
}

TEST_F(ConvertTest, StopLeavesNothing) {
  NumberSource source(1000000);
  ConvertOptions options = To("d@4");
  std::stop_source stop;
  stop.request_stop();
  options.stop = stop.get_token();
  EXPECT_FAILS(Convert(source, options), kCancelled, "interrupted");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

// Numbers whose split is "even" or "odd".
class DividedSource : public NumberSource {
 public:
  using NumberSource::NumberSource;
  bool names_splits() const override { return true; }
  std::vector<SplitCount> splits() const override {
    return {{"even", (num_records() + 1) / 2}, {"odd", num_records() / 2}};
  }
  absl::StatusOr<size_t> SplitOf(const Item& item) const override { return 1 - item.line % 2; }
  FeatureClasses classes() const override { return {{"number", {{0, "zero"}, {3, "three"}}}}; }
};

TEST_F(ConvertTest, TheSourceNamesTheSplits) {
  DividedSource source(101);
  const auto manifests = Convert(source, To("d@3"));
  ASSERT_OK(manifests);
  ASSERT_EQ(manifests->size(), 2);
  EXPECT_EQ((*manifests)[0].stem, "d-even");
  EXPECT_EQ((*manifests)[0].classes, source.classes());
  EXPECT_EQ((*manifests)[1].classes, source.classes());
  std::vector<int64_t> odd;
  for (int64_t i = 1; i < 101; i += 2) odd.push_back(i);
  EXPECT_EQ(Numbers("d-odd@*"), odd);
  EXPECT_EQ(Numbers("d-even@*").size(), 51);
  EXPECT_FAILS(Convert(source, To("d@3")), kAlreadyExists, "d-even");
  ConvertOptions options = To("e@3");
  options.resume = true;
  ASSERT_OK(Convert(source, options));
  ConvertProgress progress;
  ASSERT_OK(Convert(source, options, &progress));
  EXPECT_EQ(progress.datasets_complete, 2);
  options.splits = *ParseSplits("a=0.5,b=0.5");
  EXPECT_FAILS(Convert(source, options), kInvalidArgument,
               "the splits are given by a column and by shares; choose one of them");
  options = To("f@3");
  options.limit = 1;
  EXPECT_FAILS(Convert(source, options), kInvalidArgument, "cannot be combined with splits");
}

TEST_F(ConvertTest, OtherKindsThanThoseOfTheModelAreRefused) {
  NumberSource source(10);
  const auto model = Convert(source, To("model@1"));
  ASSERT_OK(model);
  ConvertOptions options = To("d@2");
  options.like = NamedManifest{"model@1", model->front()};
  ASSERT_OK(Convert(source, options));
  const auto refused = [&](Schema schema, const std::string& message) {
    options = To("e@2");
    options.like = NamedManifest{"model@1", model->front()};
    options.like->manifest.schema = std::move(schema);
    EXPECT_FAILS(Convert(source, options), kFailedPrecondition, message);
    EXPECT_FALSE(std::filesystem::exists(ManifestPath(folder_.path(), "e")));
  };
  const auto schema_of = [](const std::vector<std::string>& ints, const std::string& text) {
    ExampleBuilder builder;
    for (const std::string& name : ints) builder.AddInt64(name, 1);
    if (!text.empty()) builder.AddBytes(text, "x");
    std::string record;
    builder.SerializeExample(&record);
    Schema schema;
    EXPECT_OK(schema.AddRecord(record));
    return schema;
  };
  refused(schema_of({}, "number"),
          "e@2: the feature \"number\" is int64 here and bytes in model@1; convert both alike");
  refused(schema_of({}, ""),
          "e@2: has the feature \"number\", which model@1 does not have; leave it "
          "out here, or convert both alike");
  refused(schema_of({"number", "more"}, ""),
          "e@2: lacks the feature \"more\", which all records of model@1 have; convert both alike");
}

}  // namespace
}  // namespace shardfeed
