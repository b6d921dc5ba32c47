#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/engine_choice.h"
#include "pipeline/dataset.h"
#include "shardfeed/examples.h"
#include "tests/pipeline/dataset_chains.h"
#include "tests/reader/dataset_fixture.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::shardfeed::testing::Collect;
using ::shardfeed::testing::FirstError;
using ::shardfeed::testing::Noisy;
using ::shardfeed::testing::OpenTable;
using ::shardfeed::testing::Remainder;
using ::shardfeed::testing::Start;
using ::shardfeed::testing::TestFolder;
using ::shardfeed::testing::Total;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::OnDisk;
using ::testing::UnorderedElementsAreArray;

class ShardsTest : public ::testing::Test {
 protected:
  // `n` examples with x, a float list of two, and n, an int64.
  std::shared_ptr<const ShardTable> Examples(int n, int shards = 3) {
    for (int s = 0; s < shards; ++s) {
      std::string shard;
      for (int i = n * s / shards; i < n * (s + 1) / shards; ++i) {
        ExampleBuilder builder;
        builder.AddInt64("n", i);
        if (i != missing_) {
          builder.AddFloatList("x", std::vector<float>{static_cast<float>(i), 0.5f});
        }
        std::string record;
        builder.SerializeExample(&record);
        AppendFrame(record, &shard);
      }
      folder_.Write(ShardName("e", s, shards, ""), shard);
    }
    return OpenTable(*ResolveSpec(folder_ / fmt::format("e@{}", shards)));
  }
  static Dataset Parsed(const Dataset& ds) {
    return ds.Parse({{.name = "n", .dtype = DType::kInt64}, {.name = "x", .shape = {2}}});
  }

  TestFolder folder_;
  int missing_ = -1;
};

TEST_F(ShardsTest, RecordsAreParsedIntoBatches) {
  const auto table = Examples(5);
  EXPECT_THAT(
      Collect(Parsed(Dataset::Read(table)).Batch(2)),
      ElementsAre(R"({"n":[0,1],"x":[[0.0,0.5],[1.0,0.5]]})",
                  R"({"n":[2,3],"x":[[2.0,0.5],[3.0,0.5]]})", R"({"n":[4],"x":[[4.0,0.5]]})"));
  // Ragged features, and bytes that point into the records.
  EXPECT_THAT(
      Collect(Dataset::Read(table).Parse({{.name = "x", .layout = Layout::kRagged}}).Take(1)),
      ElementsAre(R"({"x":[0.0,0.5]})"));
  EXPECT_EQ(Parsed(Dataset::Read(table)).Batch(2).Text(), "read(3 files).parse(n, x).batch(2)");
}

TEST_F(ShardsTest, BatchesOutliveTheRunAndTheRecipe) {
  Batch batch;
  {
    const auto table = Examples(5);
    const Dataset ds =
        Dataset::Read(table)
            .Parse({{.name = "n", .dtype = DType::kInt64},
                    {.name = "text",
                     .dtype = DType::kBytes,
                     .default_value = FeatureValues(std::vector<std::string>{
                         "what a record has that has none of its own, longer than fits inside"})}})
            .Batch(2);
    ASSERT_OK(Start(ds)->Next(&batch));
  }
  EXPECT_EQ(batch.Row<std::string_view>(1, 1)[0],
            "what a record has that has none of its own, longer than fits inside");
  EXPECT_EQ(batch.Row<int64_t>(0, 1)[0], 1);
}

