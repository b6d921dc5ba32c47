// Tests plans without threads or reading: every position once, in units that are read once.
#include "reader/plan/read_plan.h"

#include <set>

#include "tests/reader/dataset_fixture.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::OnDisk;
using testing::OpenTable;
using testing::TestFolder;
using testing::WriteShards;

const std::vector<uint64_t> kSizes = {37, 0, 512, 64, 1, 300, 300, 7};
constexpr uint64_t kRecords = 1221;

std::vector<OrderSpec> Orders() {
  OrderSpec sequential;
  sequential.kind = OrderSpec::Kind::kSequential;
  OrderSpec interleave;
  interleave.kind = OrderSpec::Kind::kInterleave;
  interleave.cycle = 3;
  interleave.block = 5;
  OrderSpec shuffle;
  shuffle.kind = OrderSpec::Kind::kShuffle;
  shuffle.window = 300;
  shuffle.chunk = 20;
  OrderSpec exact;
  exact.kind = OrderSpec::Kind::kShuffle;
  exact.window = OrderSpec::kAll;
  return {sequential, interleave, shuffle, exact};
}

class ReadPlanTest : public ::testing::Test {
 protected:
  struct Setup {
    std::shared_ptr<const ShardTable> table;
    std::shared_ptr<const Order> order;
    ReaderOptions options;
    ReadPlanOptions plan;

    ReadPlanner Planner(const ReadPlace& place, uint64_t position) const {
      return ReadPlanner(table, options, Selection::All(table->num_records()), order,
                         /*pack=*/nullptr, plan, place, position);
    }
    ReadPlanner Planner() const {
      return Planner({.batch = options.batch, .world = options.world}, options.rank);
    }
  };

  Setup Of(const OrderSpec& order, uint64_t record_bytes = 20) {
    Setup setup;
    setup.table = OpenTable(WriteShards(folder_, kSizes, record_bytes));
    setup.order = *Order::Make(order, setup.table->begins(), setup.table->mean_bytes());
    setup.options.order = setup.order->spec();
    const bool exact = order.kind == OrderSpec::Kind::kShuffle && order.window == OrderSpec::kAll;
    setup.plan.whole_pieces = !exact;
    return setup;
  }

  // Plans everything, checks each block, and returns the positions (epoch * 1,000,000 + position).
  std::vector<uint64_t> PlanAll(const Setup& setup, ReadPlanner planner) {
    std::vector<uint64_t> positions;
    std::set<const PlannedUnit*> known;
    std::vector<std::shared_ptr<PlannedUnit>> units;
    std::vector<std::weak_ptr<PlannedUnit>> all_units;
    padded_ = 0;
    for (uint64_t number = 0;; ++number) {
      PlannedBlock block;
      const absl::StatusOr<bool> more = planner.Next(&block);
      EXPECT_OK(more);
      if (!more.ok() || !*more) break;
      EXPECT_EQ(block.number, number);
      uint64_t memory = 0;
      for (const auto& unit : block.new_units) {
        EXPECT_TRUE(known.insert(unit.get()).second) << "a unit is read twice";
        units.push_back(unit);
        all_units.push_back(unit);
        memory += unit->memory;
        uint64_t records = 0;
        for (const Extent& extent : unit->extents) {
          records += extent.wanted.empty() ? extent.records : extent.wanted.size();
        }
        EXPECT_EQ(records, unit->records());
      }
      EXPECT_EQ(block.new_memory, memory);
      uint64_t i = 0;
      for (const UnitSlice& slice : block.slices) {
        EXPECT_TRUE(known.contains(slice.unit));
        for (uint32_t k = 0; k < slice.count; ++k, ++i) {
          const uint64_t position = block.position + i * block.stride;
          const uint64_t item = setup.order->ItemAt(block.epoch, position % setup.order->size());
          EXPECT_EQ(slice.unit->IndexOf(item), slice.first + k);
          positions.push_back(block.epoch * 1'000'000 + position);
        }
      }
      padded_ += block.padded;
    }
    units.clear();
    for (const auto& unit : all_units) EXPECT_TRUE(unit.expired()) << "a unit is kept forever";
    return positions;
  }

