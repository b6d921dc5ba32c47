// Mixtures, read: by any number of ranks, with resumes, edits, packing and damage.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "reader/order/mix_order.h"
#include "reader/reader.h"
#include "tests/reader/dataset_fixture.h"
#include "tests/reader/reader_fixture.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::shardfeed::testing::AddLengths;
using ::shardfeed::testing::Delivered;
using ::shardfeed::testing::Drain;
using ::shardfeed::testing::MakeReader;
using ::shardfeed::testing::OpenTable;
using ::shardfeed::testing::RecordText;
using ::shardfeed::testing::TestFolder;
using ::shardfeed::testing::WriteShards;

// Three sources of 349, 1, and 871 records, in 3, 1 and 4 shards.
const std::vector<uint64_t> kShards = {37, 0, 312, 1, 64, 500, 300, 7};
const std::vector<size_t> kShardsOfSources = {3, 1, 4};

std::shared_ptr<Mixture> MixtureOf(std::vector<MixSegment> schedule, uint64_t length) {
  auto mixture = std::make_shared<Mixture>();
  for (size_t i = 0; i < kShardsOfSources.size(); ++i) {
    mixture->sources.push_back({std::string(1, "abc"[i]), kShardsOfSources[i], {}});
  }
  mixture->schedule = std::move(schedule);
  mixture->length = length;
  return mixture;
}

ReaderOptions Options(const std::shared_ptr<const Mixture>& mixture, uint64_t window = 256,
                      uint64_t lanes = 8) {
  ReaderOptions options;
  options.order.kind = window == 0 ? OrderSpec::Kind::kSequential : OrderSpec::Kind::kShuffle;
  options.order.seed = 5;
  options.order.window = window;
  options.order.chunk = 6;
  options.order.lanes = lanes;
  options.order.mixture = mixture;
  options.epochs = 3;
  return options;
}

class MixReaderTest : public ::testing::Test {
 protected:
  TestFolder folder_;
};

TEST_F(MixReaderTest, AllRanksTogetherDeliverWhatTheOrderSaysAfterAnyResume) {
  const auto table = OpenTable(WriteShards(folder_, kShards));
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 30; ++trial) {
    const std::vector<double> weights = {1.0 + random() % 3, random() % 2 * 0.01,
                                         1.0 * (random() % 3)};
    const auto mixture = MixtureOf({{0, weights}, {500, {1, 0.25, 1}}},
                                   random() % 4 == 0 ? 0 : 400 + random() % 3000);
    const uint64_t windows[] = {0, 40, 256, 1000, OrderSpec::kAll};
    ReaderOptions options = Options(mixture, windows[trial % 5], trial % 2 == 0 ? 8 : 6);
    if (random() % 4 == 0) options.budget_bytes = 1;  // records are read one by one
    std::string state;
    uint64_t epoch = 0;
    uint64_t position = 0;
    uint64_t from = 0;
    // Three worlds, one after the other.
    for (int part = 0; part < 3; ++part) {
      options.world = 1 + random() % 8;
      options.batch = 1 + random() % 5;
      const uint64_t round = options.batch * options.world;
      std::vector<std::unique_ptr<Reader>> readers;
      for (options.rank = 0; options.rank < options.world; ++options.rank) {
        readers.push_back(MakeReader(table, options));
        if (part == 0) continue;
        ASSERT_OK(readers.back()->LoadStateDict(state));
      }
      const MixOrder& order = *readers[0]->shared_mix();
      from = position;
      const uint64_t batches = part == 2 ? UINT64_MAX : random() % (order.size() / round + 2);
      std::vector<Delivered> delivered;
      for (auto& reader : readers) {
        // Whole batches, by blocks that are cut.
        Delivered all;
        ReadBlock block;
        if (batches == UINT64_MAX) {
          const auto rest = Drain(*reader);
          ASSERT_OK(rest);
          all = *rest;
        } else {
          const auto some = Drain(*reader, batches * options.batch);
          ASSERT_OK(some);
          all = *some;
        }
        delivered.push_back(std::move(all));
      }
      // The common part.
      uint64_t least = UINT64_MAX;
      for (const Delivered& of_rank : delivered) {
        least = std::min<uint64_t>(least, of_rank.records.size());
      }
      if (batches == UINT64_MAX) {
        for (const Delivered& of_rank : delivered) ASSERT_EQ(of_rank.records.size(), least);
      } else {
        least = std::min(least, batches * options.batch);
      }
      for (uint64_t i = 0; i < least; ++i) {
        if (position >= order.size() ||
            order.size() - position < (i % options.batch == 0 ? round : 1)) {
          ++epoch;
          position = from = 0;
        }
        for (uint64_t rank = 0; rank < options.world; ++rank) {
          ASSERT_EQ(delivered[rank].positions[i], epoch * 1'000'000 + position + rank)
              << "trial " << trial << " part " << part;
          ASSERT_EQ(delivered[rank].records[i],
                    RecordText(readers[0]->RecordAt(epoch, position + rank)));
        }
        position += options.world;
      }
      if (part == 2) {
        ASSERT_EQ(epoch, 2);
        ASSERT_LT(order.size() - position, round);
        break;
      }
      // What ranks have left out at the end of an epoch remains left out.
      if (position > from && order.size() - position < round) {
        ++epoch;
        position = from = 0;
      }
      // The state of all ranks after that many records.
      readers[0]->GoTo({epoch, position, from, options.batch, options.world});
      const auto saved = readers[0]->StateDict();
      ASSERT_OK(saved);
      state = *saved;
    }
  }
}