TEST_F(ShardsTest, UnindexedShardsAreTheSame) {
  const auto table = Examples(500);
  const ShardSet set = *ResolveSpec(folder_ / "e@3");
  ReaderOptions options;
  for (const EngineKind io : {EngineKind::kThreads, EngineKind::kUring}) {
    options.io = io;
    if (absl::IsUnavailable(MakeEngine({.kind = options.io}).status())) continue;
    const auto chains = [&](const auto& shards) {
      const Dataset ds = Parsed(Dataset::Read(shards, options));
      return std::vector<Dataset>{
          ds.Batch(7),
          ds.Repeat(2).Batch(300),
          Parsed(Dataset::Read(shards, options).Interleave(2).Shard(1, 2)).Batch(7),
          Parsed(Dataset::Read(shards, options).Shuffle(3).Repeat(2)).Batch(50),
          ds.Map({}, [](RowContext&) { return absl::OkStatus(); }).Take(120),
          Dataset::Concatenate({ds, ds})};
    };
    const std::vector<Dataset> indexed = chains(table);
    for (size_t i = 0; i < indexed.size(); ++i) {
      const std::vector<std::string> all = Collect(indexed[i]);
      for (const size_t stop : {size_t{0}, size_t{1}, all.size() - 1, all.size()}) {
        std::filesystem::remove_all(OnDisk(folder_ / ".shardfeed"));
        auto it = Start(chains(set)[i]);
        std::vector<std::string> some = Collect(*it, stop);
        // Either run can resume from the state.
        const auto state = it->StateDict();
        ASSERT_OK(state);
        for (std::string& element : Collect(*it)) some.push_back(std::move(element));
        ASSERT_EQ(some, all);
        for (const bool again : {false, true}) {
          if (again) std::filesystem::remove_all(OnDisk(folder_ / ".shardfeed"));
          auto other = Start(again ? chains(set)[i] : indexed[i]);
          ASSERT_OK(other->LoadStateDict(*state));
          ASSERT_EQ(Collect(*other), std::vector<std::string>(all.begin() + stop, all.end()));
        }
      }
      EXPECT_EQ(*chains(set)[i].Fingerprint(), *indexed[i].Fingerprint());
    }
  }
  std::filesystem::remove_all(OnDisk(folder_ / ".shardfeed"));
  EXPECT_EQ((*Parsed(Dataset::Read(set)).table())->num_records(), 500);
}

TEST_F(ShardsTest, UnindexedShardsOfARunThatIsLeft) {
  Examples(2000);
  for (uint64_t elements : {0, 1, 1000}) {
    std::filesystem::remove_all(OnDisk(folder_ / ".shardfeed"));
    auto it = Start(Parsed(Dataset::Read(folder_ / "e@3")));
    EXPECT_EQ(Collect(*it, elements).size(), elements);
    it->Cancel();
  }
}

TEST_F(ShardsTest, ReadingIsAStageOfTheStatistics) {
  auto it =
      *Parsed(Dataset::Read(Examples(1000))).Batch(10).Start({.trace = std::make_shared<Trace>()});
  Collect(*it);
  const IteratorStats stats = it->stats();
  ASSERT_EQ(stats.stages.size(), 2);
  EXPECT_EQ(stats.stages[0].name, "read");
  EXPECT_EQ(stats.stages[0].rows, 1000);
  EXPECT_GT(stats.stages[0].bytes, 1000 * 16);
  EXPECT_GT(stats.stages[0].busy_seconds, 0);
  EXPECT_GT(stats.stages[0].peak_bytes, 0);
  EXPECT_EQ(stats.stages[1].name, "parse+batch");
  EXPECT_GT(stats.stages[1].peak_bytes, 0);
}

TEST_F(ShardsTest, ErrorsNameTheRecord) {
  missing_ = 1234;
  const auto table = Examples(2000);
  EXPECT_FAILS(FirstError(Parsed(Dataset::Read(table)).Batch(64)), kInvalidArgument,
               "e-00001-of-00003: record 568 at byte ");
  EXPECT_FAILS(FirstError(Parsed(Dataset::Read(table).Shuffle(1)).Batch(64)), kInvalidArgument,
               "e-00001-of-00003: record 568 at byte ");
}

TEST_F(ShardsTest, ShufflesAndRanksAreThoseOfTheReader) {
  const auto table = Examples(1000);
  const Dataset all = Dataset::Read(table).Shuffle(7, OrderSpec::kAll);
  const std::vector<std::string> global = Collect(Parsed(all));
  EXPECT_THAT(global, UnorderedElementsAreArray(Collect(Parsed(Dataset::Read(table)))));
  for (uint64_t rank : {0, 1, 2, 3}) {
    const std::vector<std::string> mine = Collect(Parsed(all.Shard(rank, 4)));
    ASSERT_EQ(mine.size(), 250);
    for (size_t i = 0; i < mine.size(); ++i) ASSERT_EQ(mine[i], global[4 * i + rank]);
  }
  const std::vector<std::string> epochs = Collect(Parsed(all.Repeat(2)));
  ASSERT_EQ(epochs.size(), 2000);
  EXPECT_EQ(std::vector(epochs.begin(), epochs.begin() + 1000), global);
  EXPECT_NE(std::vector(epochs.begin() + 1000, epochs.end()), global);
  // Repeating after other steps gives the same epochs.
  EXPECT_EQ(Collect(Parsed(all).Repeat(2)), epochs);
}

