#include "convert/converter.h"

#include <map>

#include "reader/random_access.h"
#include "shard/verify.h"
#include "tests/testing/files.h"
#include "tfrecord/example.pb.h"

namespace shardfeed {
namespace {

using testing::ReadBytes;
using testing::TestFolder;

// The numbers 0 to n-1, with faults to order.
class NumberSource : public Source {
 public:
  explicit NumberSource(uint64_t n) : n_(n) {}

  absl::Status Scan(std::stop_token, const std::function<void(uint64_t)>&) override {
    return absl::OkStatus();
  }
  uint64_t num_records() const override { return n_; }
  uint64_t num_bytes() const override { return 8 * n_; }
  std::vector<std::string> notes() const override { return {"a note"}; }
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override {
    for (uint64_t i = 0; i < n_ + surplus; ++i) {
      const std::string bytes = std::to_string(i);
      absl::Status status = sink({.bytes = bytes, .line = i + 1});
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override {
    if (item.line > fail_from) {
      return absl::DataLossError("numbers:" + std::to_string(item.line) + ": wrong");
    }
    builder.AddInt64("number", std::stoll(std::string(item.bytes)));
    return absl::OkStatus();
  }

  int64_t surplus = 0;
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
    const auto manifest = Convert(source, options);
    ASSERT_OK(manifest);
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
  EXPECT_EQ(VerifyDataset(*ResolveSpec(folder_ / "d@8"), {})->num_defects(), 0);
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
  NumberSource source(10000);  // 30 bytes a frame, or so
  ConvertOptions options = To("d");
  options.shard_bytes = 100000;
  const auto manifest = Convert(source, options);
  ASSERT_OK(manifest);
  EXPECT_GE(manifest->shards.size(), 3);
  EXPECT_LE(manifest->shards.size(), 5);
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
  EXPECT_FAILS(Convert(source, To("d@4")), kAlreadyExists, "--overwrite");
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

}  // namespace
}  // namespace shardfeed
