// Tests packing by a plan: what rows consist of, on any number of ranks, through stops and resumes.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipeline/dataset.h"
#include "shard/index/index.h"
#include "shardfeed/examples.h"
#include "tests/pipeline/dataset_chains.h"
#include "tests/reader/dataset_fixture.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::AddLengths;
using testing::FirstError;
using testing::kThreads;
using testing::Start;
using testing::TestFolder;

constexpr int64_t kDocuments = 3000;
constexpr int64_t kLength = 64;
constexpr int kShards = 5;

int64_t LengthOf(int64_t document) { return document * 2654435761 % 41; }
int64_t Token(int64_t document, int64_t i) { return document * 100 + i; }

class PlannedPackTest : public ::testing::Test {
 protected:
  PlannedPackTest() : spec_(folder_ / fmt::format("t@{}", kShards)) {
    for (int s = 0; s < kShards; ++s) {
      std::string shard;
      for (int64_t d = kDocuments * s / kShards; d < kDocuments * (s + 1) / kShards; ++d) {
        std::vector<int64_t> ids;
        std::vector<float> weights;
        for (int64_t i = 0; i < LengthOf(d); ++i) {
          ids.push_back(Token(d, i));
          weights.push_back(static_cast<float>(i) / 2);
        }
        ExampleBuilder builder;
        builder.AddInt64List("ids", ids);
        builder.AddFloatList("weights", weights);
        builder.AddInt64("document", d);
        builder.AddBytes("name", fmt::format("document {}", d));
        std::string record;
        builder.SerializeExample(&record);
        AppendFrame(record, &shard);
      }
      folder_.Write(ShardName("t", s, kShards, ""), shard);
    }
    AddLengths(*ResolveSpec(spec_), "ids", [](uint64_t d) { return LengthOf(d); });
  }

  Dataset Documents(ReaderOptions options = {}) const {
    options.order.kind = OrderSpec::Kind::kShuffle;
    options.order.seed = 3;
    options.order.window = 512;
    options.order.chunk = 8;
    options.order.lanes = 8;
    return Dataset::Read(spec_, std::move(options)).Parse(Features());
  }
  static std::vector<FeatureSpec> Features() {
    return {{.name = "ids", .dtype = DType::kInt64, .layout = Layout::kRagged},
            {.name = "weights", .dtype = DType::kFloat32, .layout = Layout::kRagged},
            {.name = "document", .dtype = DType::kInt64},
            {.name = "name", .dtype = DType::kBytes}};
  }
  static PackOptions Options() {
    return {.length = kLength, .pad = {-1, -2}, .lengths = "ids", .window = 1024};
  }
  static Dataset Packed(const Dataset& ds) { return ds.Pack({"ids", "weights"}, Options()); }

  // The tokens of the rows that a run delivers up to `most` batches, one text per batch.
  static std::vector<std::string> Batches(Iterator& it, size_t most = SIZE_MAX) {
    std::vector<std::string> batches;
    while (batches.size() < most) {
      Batch batch;
      EXPECT_OK(it.Next(&batch));
      if (batch.empty()) break;
      batches.push_back(fmt::format("{}", fmt::join(batch.Values<int64_t>(0), " ")));
    }
    return batches;
  }

  TestFolder folder_;
  const std::string spec_;
};