TEST_F(ShardsTest, ChunksAndLanesAreThoseOfTheReader) {
  const auto table = Examples(1000);
  ReaderOptions options;
  options.order = {
      .kind = OrderSpec::Kind::kShuffle, .seed = 7, .window = 100, .chunk = 5, .lanes = 4};
  EXPECT_EQ(Collect(Parsed(Dataset::Read(table).Shuffle(7, 100, 5, 4))),
            Collect(Parsed(Dataset::Read(table, options))));
  EXPECT_NE(Collect(Parsed(Dataset::Read(table).Shuffle(7, 100, 5, 4))),
            Collect(Parsed(Dataset::Read(table).Shuffle(7, 100, 5, 2))));
}

// Steps on rows run after the repetition, over batches of more than one epoch.
TEST_F(ShardsTest, RepeatedStepsKnowTheirEpochs) {
  const auto table = Examples(100);
  const Dataset once = Noisy(Parsed(Dataset::Read(table).Shuffle(7, 30)));
  const Dataset ds = Noisy(once.Repeat(3)).Batch(37);
  const std::vector<std::string> all = Collect(ds);
  ASSERT_EQ(all.size(), 9);
  // A repeat does not move before a step that takes a part.
  EXPECT_EQ(Collect(Noisy(once.Take(100).Repeat(3)).Batch(37)), all);
  const auto even = [](RowContext& row) { return row.In<int64_t>(0)[0] % 2 == 0; };
  EXPECT_EQ(Collect(once.Filter(even).Repeat(3).Batch(7)),
            Collect(once.Take(100).Repeat(3).Filter(even).Batch(7)));
  EXPECT_THAT(Collect(once.Take(0).Repeat().Batch(7)), ElementsAre());
  auto it = Start(ds);
  for (size_t at = 1; at < all.size(); ++at) {
    Collect(*it, 1);
    auto fresh = Start(ds);
    ASSERT_OK(fresh->LoadStateDict(*it->StateDict()));
    ASSERT_EQ(Collect(*fresh), std::vector(all.begin() + at, all.end()));
  }
  // Empty shards in place of others would count as truncated.
  std::filesystem::remove_all(OnDisk(folder_ / ".shardfeed"));
  EXPECT_THAT(Collect(Noisy(Parsed(Dataset::Read(Examples(0)))).Repeat().Batch(7)), ElementsAre());
}

TEST_F(ShardsTest, StatesOfShuffledShards) {
  const auto table = Examples(1000);
  const Dataset ds = Parsed(Dataset::Read(table).Shuffle(7, 100).Repeat(2))
                         .Filter([](RowContext& row) { return row.In<int64_t>(0)[0] % 3 > 0; })
                         .Batch(16);
  const std::vector<std::string> all = Collect(ds);
  auto it = Start(ds);
  for (size_t at = 10; at < all.size(); at += 10) {
    Collect(*it, 10);
    auto fresh = Start(ds);
    ASSERT_OK(fresh->LoadStateDict(*it->StateDict()));
    ASSERT_EQ(Collect(*fresh, 3),
              std::vector(all.begin() + at, all.begin() + std::min(at + 3, all.size())));
  }
  // A state of one rank is valid for any number of ranks, each of which has other batches.
  const Dataset chain = Parsed(Dataset::Read(table).Shuffle(7, 100));
  const std::vector<std::string> global = Collect(chain);
  const auto rank = [&](uint64_t r, uint64_t w) {
    ReaderOptions options;
    options.batch = 20 / w;
    return Parsed(Dataset::Read(table, options).Shuffle(7, 100).Shard(r, w));
  };
  auto one = Start(rank(1, 2));
  Collect(*one, 100);  // 200 by both ranks
  for (uint64_t r : {0, 1, 2, 3, 4}) {
    auto of_five = Start(rank(r, 5));
    ASSERT_OK(of_five->LoadStateDict(*one->StateDict()));
    EXPECT_EQ(Collect(*of_five, 1)[0], global[200 + r]);
  }
}

