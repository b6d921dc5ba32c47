#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "pipeline/dataset.h"
#include "tests/pipeline/dataset_chains.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::shardfeed::testing::Collect;
using ::shardfeed::testing::Failing;
using ::shardfeed::testing::Modulo;
using ::shardfeed::testing::Noisy;
using ::shardfeed::testing::Odd;
using ::shardfeed::testing::Ragged;
using ::shardfeed::testing::Remainder;
using ::shardfeed::testing::Square;
using ::shardfeed::testing::Start;
using ::shardfeed::testing::Total;

// Chains with all steps that hold rows back.
std::vector<std::pair<std::string, Dataset>> Chains() {
  const Dataset rows = Ragged(Odd(Square(Dataset::Range(0, 1000))));
  const Dataset mixed = Dataset::Mix({rows, rows.Skip(200), rows.Take(50)}, {3, 2, 1}, 9,
                                     {Exhausted::kDrop, Exhausted::kDrop, Exhausted::kRepeat})
                            .Take(700);
  const auto counting = []() -> Generator {
    return [i = 0]() mutable -> absl::StatusOr<Batch> {
      Batch batch;
      batch.spec = std::make_shared<const RowSpec>(RowSpec{{"value", DType::kInt64, {}}});
      batch.rows = i++ < 100 ? 7 : 0;
      AllocateFixedColumns(&batch);
      for (size_t r = 0; r < batch.rows; ++r) {
        reinterpret_cast<int64_t*>(batch.columns[0].data)[r] = i * 7 + static_cast<int64_t>(r);
      }
      return batch;
    };
  };
  // 0, 1, 1, 2, 0, 2, 0
  const Dataset numbers =
      Dataset::Range(0, 7).Map({{"value", DType::kInt64, {}}}, [](RowContext& row) {
        constexpr std::array<int64_t, 7> kNumbers = {0, 1, 1, 2, 0, 2, 0};
        row.Out<int64_t>(0)[0] = kNumbers[row.In<int64_t>(0)[0]];
        return absl::OkStatus();
      });
  return {
      {"rows", rows},
      {"batch", rows.Batch(17)},
      {"padded", rows.PaddedBatch(17).Prefetch(3)},
      {"unbatch", rows.Batch(17).Unbatch().Skip(3).Batch(5)},
      {"shuffle", rows.Shuffle(1, 100).Batch(11)},
      {"batches", rows.Batch(10).Shuffle(2, 7)},
      {"repeat", rows.Skip(300).Shuffle(3, 64).Repeat(3).Batch(13)},
      {"repeat of steps", Noisy(Noisy(rows).Repeat(3)).Batch(37)},
      {"bucket", rows.BucketByLength("values", {1, 3}, {5, 9, 30}).Pad()},
      {"budget", rows.BatchByLength("values", 50)},
      {"pack", rows.Pack({"values"}, {.length = 9, .open = 5}).Batch(4)},
      {"zip", Dataset::Zip({rows.Select({"values"}), Dataset::Range(0, 400)}).Batch(8)},
      {"concatenate", Dataset::Concatenate({rows, rows.Take(20), rows}).Batch(60)},
      {"interleave", Dataset::Interleave({rows, rows.Take(20), rows.Skip(400), rows}, 2, 3)},
      {"mix", mixed.Batch(9)},
      {"shard", rows.Shard(1, 3).Enumerate().Batch(8)},
      {"cache", Noisy(rows.Shuffle(8, 90).Batch(20).Cache().Unbatch()).Repeat(2).Batch(30)},
      {"cache on disk", rows.Cache(::testing::TempDir()).Repeat(2).Batch(30)},
      {"generator", Dataset::FromGenerator(counting, {{"value", DType::kInt64, {}}}).Batch(10)},
      {"flat_map", rows.FlatMap({{"n", DType::kInt64, {}}},
                                [](const Batch& in, size_t row, RowEmitter& out) {
                                  for (int64_t v : in.Row<int64_t>(2, row)) {
                                    out.Begin();
                                    out.Out<int64_t>(0)[0] = v;
                                  }
                                  return absl::OkStatus();
                                })
                       .Batch(21)},
      {"all", mixed.Shuffle(4, 50)
                  .Pack({"values"}, {.length = 12, .open = 8})
                  .Batch(6)
                  .Repeat(2)
                  .Prefetch(2)},
      {"take_while", rows.TakeWhile([](RowContext& row) { return row.In<int64_t>(0)[0] < 701; })
                         .Repeat(2)
                         .Batch(9)},
      {"unique", Modulo(rows, 211).Unique("key").Repeat(2).Batch(7)},
      {"rebatch", rows.Batch(17).Rebatch(7)},
      {"scan", Total(rows).Repeat(2).Batch(9)},
      {"ignore_errors",
       Failing(Failing(rows, 100, 1).Map({}, [](RowContext&) { return absl::OkStatus(); }), 150, 7,
               "second")
           .IgnoreErrors({.share = 0.1})
           .Repeat(2)
           .Batch(9)},
      {"choose", Dataset::Choose({rows, rows.Skip(450), rows.Take(30)}, numbers.Repeat(),
                                 {Exhausted::kStop, Exhausted::kRepeat, Exhausted::kDrop})
                     .Batch(9)},
      {"mix exactly",
       Dataset::Mix({rows, rows.Skip(200), rows.Take(50)}, {3, 2, 1}, 0, {Exhausted::kDrop}, true)
           .Repeat(2)
           .Batch(9)},
      {"window", rows.Select({"value", "square"}).Window(5, 3, 2).Repeat(2).Batch(9)},
      {"whole windows", rows.Select({"value"}).Shuffle(5, 64).Window(4, 9, 1, true).Batch(3)},
      {"group_by_window", Modulo(rows, 7).GroupByWindow("key", 6).Repeat(2)},
      {"group by function", rows.GroupByWindow(
                                    [](RowContext& row) -> absl::StatusOr<std::string> {
                                      return std::to_string(row.In<int64_t>(0)[0] % 3);
                                    },
                                    8)
                                .Pad()},
      {"bucket by function", rows.BucketByLength(Remainder(10), {2, 7}, {4, 9, 5}).Pad()},
      {"rejection_resample",
       rows.RejectionResample(Remainder(4), {0, 1, 0, 3}, {}, 3).Repeat(2).Batch(9)},
      {"resample by shares",
       Modulo(rows, 3).RejectionResample("key", {1, 2, 1}, {1, 1, 1}, 3).Repeat(2).Batch(9)},
  };
}

