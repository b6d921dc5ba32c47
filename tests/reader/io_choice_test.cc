#include "reader/shards/io_choice.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "base/work_stop.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "net/store.h"
#include "reader/reader.h"
#include "tests/net/fault_server.h"
#include "tests/reader/dataset_fixture.h"
#include "tests/reader/reader_fixture.h"
#include "tests/testing/files.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

using testing::Fault;
using testing::FaultServer;
using testing::MakeReader;
using testing::OpenTable;
using testing::ReaderFixture;
using testing::SeenRequest;

constexpr uint64_t kPayload = 8 << 20;
constexpr uint64_t kRecords = 120;

// A shard in a store whose records are ranges of their own. It has nothing but its headers: the
// answers to requests for its records are held back, and never come.
class IoChoiceTest : public ReaderFixture {
 protected:
  void SetUp() override {
    std::ofstream shard(folder_ / kShard, std::ios::binary);
    for (uint64_t i = 0; i < kRecords; ++i) {
      char header[kHeaderBytes];
      WriteHeader(kPayload, header);
      shard.seekp(static_cast<std::streamoff>(i * (kPayload + kFrameBytes)));
      shard.write(header, sizeof(header));
    }
    shard.close();
    std::filesystem::resize_file(folder_ / kShard, kRecords * (kPayload + kFrameBytes));
    ASSERT_OK(IndexShard(folder_ / kShard, {}));
    server_.ServeFolder(folder_ / "");
  }
  ~IoChoiceTest() override { held_back_ = false; }

  // Opens the dataset in a store that answers after `latency`.
  std::shared_ptr<const ShardTable> Table(std::chrono::milliseconds latency) {
    held_back_ = false;
    server_.SetFaults(
        [=](const SeenRequest&) { return Fault{.kind = Fault::kDelay, .wait = latency}; });
    return OpenTable(*ResolveSpec(server_.url() + "/d@1"));
  }

  struct Seen {
    int ranges = 0;
    uint64_t peak = 0;  // bytes of the budget
  };
  // How many ranges a reader requests before it gets any.
  Seen RangesInFlight(const std::shared_ptr<const ShardTable>& table, uint64_t budget) {
    requested_ = 0;
    held_back_ = true;
    server_.SetFaults([this](const SeenRequest&) {
      ++requested_;
      while (held_back_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return Fault{.kind = Fault::kReset};
    });
    ReaderOptions options;
    options.budget_bytes = budget;
    options.threads = 1;
    const auto reader = MakeReader(table, options);
    std::stop_source stop;
    auto read = std::async([&reader, token = stop.get_token()] {
      const WorkStop wanted(token);
      ReadBlock block;
      return reader->Next(&block);
    });
    Seen seen;
    int same = 0;  // for how long nothing has been requested
    while (seen.ranges == 0 || same < 300) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      same = requested_ == seen.ranges ? same + 1 : 0;
      seen.ranges = requested_;
    }
    seen.peak = reader->stats().peak_buffer_bytes;
    stop.request_stop();
    EXPECT_FAILS(read.get(), kCancelled, "interrupted");
    return seen;
  }

  // How many ranges are 3 GB/s for the time that the store took to answer, which may be long where
  // the machine is busy.
  double RangesForLatency() const {
    const auto latency = (*Store::Of(server_.url() + "/d"))->latency();
    return 3e9 * std::chrono::duration<double>(latency).count() / (kPayload + kFrameBytes);
  }

  static constexpr const char* kShard = "d-00000-of-00001";
  std::atomic<bool> held_back_ = false;
  std::atomic<int> requested_ = 0;
  FaultServer server_;
};

TEST_F(IoChoiceTest, FromAQuickStore256MiBAreInFlight) {
  const auto table = Table(std::chrono::milliseconds(0));
  EXPECT_NEAR(RangesInFlight(table, 1 << 30).ranges, std::max(32.0, RangesForLatency()), 1);
}

TEST_F(IoChoiceTest, FromASlowStoreMoreIsInFlight) {
  const auto table = Table(std::chrono::milliseconds(200));
  const Seen seen = RangesInFlight(table, 1 << 30);
  EXPECT_GE(RangesForLatency(), 71);
  EXPECT_GE(seen.ranges, 71);
  EXPECT_NEAR(seen.ranges, std::min<double>(RangesForLatency(), kRecords), 10);
  EXPECT_LE(seen.peak, 1 << 30);
}

TEST_F(IoChoiceTest, TheBudgetBoundsWhatIsInFlight) {
  constexpr uint64_t kBudget = 384 << 20;
  const auto table = Table(std::chrono::milliseconds(200));
  const Seen seen = RangesInFlight(table, kBudget);
  EXPECT_GT(seen.ranges, 32);
  // Each range has memory of its own, and its connection's buffer.
  EXPECT_LE(seen.ranges * (kPayload + (512 << 10)), kBudget);
  OrderSpec order;
  order.chunk = 1;
  EXPECT_LE(seen.peak + ClientBytes(*table, order, kBudget), kBudget);
}

TEST_F(IoChoiceTest, TheRoomOfAnOrderDoesNotDependOnTheLatency) {
  OrderSpec order;
  order.chunk = 1;
  std::vector<uint64_t> bytes;
  for (const int latency : {0, 200}) {
    const auto table = Table(std::chrono::milliseconds(latency));
    for (const uint64_t budget : {64 << 20, 256 << 20, 512 << 20, 1 << 30}) {
      const uint64_t client = ClientBytes(*table, order, budget);
      bytes.push_back(client);
      EXPECT_LE(client, budget / 4);
    }
  }
  const std::vector<uint64_t> expected = {16 << 20, 48 << 20, 64 << 20, 96 << 20};
  for (size_t i = 0; i < bytes.size(); ++i) EXPECT_NEAR(bytes[i], expected[i % 4], 1 << 20);
}

}  // namespace
}  // namespace shardfeed