TEST_F(ShardsTest, ParsedFeaturesAndReadersAreInTheFingerprint) {
  const auto table = Examples(20);
  const auto parse = [&](FeatureSpec feature) {
    return Dataset::Read(table).Parse({std::move(feature)});
  };
  const auto read = [&](const std::function<void(ReaderOptions&)>& change) {
    ReaderOptions options;
    change(options);
    return Dataset::Read(table, options);
  };
  std::map<uint64_t, int> seen;
  int number = 0;
  for (const Dataset& ds : {
           parse({.name = "n", .dtype = DType::kInt64}),
           parse({.name = "n", .dtype = DType::kInt32}),
           parse({.name = "n", .dtype = DType::kInt64, .shape = {1}}),
           parse({.name = "n", .dtype = DType::kInt64, .layout = Layout::kRagged}),
           parse({.name = "n",
           .dtype = DType::kInt64,
           .default_value = FeatureValues(std::vector<int64_t>{3})}),
           parse({.name = "n",
           .dtype = DType::kInt64,
           .default_value = FeatureValues(std::vector<int64_t>{4})}),
           read([](ReaderOptions&) {}),
           read([](ReaderOptions& o) { o.batch = 4; }),
           read([](ReaderOptions& o) { o.end = EpochEnd::kPad; }),
           read([](ReaderOptions& o) { o.skip_damaged = true; }),
           read([](ReaderOptions& o) { o.epochs = 2; }),
           read([](ReaderOptions& o) {
             o.records = {{0, 20}};
           }),
           read([](ReaderOptions& o) {
             o.records = {{0, 10}, {10, 10}};
           }),
           Dataset::Read(table).Shuffle(1),
           Dataset::Read(table).Shuffle(2),
           Dataset::Read(table).Shuffle(1, 10),
           Dataset::Read(table).Interleave(2),
       }) {
    ASSERT_OK(ds.status());
    const auto [at, added] = seen.emplace(*ds.Fingerprint(), number);
    EXPECT_TRUE(added) << at->second << " and " << number;
    ++number;
  }
}

// A place belongs to all ranks: any other number of ranks divides the rest evenly, and every record
// comes once.
TEST_F(ShardsTest, OtherRanksShareOutWhatIsLeft) {
  const auto table = Examples(1000);
  for (const EpochEnd end : {EpochEnd::kDrop, EpochEnd::kPad, EpochEnd::kWrap}) {
    const auto chain = [&](uint64_t rank, uint64_t world, uint64_t batch) {
      ReaderOptions options;
      options.batch = batch;
      options.end = end;
      return Parsed(Dataset::Read(table, options).Shuffle(3, 100).Shard(rank, world))
          .Select({"n"})
          .Batch(batch);
    };
    std::map<int64_t, int> seen;
    std::string state;
    uint64_t delivered = 0;
    // (ranks, batch, batches)
    for (const auto& [world, batch, batches] : std::vector<std::array<uint64_t, 3>>{
             {4, 7, 5}, {3, 7, 9}, {5, 4, 6}, {1, 3, 7}, {7, 2, UINT64_MAX}}) {
      std::vector<std::string> states;
      std::vector<uint64_t> counts;
      for (uint64_t rank = 0; rank < world; ++rank) {
        auto it = Start(chain(rank, world, batch));
        if (!state.empty()) {
          ASSERT_OK(it->LoadStateDict(state));
        }
        Batch rows;
        uint64_t count = 0;
        while (count < batches && it->Next(&rows).ok() && !rows.empty()) {
          EXPECT_EQ(rows.rows, batch);
          for (size_t i = 0; i < rows.rows - rows.padded; ++i) ++seen[rows.Row<int64_t>(0, i)[0]];
          ++count;
        }
        counts.push_back(count);
        states.push_back(*it->StateDict());
      }
      EXPECT_THAT(counts, Each(counts[0])) << world;
      EXPECT_THAT(states, Each(states[0])) << world;
      state = states[0];
      delivered += counts[0] * batch * world;
    }
    int twice = 0;
    for (const auto& [n, times] : seen) twice += times - 1;
    const uint64_t left = 1000 - std::min<uint64_t>(delivered, 1000);
    EXPECT_EQ(seen.size(), 1000 - left);
    EXPECT_EQ(twice, end == EpochEnd::kWrap ? delivered - 1000 : 0);
    EXPECT_LT(left, end == EpochEnd::kDrop ? 14 : 1);
  }
}