TEST(StateTest, AnyChainGoesOnWhereItWas) {
  for (const auto& [name, ds] : Chains()) {
    SCOPED_TRACE(name);
    ASSERT_OK(ds.status());
    const std::vector<std::string> all = Collect(ds);
    ASSERT_GT(all.size(), 10);
    auto it = Start(ds);
    auto other = Start(ds);
    size_t at = 0;
    for (size_t step : {0, 1, 3, 8, 20}) {
      const std::vector<std::string> part = Collect(*it, step);
      at += part.size();
      const absl::StatusOr<std::string> state = it->StateDict();
      ASSERT_OK(state);
      EXPECT_LT(state->size(), 2000) << *state;
      // In a new run, and in one at another position; and saved again at once.
      auto fresh = Start(ds);
      ASSERT_OK(fresh->LoadStateDict(*state));
      ASSERT_OK(other->LoadStateDict(*fresh->StateDict()));
      EXPECT_EQ(Collect(*fresh), std::vector(all.begin() + at, all.end()));
      EXPECT_EQ(Collect(*other, 2),
                std::vector(all.begin() + at, all.begin() + std::min(at + 2, all.size())));
    }
  }
}

TEST(StateTest, WrongStatesAreRefused) {
  auto it = Start(Dataset::Range(0, 10).Batch(2));
  auto other = Start(Dataset::Range(0, 11).Batch(2));
  EXPECT_FAILS(other->LoadStateDict(*it->StateDict()), kFailedPrecondition,
               "the state belongs to another chain or other data");
  EXPECT_FAILS(it->LoadStateDict("hello"), kInvalidArgument, "not a state of a shardfeed pipeline");
  std::string state = *it->StateDict();
  state.replace(state.find("\"version\":2"), 11, "\"version\":9");
  EXPECT_FAILS(it->LoadStateDict(state), kInvalidArgument,
               "has version 9, but this shardfeed reads version 2");
  state = *it->StateDict();
  state.replace(state.find("\"place\":["), 9, "\"place\":[1,2,3,4,5,");
  EXPECT_FAILS(it->LoadStateDict(state), kInvalidArgument, "too long");
  for (const auto& [from, to] :
       {std::pair("\"place\":[", "\"place\":[-1,"), std::pair("\"place\":[", "\"place\":[0.5,"),
        std::pair("\"epoch\":", "\"epoch\":-"), std::pair("\"epoch\":0", "\"epoch\":\"0\""),
        std::pair("\"epoch\":0", "\"epoch\":0,\"ranks\":[true]")}) {
    state = *it->StateDict();
    state.replace(state.find(from), std::strlen(from), to);
    EXPECT_FAILS(it->LoadStateDict(state), kInvalidArgument, "the state is damaged");
  }
}

