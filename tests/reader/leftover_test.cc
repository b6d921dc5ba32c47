#include "reader/order/leftover.h"

#include <set>

#include "reader/reader.h"
#include "tests/reader/dataset_fixture.h"

namespace shardfeed {
namespace {

using testing::OpenTable;
using testing::RecordText;
using testing::TestFolder;
using testing::WriteShards;

// The leftover of an epoch of which ranks 0, 1 and 2 of three have delivered 40, 3 and 11 records.
Leftover OfThreeRanks() { return {.epoch = 1, .behind = 120, .runs = {{10, 3, 37}, {35, 3, 29}}}; }

TEST(LeftoverTest, PlacesAreRightBeforeWhatFollows) {
  const Leftover left = OfThreeRanks();
  EXPECT_OK(left.Check());
  EXPECT_EQ(left.begin(), 120 - 37 - 29);
  EXPECT_EQ(left.At(54), (PositionRun{10, 3, 37}));
  EXPECT_EQ(left.At(90), (PositionRun{118, 3, 1}));
  EXPECT_EQ(left.At(91), (PositionRun{35, 3, 29}));
  EXPECT_EQ(left.At(119), (PositionRun{119, 3, 1}));
}

TEST(LeftoverTest, WhatLiesBehindTheEpochsEndIsNotThere) {
  const Leftover left = OfThreeRanks();
  EXPECT_EQ(left.Within(1000), left);
  EXPECT_EQ(left.Within(37), (Leftover{1, 37, {{10, 3, 9}, {35, 3, 1}}}));
  EXPECT_EQ(left.Within(10), (Leftover{1, 10, {}}));
}

TEST(LeftoverTest, NumbersThatMakeNoSenseAreRefused) {
  for (const Leftover& wrong : std::vector<Leftover>{
           {0, 10, {{0, 0, 1}}},
           {0, 10, {{0, 1, 0}}},
           {0, 10, {{10, 1, 1}}},
           {0, 10, {{0, 1, 11}}},
           {0, 10, {{0, UINT64_MAX, 2}}},
           {0, 10, {{0, 1, 8}, {1, 1, 8}}},
           {0, UINT64_MAX, {}},
           {UINT64_MAX, 0, {}},
       }) {
    EXPECT_FAILS(wrong.Check(), kInvalidArgument, "the rest of its epoch is contradictory");
  }
}

TEST(LeftoverTest, ReadersShareOutWhatIsLeftAndThenTheRest) {
  const TestFolder folder;
  for (const bool gzip : {false, true}) {
    const auto table = OpenTable(WriteShards(folder, {150, 90, 60}, 50, gzip));
    for (const OrderSpec& order :
         {OrderSpec{}, OrderSpec{.kind = OrderSpec::Kind::kInterleave, .cycle = 2, .block = 3},
          OrderSpec{.kind = OrderSpec::Kind::kShuffle, .seed = 5, .window = 40},
          OrderSpec{.kind = OrderSpec::Kind::kShuffle, .seed = 5, .window = OrderSpec::kAll}}) {
      for (const uint64_t world : {1, 2, 5}) {
        std::set<std::pair<uint64_t, uint64_t>> delivered;  // epoch and position
        for (uint64_t rank = 0; rank < world; ++rank) {
          ReaderOptions options;
          options.order = order;
          options.rank = rank;
          options.world = world;
          options.epochs = 3;
          options.leftover = std::make_shared<const Leftover>(OfThreeRanks());
          const auto opened = Reader::Open(table, options);
          ASSERT_OK(opened);
          const std::unique_ptr<Reader>& reader = *opened;
          uint64_t in_first = 0;
          ReadBlock block;
          for (uint64_t n = 0;; ++n) {
            // Stopped and resumed now and then, with the same number of ranks.
            if (n % 7 == 6) ASSERT_OK(reader->LoadStateDict(*reader->StateDict()));
            ASSERT_OK(reader->Next(&block));
            if (block.records.empty()) break;
            in_first += block.epoch == 1 ? block.records.size() : 0;
            for (size_t i = 0; i < block.records.size(); ++i) {
              const uint64_t position = block.position + i * block.stride;
              EXPECT_EQ(block.records[i], RecordText(reader->RecordAt(block.epoch, position)));
              EXPECT_TRUE(delivered.insert({block.epoch, position}).second);
            }
          }
          EXPECT_EQ(in_first, (37 + 29 + 180) / world);
        }
        // Nothing that was delivered comes again, and except for a remainder, everything else
        // comes.
        EXPECT_FALSE(delivered.contains({1, 0}));
        EXPECT_FALSE(delivered.contains({1, 11}));
        EXPECT_TRUE(delivered.contains({1, 10}));
        EXPECT_EQ(delivered.size(),
                  (37 + 29 + 180) / world * world + table->num_records() / world * world);
      }
    }
  }
}

}  // namespace
}  // namespace shardfeed