TEST_F(PlannedPackTest, HasEveryTokenOnceWithWhatBelongsToIt) {
  PackOptions options = Options();
  options.keep = {"document", "name"};
  options.cu_seqlens = true;
  const Dataset ds = Documents().Pack({"ids", "weights"}, options);
  ASSERT_OK(ds.status());
  EXPECT_EQ(RowSpecText(ds.spec()),
            "ids: int64 [64], weights: float32 [64], ids_segment_ids: int32 [64], ids_positions: "
            "int32 [64], document: int64 ragged, name: bytes ragged, ids_cu_seqlens: int32 ragged");
  const auto it = Start(ds);
  std::set<int64_t> documents;
  uint64_t rows = 0;
  for (Batch row; it->Next(&row).ok() && !row.empty(); ++rows) {
    ASSERT_EQ(row.rows, 1);
    const auto ids = row.Row<int64_t>(0, 0);
    const auto weights = row.Row<float>(1, 0);
    const auto segments = row.Row<int32_t>(2, 0);
    const auto positions = row.Row<int32_t>(3, 0);
    const auto kept = row.Row<int64_t>(4, 0);
    const auto names = row.Row<std::string_view>(5, 0);
    const auto ends = row.Row<int32_t>(6, 0);
    int64_t at = 0;
    for (size_t s = 0; s < kept.size(); ++s) {
      const int64_t d = kept[s];
      EXPECT_TRUE(documents.insert(d).second) << d;
      EXPECT_EQ(names[s], fmt::format("document {}", d));
      EXPECT_EQ(ends[s], at);
      for (int64_t i = 0; i < LengthOf(d); ++i, ++at) {
        ASSERT_EQ(ids[at], Token(d, i));
        ASSERT_EQ(weights[at], static_cast<float>(i) / 2);
        ASSERT_EQ(segments[at], static_cast<int32_t>(s) + 1);
        ASSERT_EQ(positions[at], i);
      }
    }
    EXPECT_EQ(ends[kept.size()], at);
    EXPECT_EQ(ends.size(), kept.size() + 1 + (at < kLength));
    EXPECT_EQ(ends.back(), kLength);
    for (; at < kLength; ++at) {
      ASSERT_EQ(ids[at], -1);
      ASSERT_EQ(weights[at], -2);
      ASSERT_EQ(segments[at], 0);
      ASSERT_EQ(positions[at], 0);
    }
  }
  for (int64_t d = 0; d < kDocuments; ++d) EXPECT_EQ(documents.contains(d), LengthOf(d) > 0);
  const auto length = ds.CountElements();
  ASSERT_OK(length);
  EXPECT_EQ(length->elements, rows);
}

TEST_F(PlannedPackTest, GivesRanksTheSameBatchesInAnyWorld) {
  const std::vector<std::string> rows = Batches(*Start(Packed(Documents()).Batch(1)));
  for (uint64_t world : {2, 3, 8}) {
    for (uint64_t rank = 0; rank < world; ++rank) {
      const Dataset ds = Packed(Documents()).ShardSources(rank, world).Batch(1);
      ASSERT_OK(ds.status());
      const std::vector<std::string> mine = Batches(*Start(ds));
      ASSERT_EQ(mine.size(), rows.size() / world);
      for (size_t i = 0; i < mine.size(); ++i) ASSERT_EQ(mine[i], rows[i * world + rank]);
    }
  }
}

TEST_F(PlannedPackTest, ResumesOnAnyNumberOfRanks) {
  const std::vector<std::string> rows = Batches(*Start(Packed(Documents()).Batch(1)));
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    std::string state;
    size_t done = 0;
    for (int run = 0; run < 4; ++run) {
      const uint64_t world = 1 + random() % 4;
      const size_t batches = run == 3 ? SIZE_MAX : random() % 60;
      std::vector<std::string> states;
      std::vector<std::vector<std::string>> delivered(world);
      for (uint64_t rank = 0; rank < world; ++rank) {
        // Where the rows are batched, a state is after whole batches, read ahead or not.
        const auto it = Start(Packed(Documents()).ShardSources(rank, world).Batch(1).Prefetch(2));
        if (!state.empty()) ASSERT_OK(it->LoadStateDict(state));
        delivered[rank] = Batches(*it, batches);
        const auto saved = it->StateDict();
        ASSERT_OK(saved);
        states.push_back(*saved);
      }
      for (const std::string& other : states) ASSERT_EQ(other, states[0]);
      state = states[0];
      for (size_t i = 0; i < delivered[0].size(); ++i) {
        for (uint64_t rank = 0; rank < world; ++rank) {
          ASSERT_EQ(delivered[rank].size(), delivered[0].size());
          ASSERT_EQ(delivered[rank][i], rows[done++]) << world;
        }
      }
      if (done + 4 > rows.size()) break;
    }
    EXPECT_GT(done + 4, rows.size());
  }
}

