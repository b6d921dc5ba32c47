// Tests packing by lengths: each element of each record in one row, whatever the number of ranks,
// and wherever a run stops and resumes.
#include "reader/plan/pack_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "io/remedy.h"
#include "reader/order/place.h"
#include "reader/reader.h"
#include "tests/reader/dataset_fixture.h"
#include "tests/reader/reader_fixture.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::AddLengths;
using testing::MakeReader;
using testing::OpenTable;
using testing::RecordText;
using testing::TestFolder;
using testing::WriteShards;

const std::vector<uint64_t> kShards = {1500, 0, 700, 1, 2100, 899};
constexpr uint64_t kRecords = 5200;
constexpr uint64_t kLength = 512;  // elements of a row

// Many short records, few long ones, and some without any element.
uint64_t LengthOfRecord(uint64_t record) {
  std::mt19937_64 random(record * 77 + 5);
  if (random() % 50 == 0) return 0;
  const double u = static_cast<double>(random() >> 11) / 0x1p53;
  return 1 + std::min<uint64_t>(kLength - 1, static_cast<uint64_t>(-std::log(1 - u) * 90));
}

std::vector<OrderSpec> Orders() {
  OrderSpec interleave;
  interleave.kind = OrderSpec::Kind::kInterleave;
  interleave.cycle = 3;
  OrderSpec shuffle;
  shuffle.kind = OrderSpec::Kind::kShuffle;
  shuffle.seed = 7;
  shuffle.window = 1024;
  shuffle.chunk = 16;
  shuffle.lanes = 8;
  OrderSpec all = shuffle;
  all.window = OrderSpec::kAll;
  OrderSpec by_default;
  by_default.kind = OrderSpec::Kind::kShuffle;
  return {OrderSpec(), interleave, shuffle, all, by_default};
}

PackSpec Spec(PackSpec::How how = PackSpec::How::kBestFit) {
  return {.lengths = "tokens", .length = kLength, .how = how, .window = 1024};
}

using Row = std::vector<PackedPart>;

// All rows of an epoch, in order, with their places.
std::vector<std::pair<uint64_t, Row>> AllRows(const PackPlan& plan, uint64_t epoch) {
  std::vector<std::pair<uint64_t, Row>> rows;
  for (uint64_t w = 0; w < plan.num_windows(); ++w) {
    const uint64_t first = plan.PlaceOf(w, rows.size());
    const auto window = plan.Window(epoch, first);
    EXPECT_OK(window);
    for (size_t i = 0; i < (*window)->rows(); ++i) {
      const auto parts = (*window)->row(i);
      rows.emplace_back(first + (*window)->begins[i], Row(parts.begin(), parts.end()));
    }
  }
  return rows;
}

uint64_t UsedBy(const Row& row) {
  uint64_t used = 0;
  for (const PackedPart& part : row) used += part.count;
  return used;
}

// Checks that the rows have each element of each record once.
void ExpectAllElements(const std::vector<std::pair<uint64_t, Row>>& rows, uint64_t records,
                       uint64_t (*length_of)(uint64_t), uint64_t length) {
  std::map<uint64_t, std::vector<std::pair<uint64_t, uint64_t>>> parts;
  for (const auto& [place, row] : rows) {
    EXPECT_GE(UsedBy(row), 1);
    EXPECT_LE(UsedBy(row), length);
    for (const PackedPart& part : row) parts[part.item].emplace_back(part.begin, part.count);
  }
  for (uint64_t record = 0; record < records; ++record) {
    uint64_t next = 0;
    auto& of_record = parts[record];
    std::sort(of_record.begin(), of_record.end());
    for (const auto& [begin, count] : of_record) {
      ASSERT_EQ(begin, next) << record;
      next += count;
    }
    ASSERT_EQ(next, length_of(record)) << record;
  }
}

// What a rank delivers: the places of rows, and their records.
struct RankRun {
  std::vector<std::pair<uint64_t, std::vector<std::string>>> rows;
};

absl::Status ReadRows(Reader& reader, size_t rows, RankRun* run) {
  ReadBlock block;
  while (run->rows.size() < rows) {
    if (absl::Status status = reader.Next(&block); !status.ok()) return status;
    if (block.records.empty()) break;
    size_t record = 0;
    for (const PackedRow& row : block.rows) {
      auto& [place, records] = run->rows.emplace_back(row.position, std::vector<std::string>());
      for (uint64_t i = 0; i < row.records; ++i) records.emplace_back(block.records[record++]);
    }
    EXPECT_EQ(record, block.records.size());
  }
  return absl::OkStatus();
}