TEST_F(MixReaderTest, EpochsThatCutPassesReadNothingTwice) {
  constexpr uint64_t kBytes = 8000;
  const auto table = OpenTable(WriteShards(folder_, kShards, kBytes));
  std::vector<std::string> expected;
  uint64_t least = 0;
  for (const uint64_t epochs : {1, 8}) {
    ReaderOptions options = Options(MixtureOf({{0, {1, 0, 3}}}, 1600 / epochs));
    options.epochs = epochs;
    const auto reader = MakeReader(table, options);
    const auto all = Drain(*reader);
    ASSERT_OK(all);
    ASSERT_EQ(all->records.size(), 1600);
    if (epochs == 1) {
      expected = all->records;
      least = reader->stats().bytes_read;
    }
    EXPECT_EQ(all->records, expected);
    EXPECT_LE(reader->stats().bytes_read, least + least / 20);
  }
}

TEST_F(MixReaderTest, RanksWhoseLanesChangeWithTheEpochReadTheirOwn) {
  const auto table = OpenTable(WriteShards(folder_, {4200, 0, 0, 1, 2100, 0, 300, 7}));
  for (const uint64_t length : {1000, 1001, 1002, 3000}) {
    for (const uint64_t world : {2, 3, 4}) {
      ReaderOptions options = Options(MixtureOf({{0, {2, 0.01, 1}}}, length));
      options.world = world;
      options.epochs = 9;
      for (options.rank = 0; options.rank < world; ++options.rank) {
        const auto reader = MakeReader(table, options);
        const auto all = Drain(*reader);
        ASSERT_OK(all);
        size_t i = 0;
        for (uint64_t epoch = 0; epoch < 9; ++epoch) {
          for (uint64_t round = 0; round < length / world; ++round, ++i) {
            ASSERT_LT(i, all->records.size());
            ASSERT_EQ(all->records[i],
                      RecordText(reader->RecordAt(epoch, round * world + options.rank)));
          }
        }
        EXPECT_EQ(all->records.size(), i);
      }
    }
  }
}