TEST_F(PlannedPackTest, HasOtherRowsInEachEpoch) {
  for (const Dataset& ds : {Packed(Documents().Repeat(2)), Packed(Documents()).Repeat(2)}) {
    const std::vector<std::string> rows = Batches(*Start(ds.Batch(1)));
    std::set<std::string> different(rows.begin(), rows.end());
    EXPECT_GT(different.size(), rows.size() * 9 / 10);
    std::map<int64_t, int> times;
    const auto it = Start(ds);
    for (Batch row; it->Next(&row).ok() && !row.empty();) {
      for (int64_t id : row.Values<int64_t>(0)) ++times[id];
    }
    for (const auto& [id, n] : times) EXPECT_TRUE(id < 0 || n == 2) << id;
  }
}

TEST_F(PlannedPackTest, MayFollowStepsThatKeepRows) {
  const Dataset ds = Documents()
                         .Select({"ids", "document"})
                         .Map({{"twice", DType::kInt32, {}, true}},
                              [](RowContext& row) {
                                const auto ids = row.In<int64_t>(0);
                                const auto twice = row.Extend<int32_t>(0, ids.size());
                                for (size_t i = 0; i < ids.size(); ++i)
                                  twice[i] = static_cast<int32_t>(2 * ids[i]);
                                return absl::OkStatus();
                              })
                         .Pack({"twice", "ids"}, Options());
  const auto it = Start(ds);
  int64_t tokens = 0;
  for (Batch row; it->Next(&row).ok() && !row.empty();) {
    for (int64_t i = 0; i < kLength; ++i) {
      if (row.Row<int32_t>(2, 0)[i] == 0) continue;
      ASSERT_EQ(row.Row<int32_t>(0, 0)[i], 2 * row.Row<int64_t>(1, 0)[i]);
      ++tokens;
    }
  }
  for (int64_t d = 0; d < kDocuments; ++d) tokens -= LengthOf(d);
  EXPECT_EQ(tokens, 0);
}

TEST_F(PlannedPackTest, GivesEachRowAPlaceOfItsOwn) {
  const auto places = [](const Dataset& ds) {
    const Dataset placed = ds.Map({{"place", DType::kInt64}}, [](RowContext& row) {
      row.Out<int64_t>(0)[0] = static_cast<int64_t>(row.position());
      return absl::OkStatus();
    });
    std::vector<int64_t> found;
    const auto it = Start(placed);
    for (Batch row; it->Next(&row).ok() && !row.empty();) {
      for (size_t r = 0; r < row.rows; ++r) found.push_back(row.Row<int64_t>(4, r)[0]);
    }
    return found;
  };
  const std::vector<int64_t> all = places(Packed(Documents()));
  EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), all.size());
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  for (uint64_t rank = 0; rank < 3; ++rank) {
    const std::vector<int64_t> mine = places(Packed(Documents()).ShardSources(rank, 3));
    ASSERT_EQ(mine.size(), all.size() / 3);
    for (size_t i = 0; i < mine.size(); ++i) ASSERT_EQ(mine[i], all[3 * i + rank]);
  }
}

TEST_F(PlannedPackTest, KnowsTheLengthOfRepeatedEpochs) {
  for (const Dataset& ds :
       {Packed(Documents().Repeat(3)), Packed(Documents()).Repeat(3),
        Packed(Documents().Repeat(3)).Batch(7), Packed(Documents()).Batch(7).Repeat(3),
        Documents().BatchByLength("ids", 100, {.lengths = "ids"}).Repeat(4)}) {
    const auto length = ds.CountElements();
    ASSERT_OK(length);
    uint64_t elements = 0;
    const auto it = Start(ds);
    for (Batch batch; it->Next(&batch).ok() && !batch.empty();) elements += batch.num_elements();
    EXPECT_EQ(length->elements, elements);
  }
}