class PackPlanTest : public testing::ReaderFixture {
 protected:
  std::shared_ptr<const ShardTable> Table(uint64_t (*length_of)(uint64_t) = LengthOfRecord) {
    const ShardSet set = WriteShards(folder_, kShards, 200);
    AddLengths(set, "tokens", length_of);
    return OpenTable(set);
  }
  std::string ErrorOf(const ReaderOptions& options) {
    const auto reader = Reader::Open(Table(), options);
    return reader.ok() ? "no error" : std::string(reader.status().message());
  }
};

TEST_F(PackPlanTest, HasEachElementOfEachRecordInOneRow) {
  const auto table = Table();
  for (const OrderSpec& order : Orders()) {
    for (PackSpec::How how : {PackSpec::How::kBestFit, PackSpec::How::kConcatenate}) {
      const auto reader = MakeReader(table, {.order = order, .pack = Spec(how)});
      const PackPlan& plan = *reader->shared_pack();
      for (uint64_t epoch : {0, 1}) {
        const auto rows = AllRows(plan, epoch);
        ExpectAllElements(rows, kRecords, LengthOfRecord, kLength);
        const auto count = plan.CountRows(epoch);
        ASSERT_OK(count);
        EXPECT_EQ(*count, rows.size());
      }
    }
  }
}

TEST_F(PackPlanTest, FillsRowsToNinetyEightPercent) {
  const auto table = Table();
  uint64_t elements = 0;
  for (uint64_t i = 0; i < kRecords; ++i) elements += LengthOfRecord(i);
  for (const OrderSpec& order : Orders()) {
    PackSpec spec = Spec();
    spec.window = 8192;
    const auto reader = MakeReader(table, {.order = order, .pack = spec});
    const auto rows = reader->shared_pack()->CountRows(0);
    ASSERT_OK(rows);
    EXPECT_GE(static_cast<double>(elements) / static_cast<double>(*rows * kLength), 0.98)
        << reader->order().Describe();
  }
}

TEST_F(PackPlanTest, DeliversTheSameRowsToAnyNumberOfRanks) {
  const auto table = Table();
  for (const OrderSpec& order : Orders()) {
    for (const auto& [world, batch] :
         {std::pair<uint64_t, uint64_t>{1, 1}, {2, 4}, {3, 5}, {8, 1}}) {
      ReaderOptions options{.order = order, .pack = Spec(), .world = world, .batch = batch};
      options.epochs = 2;
      std::vector<RankRun> ranks(world);
      std::vector<std::pair<uint64_t, Row>> expected;
      for (uint64_t rank = 0; rank < world; ++rank) {
        options.rank = rank;
        const auto reader = MakeReader(table, options);
        ASSERT_OK(ReadRows(*reader, SIZE_MAX, &ranks[rank]));
        if (rank > 0) continue;
        for (uint64_t epoch : {0, 1}) {
          auto rows = AllRows(*reader->shared_pack(), epoch);
          rows.resize(rows.size() / (world * batch) * world * batch);
          expected.insert(expected.end(), rows.begin(), rows.end());
        }
      }
      for (uint64_t rank = 0; rank < world; ++rank) {
        ASSERT_EQ(ranks[rank].rows.size(), expected.size() / world);
      }
      for (size_t i = 0; i < expected.size(); ++i) {
        const auto& [place, records] = ranks[i % world].rows[i / world];
        ASSERT_EQ(place, expected[i].first);
        ASSERT_EQ(records.size(), expected[i].second.size());
        for (size_t r = 0; r < records.size(); ++r) {
          ASSERT_EQ(records[r], RecordText(expected[i].second[r].item, 200));
        }
      }
    }
  }
}