TEST_F(MixReaderTest, GoesOnAfterTheScheduleOrTheSourcesGrew) {
  const ShardSet set = WriteShards(folder_, kShards);
  const auto table = OpenTable(set);
  const auto reader = MakeReader(table, Options(MixtureOf({{0, {1, 0, 3}}}, 5000)));
  const auto before = Drain(*reader, 1500);
  ASSERT_OK(before);
  const auto state = reader->StateDict();
  ASSERT_OK(state);
  const uint64_t at = reader->place().position;
  const auto later = MixtureOf({{0, {1, 0, 3}}, {at + 8, {1, 1, 1}}}, 5000);
  auto edited = MakeReader(table, Options(later));
  ASSERT_OK(edited->LoadStateDict(*state));
  const auto after = Drain(*edited, 100);
  ASSERT_OK(after);
  EXPECT_EQ(after->positions[0], at);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(after->records[i], RecordText(edited->RecordAt(0, at + i)));
    const bool changed = at + i >= edited->shared_mix()->schedule().SegmentBegin(1);
    if (!changed) {
      EXPECT_EQ(after->records[i], RecordText(reader->RecordAt(0, at + i)));
    }
  }
  // The first two sources alone: the third has no weight so far.
  ShardSet two = set;
  two.paths.resize(4);
  two.sharded_name = false;
  auto first = std::make_shared<Mixture>(*MixtureOf({{0, {1, 0.5}}}, 5000));
  first->sources.pop_back();
  const auto smaller = MakeReader(OpenTable(two), Options(first));
  ASSERT_OK(Drain(*smaller, 700));
  const auto saved = smaller->StateDict();
  ASSERT_OK(saved);
  auto grown = MakeReader(table, Options(MixtureOf({{0, {1, 0.5, 0}}, {4000, {1, 1, 1}}}, 5000)));
  ASSERT_OK(grown->LoadStateDict(*saved));
  EXPECT_EQ(grown->place(), smaller->place());
  EXPECT_EQ(grown->RecordAt(0, 700), smaller->RecordAt(0, 700));
}

TEST_F(MixReaderTest, RefusesAStateWhosePastDiffers) {
  const auto table = OpenTable(WriteShards(folder_, kShards));
  const auto reader = MakeReader(table, Options(MixtureOf({{0, {1, 1, 3}}}, 5000)));
  ASSERT_OK(Drain(*reader, 1500));
  const auto state = reader->StateDict();
  ASSERT_OK(state);
  EXPECT_LT(state->size(), 400);
  const auto other = MakeReader(table, Options(MixtureOf({{0, {1, 1, 3.1}}}, 5000)));
  EXPECT_FAILS(other->LoadStateDict(*state), kFailedPrecondition,
               "weights may change only after what was delivered");
  const auto early =
      MakeReader(table, Options(MixtureOf({{0, {1, 1, 3}}, {800, {1, 1, 1}}}, 5000)));
  EXPECT_FAILS(early->LoadStateDict(*state), kFailedPrecondition,
               "the state belongs to another order: it was saved for mix(seed=5, window=256, "
               "lanes=8, weights=");
  auto fewer = MixtureOf({{0, {1, 1, 3}}}, 5000);
  fewer->sources[0].records = {{0, 300}};
  const auto less = MakeReader(table, Options(fewer));
  EXPECT_FAILS(less->LoadStateDict(*state), kFailedPrecondition, "the state belongs to other data");
}

TEST_F(MixReaderTest, TakesTheRecordsThatAreNamed) {
  const auto table = OpenTable(WriteShards(folder_, kShards));
  const auto mixture = MixtureOf({{0, {1, 0, 1}}}, 400);
  mixture->sources[0].records = {{340, 9}, {0, 2}};
  mixture->sources[2].records = {{1, 3}, {100, 20}};
  const auto all = Drain(*MakeReader(table, Options(mixture, 0)));
  ASSERT_OK(all);
  ASSERT_EQ(all->records.size(), 1200);
  std::map<std::string, int> times;
  for (const std::string& record : all->records) ++times[record];
  EXPECT_EQ(times.size(), 11 + 23);
  for (uint64_t i : {340, 348, 0, 1}) EXPECT_NEAR(times[RecordText(i)], 600 / 11, 2) << i;
  for (uint64_t i : {351, 353, 450, 469}) EXPECT_NEAR(times[RecordText(i)], 600 / 23, 2) << i;
}