// Fingerprints and the content of states must not change between versions of the library, or saved
// states would be refused. Another number here is right only if the meaning of a step has changed.
TEST(StateTest, FingerprintsAndStatesStayWhatTheyAre) {
  struct Golden {
    uint64_t fingerprint;
    std::string place;  // place of the state after three elements
  };
  const std::map<std::string, Golden> golden = {
      {"rows", {0x4598467ade8c5afb, R"("place":[3,0]})"}},
      {"batch", {0x7cdfd930a36e60aa, R"("place":[0,51,0]})"}},
      {"padded", {0xe4f0376ed8559d59, R"("place":[0,51,0]})"}},
      {"unbatch", {0x1b7fd38d3fee9aec, R"("place":[0,1,0,0,17,0]})"}},
      {"shuffle", {0xf1ef90d70897baf3, R"("place":[0,33,0,0,0,0]})"}},
      {"batches", {0x479b48aa0e9d3f9b, R"("place":[0,0,3,0,0,0]})"}},
      {"repeat", {0xd21704d7fa63d487, R"("place":[0,39,0,0,0,0,0,300,0,0]})"}},
      {"repeat of steps", {0x4fcc53cf3e018dee, R"("place":[0,111,0,1,0]})"}},
      {"bucket",
       {0x301c19ad78d21397,
        R"("place":[0,44,21,1,0,3,2,3,2,3,2,3,2,3,2,1,2,2,1,2,2,1,2,2,1,1,0]})"}},
      {"budget", {0x3156897628236490, R"("place":[0,36,0]})"}},
      {"pack", {0x659a339fb5d49b03, R"("place":[0,0,59,3,43,6,2,4,43,0]})"}},
      {"zip", {0x703f59fe7091a59d, R"("place":[0,1,23,0,23,0]})"}},
      {"concatenate", {0x183d2b306fda653f, R"("place":[0,180,0,0]})"}},
      {"interleave", {0xd232c3f8755bc694, R"("place":[0,1,1,0,1,3,0,0]})"}},
      {"mix",
       {0x0d52a56b871e6766, R"("place":[0,27,0,0,0,0,0,0,0,0,0,0,0,0,0,200,0,0,0,0,0,0,0,0,0]})"}},
      {"shard", {0x0eb8f96dbc12e2cc, R"("place":[0,4,20,60,59,59,0]})"}},
      {"cache", {0x0561733bfa2d35cd, R"("place":[0,10,0,1,4]})"}},
      {"cache on disk", {0xfb67d4be99ff58d0, R"("place":[0,31,0,1,59]})"}},
      {"generator", {0xe880fa7f46fe4a50, R"("place":[0,2,28]})"}},
      {"flat_map", {0x2537b9d1bd415d10, R"("place":[0,63,0]})"}},
      {"all",
       {0x0fe2cf227cbe77ec,
        R"("place":[0,0,1,0,110,1,100,8,0,2,0,100,0,0,0,0,0,0,0,0,0,0,0,0,0,200,0,0,0,0,0,0,0,0,0]})"}},
      {"take_while", {0x1ce4600746a11a08, R"("place":[0,12,0,1,0,15,0]})"}},
      {"unique", {0x6f7950fca6b7db3b, R"("place":[0,6,0,1,15]})"}},
      {"rebatch", {0x90c1adc025e94c2a, R"("place":[0,4,17,0]})"}},
      {"scan", {0x14a416a1e0db6554, R"("place":[0,12,0,1,15]})"}},
      {"ignore_errors", {0xfbb748ad561861d2, R"("place":[0,14,0,1,15,2,15,0]})"}},
      {"choose",
       {0x96f73e30295ff059,
        R"("place":[0,27,0,0,0,0,0,0,0,0,0,0,0,450,0,0,0,0,0,0,0,0,0,0,0,0,0]})"}},
      {"mix exactly",
       {0x70c1a82e24e74d2a,
        R"("place":[0,27,0,0,0,0,0,0,0,0,0,0,0,0,0,200,0,0,0,0,0,0,0,0,0,0,0,0]})"}},
      {"window", {0xe801db205e0c4409, R"("place":[0,8,0,1,26,31,0]})"}},
      {"whole windows", {0x062d7ba9d781c3a2, R"("place":[0,2,63,0,0,0,0,0]})"}},
      {"group_by_window",
       {0x8de00578c1458483,
        R"("place":[0,0,1,38,20,3,0,1,1,1,4,1,1,1,4,1,1,1,4,1,1,1,4,1,1,1,3,0]})"}},
      {"group by function", {0x7f86aae9c8d81dec, R"("place":[0,24,0,24,24,0]})"}},
      {"bucket by function", {0xdfbdcb55d145596b, R"("place":[0,22,4,7,7,4,1,1,7,0]})"}},
      {"rejection_resample", {0xcb8019cf18ed46bf, R"("place":[0,5,0,1,31,0,16,0,15,31,0]})"}},
      {"resample by shares", {0x3887d10117267266, R"("place":[0,4,0,1,30,30,0]})"}},
      // GOLDEN
  };
  for (const auto& [name, ds] : Chains()) {
    SCOPED_TRACE(name);
    auto it = Start(ds);
    const std::vector<std::string> all = Collect(*it);
    it = Start(ds);
    Collect(*it, 3);
    std::string state = *it->StateDict();
    const size_t at = state.find("\"place\":");
    const auto known = golden.find(name);
    if (known == golden.end() || known->second.fingerprint != *ds.Fingerprint()) {
      ADD_FAILURE() << fmt::format("{{\"{}\", {{0x{:016x}, R\"({})\"}}}},", name, *ds.Fingerprint(),
                                   state.substr(at));
      continue;
    }
    // One of several encodings of this place.
    state.replace(at, std::string::npos, known->second.place);
    ASSERT_OK(it->LoadStateDict(state));
    EXPECT_EQ(Collect(*it), std::vector(all.begin() + 3, all.end()));
  }
}