TEST_F(PlannedPackTest, RefusesWhatCannotBePlanned) {
  const auto error = [](const Dataset& ds) { return std::string(ds.status().message()); };
  const FilterFn all = [](RowContext&) { return true; };
  EXPECT_THAT(error(Packed(Documents().Filter(all))),
              ::testing::HasSubstr("steps that keep each row may precede, which filter is not"));
  EXPECT_THAT(error(Packed(Documents().Take(5))), ::testing::HasSubstr("which take(5) is not"));
  PackOptions cutting = Options();
  cutting.split = true;
  const Dataset by_place = Documents().Map(
      {{"ids", DType::kInt64, {}, true}}, [](RowContext&) { return absl::OkStatus(); }, {}, 1, {},
      /*by_place=*/true);
  EXPECT_THAT(
      error(by_place.Pack({"ids", "weights"}, cutting)),
      ::testing::HasSubstr("takes random numbers or an index by a record's place, of which it has "
                           "several if its sequence is cut"));
  EXPECT_OK(Packed(by_place).status());
  EXPECT_THAT(error(Packed(Documents({.end = EpochEnd::kWrap}))),
              ::testing::HasSubstr("read with end=\"drop\""));
  PackOptions options = Options();
  options.split = options.truncate = true;
  EXPECT_THAT(error(Documents().Pack({"ids"}, {.length = 8, .split = true})),
              ::testing::HasSubstr("are for planned rows: name the lengths"));
  options.pad = {0};
  EXPECT_THAT(error(Documents().Pack({"ids"}, options)),
              ::testing::HasSubstr("truncated or split, not both"));
  EXPECT_THAT(error(Documents().Pack({"ids"}, Options())),
              ::testing::HasSubstr("got 2 padding values for 1 column"));
  EXPECT_THAT(error(Documents().Pack({}, Options())), ::testing::HasSubstr("there are no columns"));
  EXPECT_THAT(error(Documents().Pack({"ids", "ids"}, Options())),
              ::testing::HasSubstr("column 'ids' would appear twice"));
  options = Options();
  options.keep = {"weights"};
  options.pad = {0};
  EXPECT_THAT(error(Documents().Pack({"ids"}, options)),
              ::testing::HasSubstr("column 'weights' cannot be kept for each segment"));
  EXPECT_THAT(
      error(Documents().Pack({"name"}, {.length = 8})),
      ::testing::HasSubstr("must have any number of single numbers per row, but it is name: "
                           "bytes"));
  EXPECT_FAILS(Packed(Documents()).Start({.deterministic = false}), kInvalidArgument,
               "run without deterministic=False");
}

TEST_F(PlannedPackTest, TellsLengthsThatAreNotTrue) {
  AddLengths(*ResolveSpec(spec_), "ids", [](uint64_t d) { return LengthOf(d) + (d == 1234); });
  EXPECT_FAILS(FirstError(Packed(Documents())), kInvalidArgument,
               fmt::format("pack: 'ids' has {} elements, but the index says {} of 'ids'",
                           LengthOf(1234), LengthOf(1234) + 1));
  EXPECT_FAILS(FirstError(Packed(Documents())), kInvalidArgument,
               "t-00002-of-00005: record 34 at byte");
  PackOptions options = Options();
  options.lengths = "words";
  EXPECT_FAILS(Documents().Pack({"ids", "weights"}, options).Start(), kFailedPrecondition,
               "the index has no lengths of \"words\", only of \"ids\"");
}

TEST_F(PlannedPackTest, FillsUpThePlaceOfASkippedRecord) {
  // Damage the payload of one record, whose length the index still has.
  const std::string path = folder_ / ShardName("t", 0, kShards, "");
  std::string bytes = testing::ReadBytes(path);
  const auto index = ShardIndex::Open(IndexPath(path));
  ASSERT_OK(index);
  bytes[(*index)->Offset(17) + 40] ^= 1;
  folder_.Write(ShardName("t", 0, kShards, ""), bytes);
  ReaderOptions options;
  options.skip_damaged = true;
  std::map<int64_t, int> times;
  const auto it = Start(Packed(Documents(options)));
  for (Batch row; it->Next(&row).ok() && !row.empty();) {
    for (int64_t id : row.Values<int64_t>(0)) ++times[id];
  }
  for (int64_t d = 0; d < kDocuments; ++d) {
    for (int64_t i = 0; i < LengthOf(d); ++i) EXPECT_EQ(times[Token(d, i)], d != 17) << d;
  }
  EXPECT_EQ(it->stats().dropped_damaged, 1);
}