TEST_F(PackPlanTest, ResumesAnywhereWithOtherRanks) {
  const auto table = Table();
  std::mt19937_64 random(11);
  for (int round = 0; round < 4; ++round) {
    for (const OrderSpec& order : Orders()) {
      ReaderOptions options{.order = order, .pack = Spec(), .epochs = 2};
      std::vector<uint64_t> expected;
      {
        const auto reader = MakeReader(table, options);
        for (uint64_t epoch : {0, 1}) {
          for (const auto& [place, row] : AllRows(*reader->shared_pack(), epoch)) {
            expected.push_back(epoch << 60 | place);
          }
        }
      }
      ReadPlace place;
      std::vector<uint64_t> delivered;
      for (int run = 0; run < 4; ++run) {
        options.world = 1 + random() % 4;
        options.batch = 1 + random() % 3;
        // Each rank delivers as many rows, from blocks of its own.
        const size_t rows = run == 3 ? SIZE_MAX : random() % 150;
        std::vector<std::vector<uint64_t>> of_rank(options.world);
        std::vector<ReadPlace> places;
        size_t least = SIZE_MAX;
        for (options.rank = 0; options.rank < options.world; ++options.rank) {
          const auto reader = MakeReader(table, options);
          reader->GoTo(place);
          uint64_t records = 0;
          ReadBlock block;
          ReadPlace before = reader->place();
          while (of_rank[options.rank].size() < rows) {
            ASSERT_OK(reader->Next(&block));
            if (block.records.empty()) break;
            records = 0;
            for (const PackedRow& row : block.rows) {
              if (of_rank[options.rank].size() == rows) break;
              of_rank[options.rank].push_back(block.epoch << 60 | row.position);
              records += row.records;
            }
            // As the pipeline does, which holds the rest of the block.
            const auto after = reader->PlaceAfter(before, records);
            ASSERT_OK(after);
            ASSERT_TRUE(*after);
            before = reader->place();
            if (of_rank[options.rank].size() == rows) before = **after;
          }
          places.push_back(before);
          least = std::min(least, of_rank[options.rank].size());
        }
        for (const auto& rows_of_rank : of_rank) ASSERT_EQ(rows_of_rank.size(), least);
        for (const ReadPlace& other : places) ASSERT_EQ(other, places[0]);
        ASSERT_OK(places[0].Check());
        for (size_t i = 0; i < least * options.world; ++i) {
          delivered.push_back(of_rank[i % options.world][i / options.world]);
        }
        place = places[0];
      }
      // What is not delivered is less than a round of batches at the end of each epoch.
      size_t next = 0;
      for (uint64_t row : delivered) {
        while (next < expected.size() && expected[next] != row) {
          ASSERT_TRUE(expected[next] >> 60 == 0 && row >> 60 == 1) << "a row is missing";
          ++next;
        }
        ASSERT_LT(next, expected.size()) << "a row comes twice";
        ++next;
      }
      EXPECT_GE(delivered.size() + 24, expected.size());
    }
  }
}

TEST_F(PackPlanTest, ReadsTheLanesOfARankAlone) {
  const auto table = Table();
  OrderSpec order;
  order.kind = OrderSpec::Kind::kShuffle;
  order.window = 4096;
  order.chunk = 64;
  order.lanes = 8;
  for (uint64_t window : {4096, 1024}) {
    PackSpec spec = Spec();
    spec.window = window;
    uint64_t bytes_read = 0;
    for (uint64_t rank = 0; rank < 4; ++rank) {
      const auto reader =
          MakeReader(table, {.order = order, .pack = spec, .rank = rank, .world = 4});
      RankRun run;
      ASSERT_OK(ReadRows(*reader, SIZE_MAX, &run));
      bytes_read += reader->stats().bytes_read;
    }
    EXPECT_LT(bytes_read, table->file_bytes() * 2);
  }
}

uint64_t WithLongRecords(uint64_t record) {
  return record % 1000 == 17 ? 3 * kLength + 5 : record % 1000 == 18 ? kLength : 100;
}
uint64_t CutToARow(uint64_t record) { return std::min(kLength, WithLongRecords(record)); }