TEST(StateTest, EachParameterChangesTheFingerprint) {
  const Dataset rows = Ragged(Dataset::Range(0, 20));
  const auto nothing = [](RowContext&) { return absl::OkStatus(); };
  Batch two;
  two.rows = 2;
  two.spec = std::make_shared<const RowSpec>(RowSpec{{"n", DType::kInt64, {}}});
  AllocateFixedColumns(&two);
  auto* const values = reinterpret_cast<int64_t*>(two.columns[0].data);
  values[0] = values[1] = 7;
  const auto copy = [&](int64_t last) {
    Batch other = two;
    AllocateFixedColumns(&other);
    auto* const copied = reinterpret_cast<int64_t*>(other.columns[0].data);
    copied[0] = 7;
    copied[1] = last;
    return Dataset::FromArrays(other);
  };
  EXPECT_EQ(*copy(7).Fingerprint(), *Dataset::FromArrays(two).Fingerprint());
  const std::vector<Dataset> different = {
      copy(7),
      copy(8),
      rows,
      rows.Take(5),
      rows.Take(6),
      rows.Skip(5),
      rows.Map({}, nothing),
      rows.Map({}, nothing, {}, 1),
      rows.Map({}, nothing, {"value"}),
      rows.Map({}, nothing, {}, 0, "2"),
      rows.Filter([](RowContext&) { return true; }),
      rows.Filter([](RowContext&) { return true; }, 0, "2"),
      rows.Batch(4),
      rows.Batch(5),
      rows.Batch(4, true),
      rows.PaddedBatch(4),
      rows.PaddedBatch(4, {{"values", {.length = 9}}}),
      rows.PaddedBatch(4, {{"values", {.value = -1}}}),
      rows.Batch(4).Sparse({"values"}),
      rows.Pack({"values"}, {.length = 9}),
      rows.Pack({"values"}, {.length = 9, .open = 5}),
      rows.Pack({"values"}, {.length = 9, .pad = {1}}),
      rows.Pack({"values"}, {.length = 9, .truncate = true}),
      rows.BucketByLength("values", {2}, {3, 4}),
      rows.BucketByLength("values", {2}, {3, 4}, true),
      rows.BatchByLength("values", 9),
      rows.Shuffle(1, 5),
      rows.Shuffle(2, 5),
      rows.Repeat(2),
      rows.Enumerate("index"),
      rows.Enumerate("index", 1),
      rows.Shard(0, 2),
      Dataset::Mix({rows, rows}, {1, 2}),
      Dataset::Mix({rows, rows}, {1, 2}, 1),
      Dataset::Mix({rows, rows}, {1, 2}, 0, {Exhausted::kStop}),
      Dataset::Concatenate({rows, rows}),
      Dataset::Interleave({rows, rows}, 2),
      Dataset::Interleave({rows, rows}, 2, 3),
      rows.TakeWhile([](RowContext&) { return true; }),
      rows.TakeWhile([](RowContext&) { return true; }, "2"),
      rows.Unique("value"),
      Modulo(rows, 2).Unique("key"),
      Modulo(rows, 2).Unique("value"),
      Total(rows),
      rows.Scan({{"total", DType::kInt64, {}}}, nullptr, "2"),
      rows.Map({}, nothing).IgnoreErrors(),
      Dataset::Mix({rows, rows}, {1, 2}, 0, {Exhausted::kDrop}, true),
      Dataset::Choose({rows, rows}, Dataset::Range(0, 2)),
      Dataset::Choose({rows, rows}, Dataset::Range(0, 2), {Exhausted::kDrop}),
      Dataset::Choose({rows, rows}, Dataset::Range(0, 2).Repeat()),
      rows.Select({"value"}).Window(4),
      rows.Select({"value"}).Window(5),
      rows.Select({"value"}).Window(4, 2),
      rows.Select({"value"}).Window(4, 4, 2),
      rows.Select({"value"}).Window(4, 4, 1, true),
      rows.GroupByWindow("value", 4),
      rows.GroupByWindow("value", 5),
      rows.GroupByWindow("value", 4, true),
      rows.GroupByWindow(KeyFn(), 4),
      rows.GroupByWindow(KeyFn(), 4, false, "2"),
      rows.BucketByLength(NumberFn(), {2}, {3, 4}),
      rows.BucketByLength(NumberFn(), {2}, {3, 4}, false, "2"),
      rows.RejectionResample("value", {1, 2}),
      rows.RejectionResample("value", {1, 3}),
      rows.RejectionResample("value", {1, 2}, {1, 1}),
      rows.RejectionResample("value", {1, 2}, {}, 1),
      rows.RejectionResample(NumberFn(), {1, 2}),
      // A column name that looks like a step.
      Dataset::Range(0, 20, 1, "x.batch(2)"),
      Dataset::Range(0, 20, 1, "x").Batch(2),
  };
  std::map<uint64_t, std::string> seen;
  for (const Dataset& ds : different) {
    ASSERT_OK(ds.status());
    const auto [at, added] = seen.emplace(*ds.Fingerprint(), ds.Text());
    EXPECT_TRUE(added) << at->second << " and " << ds.Text();
  }
  // Steps that do not change what is delivered.
  EXPECT_EQ(*rows.Prefetch(3).Fingerprint(), *rows.Fingerprint());
  EXPECT_EQ(*rows.Shard(1, 3).Fingerprint(), *rows.Shard(0, 2).Fingerprint());
  EXPECT_EQ(*rows.Batch(4).Rebatch(5).Fingerprint(),
            *rows.Batch(4).Unbatch().Batch(5).Fingerprint());
  // A run may resume with more errors allowed.
  EXPECT_EQ(*rows.Map({}, nothing).IgnoreErrors({.at_least = 99}).Fingerprint(),
            *rows.Map({}, nothing).IgnoreErrors().Fingerprint());
}