  TestFolder folder_;
  uint64_t padded_ = 0;
};

TEST_F(ReadPlanTest, EveryPositionOnceForAnyRanks) {
  for (const OrderSpec& order : Orders()) {
    Setup setup = Of(order);
    for (const uint64_t world : {1, 2, 3, 8}) {
      for (const uint64_t block_records : {0, 7, 1000}) {
        std::set<uint64_t> all;
        setup.options.world = world;
        setup.options.epochs = 2;
        setup.options.block_records = block_records;
        for (setup.options.rank = 0; setup.options.rank < world; ++setup.options.rank) {
          SCOPED_TRACE(setup.order->Describe());
          const std::vector<uint64_t> mine = PlanAll(setup, setup.Planner());
          ASSERT_EQ(mine.size(), 2 * (kRecords / world));
          for (size_t i = 0; i < mine.size(); ++i) {
            const uint64_t epoch = i / (kRecords / world);
            const uint64_t position = i % (kRecords / world) * world + setup.options.rank;
            ASSERT_EQ(mine[i], epoch * 1'000'000 + position);
            all.insert(mine[i]);
          }
        }
        EXPECT_EQ(all.size(), 2 * (kRecords / world) * world);
      }
    }
  }
}

TEST_F(ReadPlanTest, TheRestOfAnEpochIsSharedAnew) {
  for (const OrderSpec& order : Orders()) {
    Setup setup = Of(order);
    setup.options.world = 3;
    std::set<uint64_t> all;
    for (setup.options.rank = 0; setup.options.rank < 3; ++setup.options.rank) {
      const ReadPlace place = {.position = 500, .from = 500, .batch = 1, .world = 3};
      for (uint64_t position : PlanAll(setup, setup.Planner(place, 500 + setup.options.rank))) {
        EXPECT_TRUE(all.insert(position).second);
      }
    }
    EXPECT_EQ(all.size(), (kRecords - 500) / 3 * 3);
    EXPECT_EQ(*all.begin(), 500);
  }
}

TEST_F(ReadPlanTest, PaddingIsPlannedAndCounted) {
  for (const OrderSpec& order : Orders()) {
    Setup setup = Of(order);
    setup.options.world = 2;
    setup.options.batch = 100;
    setup.options.end = EpochEnd::kPad;
    EXPECT_EQ(PlanAll(setup, setup.Planner()).size(), 700);
    EXPECT_EQ(padded_, 700 - 611);
    setup.options.end = EpochEnd::kWrap;
    EXPECT_EQ(PlanAll(setup, setup.Planner()).size(), 700);
    EXPECT_EQ(padded_, 0);
  }
}

TEST_F(ReadPlanTest, NeighborsAreReadAtOnce) {
  OrderSpec sequential;
  sequential.kind = OrderSpec::Kind::kSequential;
  const Setup setup = Of(sequential);
  PlannedBlock block;
  ReadPlanner planner = setup.Planner();
  ASSERT_TRUE(*planner.Next(&block));
  ASSERT_EQ(block.new_units.size(), 1);
  EXPECT_GE(block.new_units[0]->records(), 16);
  EXPECT_EQ(block.slices.size(), 1);
  EXPECT_EQ(block.new_units[0]->extents[0].shard, 0);
}

TEST_F(ReadPlanTest, AnIndexThatIsGoneIsAnError) {
  OrderSpec sequential;
  sequential.kind = OrderSpec::Kind::kSequential;
  const Setup setup = Of(sequential);
  std::filesystem::remove_all(OnDisk(folder_ / ".shardfeed"));
  ReadPlanner planner = setup.Planner();
  PlannedBlock block;
  EXPECT_FAILS(planner.Next(&block), kNotFound, ".index");
}

}  // namespace
}  // namespace shardfeed