TEST_F(PlannedPackTest, BatchesRowsOfSimilarLength) {
  const Dataset ds = Documents().BatchByLength("ids", 200, {.lengths = "ids", .window = 1024});
  ASSERT_OK(ds.status());
  std::set<int64_t> documents;
  int64_t tokens = 0;
  int64_t room = 0;
  uint64_t batches = 0;
  const auto it = Start(ds);
  for (Batch batch; it->Next(&batch).ok() && !batch.empty(); ++batches) {
    int64_t longest = 0;
    for (size_t row = 0; row < batch.rows; ++row) {
      const int64_t document = batch.Row<int64_t>(2, row)[0];
      EXPECT_TRUE(documents.insert(document).second) << document;
      ASSERT_EQ(batch.Row<int64_t>(0, row).size(), LengthOf(document));
      longest = std::max(longest, LengthOf(document));
      tokens += LengthOf(document);
    }
    ASSERT_TRUE(batch.rows * longest <= 200) << batch.rows << " of " << longest;
    room += static_cast<int64_t>(batch.rows) * longest;
  }
  EXPECT_EQ(documents.size(), kDocuments);
  EXPECT_GT(tokens, room * 85 / 100);
  const auto length = ds.CountElements();
  ASSERT_OK(length);
  EXPECT_EQ(length->elements, batches);
  // Any number of ranks, and resuming, as with packed rows.
  const std::vector<std::string> all = Batches(*Start(ds));
  for (uint64_t rank = 0; rank < 3; ++rank) {
    const auto mine = Start(ds.ShardSources(rank, 3));
    const std::vector<std::string> first = Batches(*mine, 7);
    const auto state = mine->StateDict();
    ASSERT_OK(state);
    const auto other = Start(ds.ShardSources(rank % 2, 2));
    ASSERT_OK(other->LoadStateDict(*state));
    const std::vector<std::string> rest = Batches(*other);
    for (size_t i = 0; i < first.size(); ++i) ASSERT_EQ(first[i], all[3 * i + rank]);
    for (size_t i = 0; i < rest.size(); ++i) ASSERT_EQ(rest[i], all[21 + 2 * i + rank % 2]);
    EXPECT_EQ(rest.size(), (all.size() - 21) / 2);
  }
  for (const BatchByLengthOptions& options :
       {BatchByLengthOptions{.window = 5}, BatchByLengthOptions{.min_length = 1},
        BatchByLengthOptions{.max_length = 9}}) {
    EXPECT_THAT(
        std::string(Documents().BatchByLength("ids", 200, options).status().message()),
        ::testing::HasSubstr("batch_by_length: window, min_length and max_length are for batches "
                             "that are planned"));
  }
}

TEST_F(PlannedPackTest, LeavesOutRecordsByTheirLengths) {
  PackOptions options = Options();
  options.min_length = 5;
  options.max_length = 20;
  for (bool packs : {false, true}) {
    const Dataset ds = packs
                           ? Documents().Pack({"ids", "weights"}, options)
                           : Documents().BatchByLength(
                                 "ids", 200, {.lengths = "ids", .min_length = 5, .max_length = 20});
    std::map<int64_t, int> times;
    uint64_t elements = 0;
    const auto it = Start(ds);
    for (Batch batch; it->Next(&batch).ok() && !batch.empty(); ++elements) {
      for (int64_t id : batch.Values<int64_t>(0)) ++times[id];
    }
    times.erase(-1);  // padding
    for (int64_t d = 0; d < kDocuments; ++d) {
      const bool is_kept = LengthOf(d) >= 5 && LengthOf(d) <= 20;
      for (int64_t i = 0; i < LengthOf(d); ++i) ASSERT_EQ(times[Token(d, i)], is_kept) << d;
    }
    const auto length = ds.CountElements();
    ASSERT_OK(length);
    EXPECT_EQ(length->elements, elements);
  }
  options.lengths.clear();
  options.window = 0;
  EXPECT_THAT(
      std::string(Documents().Pack({"ids", "weights"}, options).status().message()),
      ::testing::HasSubstr(
          "pack: split, how, window, min_length, max_length and cost are for planned rows"));
  options = Options();
  options.min_length = 6;
  options.max_length = 5;
  EXPECT_THAT(std::string(FirstError(Documents().Pack({"ids", "weights"}, options)).message()),
              ::testing::HasSubstr("no record has a length between min_length 6 and max_length 5"));
}