// Loads the state of `it` with the place replaced.
absl::Status LoadPlace(Iterator& it, const std::string& place) {
  std::string state = *it.StateDict();
  const size_t begin = state.find("\"place\":[") + 9;
  state.replace(begin, state.find(']', begin) - begin, place);
  return it.LoadStateDict(state);
}

TEST(StateTest, PlacesThatNoChainSavesAreRefused) {
  const Dataset range = Dataset::Range(0, 10);
  const auto fails = [](const Dataset& ds, const std::string& place, int number, uint64_t found,
                        uint64_t most) {
    auto it = Start(ds);
    const std::string message = "the state is damaged: number " + std::to_string(number) +
                                " of its place is " + std::to_string(found) +
                                ", expected at most " + std::to_string(most);
    EXPECT_FAILS(LoadPlace(*it, place), kInvalidArgument, message);
    Batch batch;
    EXPECT_FAILS(it->Next(&batch), kInvalidArgument, message);
  };
  fails(range, "0,11", 1, 11, 10);
  fails(range, "4294967296,0", 0, 4294967296, 4294967295);
  fails(range.Take(5), "0,6,0,0", 1, 6, 5);
  fails(range.Skip(5), "0,6,0,0", 1, 6, 5);
  fails(range.Shuffle(1, 4), "0,0,4,0,0", 2, 4, 3);
  fails(range.Repeat(2), "0,3,0,0", 1, 3, 2);
  fails(range.Repeat(2), "0,0,2,0", 2, 2, 1);
  fails(Dataset::Concatenate({range, range}), "0,3,0", 1, 3, 2);
  const Dataset interleaved = Dataset::Interleave({range, range, range}, 2, 3);
  fails(interleaved, "0,4,0,0,0,0", 1, 4, 3);
  fails(interleaved, "0,2,2,0,0,0", 2, 2, 1);
  fails(interleaved, "0,2,0,3,0,0", 3, 3, 2);
  fails(interleaved, "0,2,0,0,4,0", 4, 4, 3);
  // Numbers of pending rows are below the next one.
  const Dataset buckets = Ragged(range).BucketByLength("values", {1}, {2, 2});
  fails(buckets, "0,5,6,0,0,0", 2, 6, 5);
  fails(buckets, "0,5,1,5,0,0", 3, 5, 4);
  fails(buckets, "0,5,1,3,2,0,0", 4, 2, 1);
}