TEST_F(ShardsTest, AShardBehindOtherStepsSharesOutWhatIsLeft) {
  const auto table = Examples(1000);
  const auto even = [](RowContext& row) { return row.In<int64_t>(0)[0] % 2 == 0; };
  const auto chain = [&](uint64_t rank, uint64_t world) {
    return Parsed(Dataset::Read(table).Shuffle(3, 100)).Filter(even).Shard(rank, world).Batch(3);
  };
  std::map<int64_t, int> seen;
  std::string state;
  for (const auto& [world, batches] :
       std::vector<std::array<uint64_t, 2>>{{4, 5}, {3, 9}, {7, UINT64_MAX}}) {
    std::string last;
    for (uint64_t rank = 0; rank < world; ++rank) {
      auto it = Start(chain(rank, world));
      if (!state.empty()) {
        ASSERT_OK(it->LoadStateDict(state));
      }
      Batch rows;
      for (uint64_t n = 0; n < batches && it->Next(&rows).ok() && !rows.empty(); ++n) {
        for (size_t i = 0; i < rows.rows; ++i) ++seen[rows.Row<int64_t>(0, i)[0]];
      }
      last = *it->StateDict();
    }
    state = last;
  }
  EXPECT_EQ(seen.size(), 500);
  for (const auto& [n, times] : seen) ASSERT_EQ(times, 1) << n;
}

TEST_F(ShardsTest, StatesOfRanksThatAdvanceUnevenlyAreTheirOwn) {
  const auto table = Examples(100);
  const auto all = [](RowContext&) { return true; };
  const auto one = [](const Batch& in, size_t row, RowEmitter& out) {
    out.Begin();
    out.Out<int64_t>(0)[0] = in.Row<int64_t>(0, row)[0];
    return absl::OkStatus();
  };
  using Steps = std::function<Dataset(const Dataset&)>;
  for (const auto& [name, steps] : std::vector<std::pair<std::string, Steps>>{
           {"filter", [&](const Dataset& ds) { return ds.Filter(all); }},
           {"flat_map",
            [&](const Dataset& ds) {
              return ds.FlatMap({{"n", DType::kInt64, {}}}, one);
            }},
           {"shuffle", [](const Dataset& ds) { return ds.Shuffle(1, 10); }},
           {"cache", [](const Dataset& ds) { return ds.Cache(); }},
           {"take", [](const Dataset& ds) { return ds.Take(90); }},
           {"choose",
            [](const Dataset& ds) {
              return Dataset::Choose({ds, ds}, Dataset::Range(0, 2).Repeat());
            }},
           {"window", [](const Dataset& ds) { return ds.Select({"n"}).Window(3, 1); }},
           {"rejection_resample",
            [](const Dataset& ds) {
              return ds.RejectionResample(Remainder(2), {1, 2});
            }},
           {"take_while", [&](const Dataset& ds) { return ds.TakeWhile(all); }},
           {"unique", [](const Dataset& ds) { return ds.Unique("n"); }},
           {"scan", [](const Dataset& ds) { return Total(ds); }},
           {"ignore_errors",
            [](const Dataset& ds) {
              return ds.Map({}, [](RowContext&) { return absl::OkStatus(); }).IgnoreErrors();
            }},
           {"skip", [](const Dataset& ds) { return ds.Skip(9); }},
           {"enumerate", [](const Dataset& ds) { return ds.Enumerate(); }},
           {"unbatch", [](const Dataset& ds) { return ds.Batch(3).Unbatch(); }},
           {"mix",
            [](const Dataset& ds) {
              return Dataset::Mix({ds, ds}, {1, 1});
            }},
           {"concatenate",
            [](const Dataset& ds) {
              return Dataset::Concatenate({ds, ds});
            }},
       }) {
    SCOPED_TRACE(name);
    const auto chain = [&, &steps = steps](uint64_t rank, uint64_t world) {
      return steps(Parsed(Dataset::Read(table).Shard(rank, world))).Batch(4);
    };
    auto it = Start(chain(0, 2));
    Collect(*it, 3);
    const std::string state = *it->StateDict();
    ASSERT_OK(Start(chain(0, 2))->LoadStateDict(state));
    for (const auto& [rank, world] : {std::pair(1, 2), std::pair(0, 1), std::pair(0, 3)}) {
      EXPECT_FAILS(Start(chain(rank, world))->LoadStateDict(state), kFailedPrecondition,
                   fmt::format("rank {} of {}: the ranks of this chain advance unevenly "
                               "because of '{}'",
                               rank, world, name));
    }
  }
}