TEST_F(MixReaderTest, RowsOfAPackingAreTheSameOnAllRanks) {
  const ShardSet set = WriteShards(folder_, kShards);
  AddLengths(set, "tokens", [](uint64_t i) { return 1 + i * 7919 % 60; });
  const auto table = OpenTable(set);
  for (uint64_t window : {uint64_t{0}, uint64_t{200}}) {
    ReaderOptions options = Options(MixtureOf({{0, {3, 1, 2}}}, 3000), window);
    options.pack = PackSpec{.lengths = "tokens", .length = 64, .window = 1024};
    options.epochs = 2;
    // Rows by their number, of one rank and of several.
    std::vector<std::vector<std::string>> rows;
    for (uint64_t world : {1, 2, 3, 8}) {
      options.world = world;
      for (options.rank = 0; options.rank < world; ++options.rank) {
        const auto reader = MakeReader(table, options);
        ReadBlock block;
        std::vector<uint64_t> next = {options.rank, options.rank};
        const uint64_t first_epoch = *reader->shared_pack()->CountRows(0);
        while (true) {
          ASSERT_OK(reader->Next(&block));
          if (block.records.empty()) break;
          size_t at = 0;
          for (const PackedRow& row : block.rows) {
            std::vector<std::string> records;
            for (uint64_t i = 0; i < row.records; ++i) records.emplace_back(block.records[at++]);
            if (world == 1) {
              rows.push_back(std::move(records));
            } else {
              const uint64_t number = block.epoch * first_epoch + next[block.epoch];
              ASSERT_LT(number, rows.size());
              ASSERT_EQ(records, rows[number]);
              next[block.epoch] += world;
            }
          }
        }
      }
    }
    uint64_t records = 0;
    for (const auto& row : rows) records += row.size();
    EXPECT_EQ(records, 6000);
  }
}

TEST_F(MixReaderTest, RefusesMoreWindowsOfRowsThanPlacesHave) {
  const ShardSet set = WriteShards(folder_, kShards);
  AddLengths(set, "steps", [](uint64_t) { return 2; });
  ReaderOptions options = Options(MixtureOf({{0, {3, 1, 2}}}, (1 << 23) + 1), 0);
  options.pack =
      PackSpec{.lengths = "steps", .length = 1, .how = PackSpec::How::kSteps, .window = 1};
  EXPECT_FAILS(Reader::Open(OpenTable(set), options).status(), kInvalidArgument,
               "planned rows: 8388609 records have 8388609 windows of 1, but at most 8388608 can "
               "be planned; use a larger window");
}

TEST_F(MixReaderTest, TellsDamageAtEachPlaceOfARecord) {
  const ShardSet set = WriteShards(folder_, {20, 400});
  // The second record of the first source.
  {
    testing::KeepIndexes(set);
    std::string bytes = testing::ReadBytes(set.paths[0]);
    const size_t at = bytes.find("00000001");
    ASSERT_NE(at, std::string::npos);
    bytes[at] = 'x';
    folder_.Write("d-00000-of-00002", bytes);
  }
  auto mixture = std::make_shared<Mixture>();
  mixture->sources = {{"a", 1, {}}, {"b", 1, {}}};
  mixture->schedule = {{0, {1, 1}}};
  mixture->length = 400;
  for (uint64_t budget : {0, 1}) {
    ReaderOptions options = Options(mixture);
    options.budget_bytes = budget;
    options.skip_damaged = true;
    options.max_skipped.share = 1;
    options.epochs = 1;
    const auto reader = MakeReader(OpenTable(set), options);
    const auto all = Drain(*reader);
    ASSERT_OK(all);
    std::vector<uint64_t> expected;
    for (uint64_t p = 0; p < 400; ++p) {
      if (reader->RecordAt(0, p) == 1) expected.push_back(p);
    }
    EXPECT_EQ(expected.size(), 10);
    EXPECT_EQ(all->damaged, expected);
  }
}

TEST_F(MixReaderTest, RefusesSourcesThatDoNotFitTheShards) {
  const auto table = OpenTable(WriteShards(folder_, kShards));
  const auto mixture = MixtureOf({{0, {1, 1, 1}}}, 0);
  mixture->sources[1].records = {{0, 2}};
  EXPECT_FAILS(Reader::Open(table, Options(mixture)), kInvalidArgument,
               "mix: 'b': records 0 to 1 do not exist: the dataset has 1 record");
  mixture->sources[1].shards = 2;
  EXPECT_FAILS(Reader::Open(table, Options(mixture)), kInvalidArgument,
               "mix: the sources have 9 shards, but 8 are read");
  ReaderOptions options = Options(MixtureOf({{0, {1, 1, 1}}}, 0));
  options.records = {{0, 2}};
  EXPECT_FAILS(Reader::Open(table, options), kInvalidArgument,
               "mix: records are selected in each source of a mixture, not in the whole mixture");
}

}  // namespace
}  // namespace shardfeed