TEST_F(PackPlanTest, SplitsOrTruncatesLongSequences) {
  const auto table = Table(WithLongRecords);
  for (const OrderSpec& order : Orders()) {
    PackSpec spec = Spec();
    spec.longer = PackSpec::Longer::kSplit;
    auto reader = MakeReader(table, {.order = order, .pack = spec});
    ExpectAllElements(AllRows(*reader->shared_pack(), 0), kRecords, WithLongRecords, kLength);
    RankRun run;
    ASSERT_OK(ReadRows(*reader, SIZE_MAX, &run));
    EXPECT_EQ(run.rows.size(), AllRows(*reader->shared_pack(), 0).size());

    spec.longer = PackSpec::Longer::kTruncate;
    reader = MakeReader(table, {.order = order, .pack = spec});
    ExpectAllElements(AllRows(*reader->shared_pack(), 0), kRecords, CutToARow, kLength);

    spec = Spec(PackSpec::How::kConcatenate);
    reader = MakeReader(table, {.order = order, .pack = spec});
    ExpectAllElements(AllRows(*reader->shared_pack(), 0), kRecords, WithLongRecords, kLength);
  }
  const auto refused = Reader::Open(table, {.pack = Spec()});
  EXPECT_FAILS(refused.status(), kInvalidArgument, "d-00000-of-00006: record 17 at byte");
  EXPECT_FAILS(
      refused.status(), kInvalidArgument,
      "\"tokens\" has 1541 elements, which do not fit into a row of 512; raise the length, "
      "or truncate, split or leave out longer sequences");
  EXPECT_EQ(RemedyOf(refused.status())->option, "max_length");
  EXPECT_EQ(RemedyOf(refused.status())->value, "512");
  PackSpec spec = Spec();
  spec.max_length = kLength;
  const auto reader = MakeReader(table, {.pack = spec});
  ExpectAllElements(
      AllRows(*reader->shared_pack(), 0), kRecords,
      [](uint64_t record) {
        const uint64_t length = WithLongRecords(record);
        return length > kLength ? 0 : length;
      },
      kLength);
  uint64_t left_out = 0;
  for (uint64_t record = 0; record < kRecords; ++record) {
    left_out += WithLongRecords(record) > kLength;
  }
  EXPECT_EQ(reader->shared_pack()->CountLeftOut(0), left_out);
}

TEST_F(PackPlanTest, NamesWhatIsWrong) {
  PackSpec other = Spec();
  other.lengths = "token";
  EXPECT_THAT(
      ErrorOf({.pack = other}),
      ::testing::HasSubstr("d-00000-of-00006: the index has no lengths of \"token\", only of "
                           "\"tokens\"; index the dataset with these lengths by 'shardfeed index' "
                           "or sf.index"));
  PackSpec small = Spec();
  small.window = 100;
  EXPECT_THAT(
      ErrorOf({.pack = small}),
      ::testing::HasSubstr(
          "the window of planned rows must have between 1024 and 1048576 records, got 100"));
  PackSpec none = Spec();
  none.length = 0;
  EXPECT_THAT(ErrorOf({.pack = none}), ::testing::HasSubstr("the length must lie between 1 and"));
  EXPECT_THAT(ErrorOf({.pack = Spec(), .end = EpochEnd::kPad}),
              ::testing::HasSubstr("end with the last whole round of batches"));
  const auto reader = MakeReader(Table(), {.pack = Spec()});
  const auto first = reader->shared_pack()->PartAt(0, 0);
  ASSERT_OK(first);
  EXPECT_EQ(reader->NameAt(0, 0), reader->table().NameOf(first->item));
  EXPECT_THAT(reader->NameAt(0, reader->shared_pack()->PlaceOf(99, 0)),
              ::testing::HasSubstr("no row of epoch 0 has part 0 of window 99"));
  reader->GoTo({.position = 1});
  ReadBlock block;
  EXPECT_FAILS(reader->Next(&block), kInvalidArgument,
               "the state is damaged: no row begins at its place");
  const auto second = MakeReader(Table(), {.pack = Spec(), .rank = 1, .world = 2});
  second->GoTo({.position = 0, .from = 1, .world = 2});
  EXPECT_FAILS(second->Next(&block), kInvalidArgument,
               "the state is damaged: 2 ranks cannot have taken 1 of the 2 rows of a round");
}

TEST_F(PackPlanTest, RefusesAFileThatClaimsMoreThanFitsMemory) {
  const auto table = Table([](uint64_t) -> uint64_t { return uint64_t{1} << 40; });
  PackSpec spec = Spec();
  spec.length = 1;
  spec.longer = PackSpec::Longer::kSplit;
  const auto reader = MakeReader(table, {.pack = spec});
  ReadBlock block;
  EXPECT_FAILS(reader->Next(&block), kResourceExhausted,
               "make more than 1048576 parts of rows of 1 element;");
}

TEST_F(PackPlanTest, EndsWhereNoRoundOfBatchesIsComplete) {
  const auto table = Table();
  ReaderOptions options{.pack = Spec(), .batch = 100'000};
  options.epochs = std::nullopt;
  const auto reader = MakeReader(table, options);
  ReadBlock block;
  ASSERT_OK(reader->Next(&block));
  EXPECT_TRUE(block.records.empty());
}

}  // namespace
}  // namespace shardfeed