TEST_F(ShardsTest, APartOfAPartIsOne) {
  const auto table = Examples(120);
  const Dataset ds = Dataset::Read(table);
  for (uint64_t r = 0; r < 2; ++r) {
    for (uint64_t q = 0; q < 3; ++q) {
      EXPECT_EQ(Collect(Parsed(ds.Shard(r, 2).Shard(q, 3))),
                Collect(Parsed(ds).Shard(r, 2).Shard(q, 3)));
    }
  }
}

TEST_F(ShardsTest, EveryRepetitionHasAnOrderOfItsOwn) {
  const auto table = Examples(100);
  const Dataset shuffled = Dataset::Read(table).Shuffle(1);
  for (const Dataset& ds :
       {Parsed(shuffled.Repeat(2).Repeat(3)), Parsed(shuffled).Repeat(2).Repeat(3),
        Parsed(shuffled.Repeat(2).Take(200).Repeat(3))}) {
    const std::vector<std::string> all = Collect(ds);
    ASSERT_EQ(all.size(), 600);
    std::set<std::vector<std::string>> orders;
    for (size_t i = 0; i < 6; ++i) {
      orders.insert(std::vector(all.begin() + 100 * i, all.begin() + 100 * (i + 1)));
    }
    EXPECT_EQ(orders.size(), 6);
  }
  // A run may begin in any epoch, which the state includes.
  const Dataset once = Noisy(Parsed(Dataset::Read(table).Shuffle(1))).Batch(10);
  const std::vector<std::string> three = Collect(once.Repeat(3));
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    const auto it = once.Start({.epoch = epoch});
    ASSERT_OK(it);
    std::vector<std::string> some = Collect(**it, 4);
    auto other = Start(once);
    ASSERT_OK(other->LoadStateDict(*(*it)->StateDict()));
    EXPECT_EQ(other->epoch(), epoch);
    for (std::string& element : Collect(*other)) some.push_back(std::move(element));
    EXPECT_EQ(some, std::vector(three.begin() + 10 * epoch, three.begin() + 10 * (epoch + 1)));
  }
}

TEST_F(ShardsTest, SourcesAreSharedOutInFrontOfWhatDoesNotCount) {
  const auto table = Examples(120);
  const Dataset rows = Parsed(Dataset::Read(table));
  const auto all = [](const Dataset& ds) {
    std::vector<std::string> found;
    for (uint64_t rank = 0; rank < 3; ++rank) {
      for (std::string& row : Collect(ds.ShardSources(rank, 3))) found.push_back(std::move(row));
    }
    return found;
  };
  EXPECT_THAT(all(rows), UnorderedElementsAreArray(Collect(rows)));
  EXPECT_THAT(all(rows.Take(10)), UnorderedElementsAreArray(Collect(rows.Take(10))));
  EXPECT_THAT(all(rows.Skip(10)), UnorderedElementsAreArray(Collect(rows.Skip(10))));
  EXPECT_THAT(all(rows.Enumerate()), UnorderedElementsAreArray(Collect(rows.Enumerate())));
  EXPECT_EQ(rows.Batch(4).ShardSources(1, 3).Text(), "read(3 files).parse(n, x).batch(4)");
  EXPECT_EQ(rows.Take(10).Batch(4).ShardSources(1, 3).Text(),
            "read(3 files).parse(n, x).take(10).shard(1, 3).batch(4)");
  EXPECT_FAILS(rows.Shard(0, 2).ShardSources(0, 3).status(), kInvalidArgument,
               "the chain already takes a rank's part");
}

TEST_F(ShardsTest, LengthsAreKnownWhereTheyCanBe) {
  const auto table = Examples(100);
  const Dataset ds = Dataset::Read(table);
  const auto elements = [](const Dataset& chain) {
    uint64_t count = 0;
    auto it = Start(chain);
    for (Batch batch; it->Next(&batch).ok() && !batch.empty();) ++count;
    return count;
  };
  const auto length = [](const Dataset& chain) { return *chain.CountElements(); };
  for (const Dataset& chain :
       {ds, ds.Shard(1, 3), ds.Repeat(3), ds.Take(7).Repeat(2), ds.Skip(98), ds.Skip(101),
        Parsed(ds).Batch(8), Parsed(ds).Batch(8, true).Shard(1, 2), ds.Repeat().Take(5),
        Dataset::Mix({ds, ds.Take(5)}, {1, 0}), Dataset::Zip({ds, Dataset::Range(0, 9)}),
        Dataset::Concatenate({ds, ds.Take(3)}), Dataset::Range(10, 0, -3)}) {
    EXPECT_TRUE(length(chain).known());
    EXPECT_EQ(length(chain).elements, elements(chain)) << chain.Text();
  }
  EXPECT_EQ(length(ds.Repeat()).kind, Length::Kind::kEndless);
  EXPECT_EQ(length(ds.Filter([](RowContext&) { return true; })).why, "filter drops elements");
}