TEST_F(PlannedPackTest, HasAFingerprintOfItsPlan) {
  const auto fingerprint = [&](const PackOptions& options) {
    return *Documents().Pack({"ids", "weights"}, options).Fingerprint();
  };
  PackOptions without = Options();
  without.lengths.clear();
  without.window = 0;
  std::set<uint64_t> different = {fingerprint(Options()), fingerprint(without)};
  PackOptions options = Options();
  options.window = 2048;
  different.insert(fingerprint(options));
  options.how = PackSpec::How::kConcatenate;
  different.insert(fingerprint(options));
  options.split = true;
  different.insert(fingerprint(options));
  options.pad = {0};
  different.insert(fingerprint(options));
  options.min_length = 1;
  different.insert(fingerprint(options));
  options.max_length = 40;
  different.insert(fingerprint(options));
  EXPECT_EQ(different.size(), 8);
  PackOptions open = Options();
  open.open = 3;
  EXPECT_EQ(fingerprint(open), fingerprint(Options()));
}

TEST_F(PlannedPackTest, KeepsTheNumbersOfItsRecords) {
  PackOptions options = Options();
  options.pad = {-1};
  options.keep = {"document", "number"};
  const Dataset read = Dataset::Read(spec_, {.order = {.kind = OrderSpec::Kind::kShuffle}});
  const Dataset ds = read.NumberRecords("number").Parse(Features()).Pack({"ids"}, options);
  ASSERT_OK(ds.status());
  const auto it = Start(ds);
  std::set<int64_t> numbers;
  for (Batch batch; it->Next(&batch).ok() && !batch.empty();) {
    for (size_t row = 0; row < batch.rows; ++row) {
      const auto documents = batch.Row<int64_t>(batch.Find("document"), row);
      const auto of_row = batch.Row<int64_t>(batch.Find("number"), row);
      EXPECT_THAT(of_row, ::testing::ElementsAreArray(documents));
      numbers.insert(of_row.begin(), of_row.end());
    }
  }
  EXPECT_GT(numbers.size(), kDocuments * 9 / 10);
}

TEST_F(PlannedPackTest, NumbersRecordsWhereTheyAreRead) {
  const auto error = [](const Dataset& ds) { return std::string(ds.status().message()); };
  const Dataset read = Dataset::Read(spec_);
  EXPECT_THAT(error(Documents().NumberRecords("number")),
              ::testing::HasSubstr("records get their numbers where they are read, but parse("));
  EXPECT_THAT(error(read.NumberRecords("a").NumberRecords("b")),
              ::testing::HasSubstr("where they are read, but read("));
  EXPECT_EQ(error(read.NumberRecords("number", "source")),
            "read: column 'source': only the records of a mixture have sources");
  EXPECT_EQ(error(read.NumberRecords("record")), "read: column 'record' would appear twice");
  EXPECT_EQ(error(Dataset::Mix({{"a", {spec_}, {}}}, {{0, {1}}}, 0, {}, std::nullopt)
                      .NumberRecords("number", "number")),
            "mix: column 'number' would appear twice");
  EXPECT_EQ(RowSpecText(read.NumberRecords("").spec()), "record: bytes");
}

}  // namespace
}  // namespace shardfeed