TEST(StateTest, PlacesBehindTheEndAreErrors) {
  const Dataset range = Dataset::Range(0, 10);
  const auto fails = [](const Dataset& ds, const std::string& place, int elements) {
    auto it = Start(ds);
    // Load may fail only when it reads.
    absl::Status status = LoadPlace(*it, place);
    Batch batch;
    for (int i = 0; i < 20 && status.ok(); ++i) status = it->Next(&batch);
    EXPECT_FAILS(status, kFailedPrecondition,
                 "the state is " + std::to_string(elements) +
                     (elements == 1 ? " element" : " elements") +
                     " beyond the end of the data: it is damaged, or the chain "
                     "delivers fewer elements than when it was saved");
  };
  fails(range, "11,0", 1);
  fails(range, "3,10", 3);
  fails(range.Shuffle(1, 4), "0,2,3,0,8", 1);
  fails(range.Cache(), "0,12", 2);
  fails(Ragged(range).BucketByLength("values", {1}, {2, 2}), "0,20,1,3,0,0,0", 7);
  const auto seven = []() -> Generator {
    return [i = 0]() mutable -> absl::StatusOr<Batch> {
      Batch batch;
      batch.spec = std::make_shared<const RowSpec>(RowSpec{{"value", DType::kInt64, {}}});
      batch.rows = i++ == 0 ? 7 : 0;
      AllocateFixedColumns(&batch);
      return batch;
    };
  };
  fails(Dataset::FromGenerator(seven, {{"value", DType::kInt64, {}}}), "0,8", 1);
}

TEST(StateTest, LoadDropsWhatAnErrorLeftBehind) {
  const Dataset rows =
      Ragged(Dataset::Range(0, 10000)).Map({}, [](RowContext& row) -> absl::Status {
        if (row.In<int64_t>(0)[0] < 7000) return absl::OkStatus();
        return absl::DataLossError("returned");
      });
  for (const Dataset& ds : {rows.Batch(300), rows.BatchByLength("values", 1200)}) {
    auto it = Start(ds);
    const std::string begin = *it->StateDict();
    const std::vector<std::string> first = Collect(*it, 1);
    absl::Status status;
    Batch batch;
    while (status.ok()) status = it->Next(&batch);
    EXPECT_FAILS(status, kDataLoss, "returned");
    ASSERT_OK(it->LoadStateDict(begin));
    EXPECT_EQ(Collect(*it, 1), first);
  }
}

}  // namespace
}  // namespace shardfeed