TEST_F(ShardsTest, SkippedDamageKeepsItsPlace) {
  const auto table = Examples(100);
  std::string shard = testing::ReadBytes(folder_ / "e-00001-of-00003");
  shard[shard.size() / 2] ^= 1;
  folder_.Write("e-00001-of-00003", shard);
  EXPECT_FAILS(FirstError(Parsed(Dataset::Read(table))), kDataLoss, "e-00001-of-00003: record");
  ReaderOptions options;
  options.skip_damaged = true;
  const Dataset ds = Parsed(Dataset::Read(table, options));
  auto it = Start(ds.Batch(10));
  size_t row = 0;
  size_t damaged = 0;
  for (Batch batch; it->Next(&batch).ok() && !batch.empty(); row += batch.rows) {
    EXPECT_EQ(batch.rows, 10);
    for (uint32_t d : batch.damaged) {
      ++damaged;
      EXPECT_EQ(row + d, 49);
      EXPECT_EQ(batch.Row<int64_t>(0, d)[0], 0);
      EXPECT_EQ(batch.Row<float>(1, d)[1], 0);
    }
  }
  EXPECT_EQ(row, 100);
  EXPECT_EQ(damaged, 1);
  EXPECT_EQ(it->stats().damaged, 1);
  // Functions do not see a damaged record, and filters drop it; steps that keep or divide rows keep
  // the mark.
  const Dataset seen = ds.Map({{"bytes", DType::kBytes, {}}}, [](RowContext& out) -> absl::Status {
    if (out.In<float>(1)[1] == 0) return absl::InternalError("a damaged row was seen");
    out.Out<std::string_view>(0)[0] = "x";
    return absl::OkStatus();
  });
  EXPECT_EQ(Collect(seen).size(), 100);
  EXPECT_EQ(Collect(seen.Filter([](RowContext&) { return true; })).size(), 99);
  Batch batch;
  ASSERT_OK(Start(seen.Shuffle(1, 100).Skip(1).Batch(7).Unbatch().Batch(99))->Next(&batch));
  ASSERT_EQ(batch.damaged.size(), 1);
  EXPECT_EQ(batch.Row<std::string_view>(2, batch.damaged[0])[0], "");
  // A later row has the values that were parsed for it.
  const std::vector<std::string> ragged =
      Collect(Dataset::Read(table, options).Parse({{.name = "x", .layout = Layout::kRagged}}));
  EXPECT_EQ(ragged[49], R"({"x":[]})");
  EXPECT_EQ(ragged[50], R"({"x":[50.0,0.5]})");
}

TEST_F(ShardsTest, SequencesWithStepsOfVaryingLength) {
  std::string shard;
  for (int i = 0; i < 6; ++i) {
    ExampleBuilder builder;
    builder.AddInt64("n", i);
    for (int step = 0; step < i % 3; ++step) {
      builder.AppendInt64Step("steps", std::vector<int64_t>(i - step, i));
    }
    std::string record;
    builder.SerializeSequenceExample(&record);
    AppendFrame(record, &shard);
  }
  folder_.Write("s-00000-of-00001", shard);
  const Dataset ds =
      Dataset::Read(folder_ / "s@1")
          .Parse({{.name = "n", .dtype = DType::kInt64}}, {{.name = "steps",
                                                            .dtype = DType::kInt64,
                                                            .layout = Layout::kRagged,
                                                            .ragged_steps = true}});
  EXPECT_EQ(RowSpecText(ds.spec()), "n: int64, steps: int64 ragged, steps_lengths: int64 ragged");
  EXPECT_THAT(Collect(ds.Skip(2).Batch(4)),
              ElementsAre(R"({"n":[2,3,4,5],"steps":[[2,2,2],[],[4,4,4,4],[5,5,5,5,5,5,5,5,5]],)"
                          R"("steps_lengths":[[2,1],[],[4],[5,4]]})"));
}

}  // namespace
}  // namespace shardfeed
