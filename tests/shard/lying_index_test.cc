// Whatever an index with valid CRCs says, the results are the right records, or DataLoss.

#include <fstream>
#include <random>

#include "gtest/gtest.h"
#include "shard/formats/shard_reader.h"
#include "shard/index/index.h"
#include "shard/indexing/index_build.h"
#include "shard/indexing/index_check.h"
#include "shard/reshard/reshard.h"
#include "shard/spec/spec.h"
#include "shard/writing/writer.h"
#include "shardfeed/index.h"
#include "shardfeed/verify.h"
#include "tests/testing/deflate.h"
#include "tests/testing/files.h"
#include "tests/testing/index_lies.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

using testing::LyingIndex;
using testing::OnDisk;
using testing::ReadBytes;
using testing::TestFolder;

// Fewer for sanitizers, which are slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kLies = 8;  // too few for each outcome to be among them
#else
constexpr int kLies = 40;
#endif
constexpr bool kManyLies = kLies >= 40;

struct Kind {
  std::string name;
  Compression compression = Compression::kNone;
  bool foreign = false;  // one GZIP member or ZLIB stream, made by zlib
  int records = 0;
  size_t bytes = 0;
};

class LyingIndexTest : public ::testing::TestWithParam<Kind> {
 protected:
  // All records have the same size, so that a shifted offset leads to a frame that looks right.
  static std::string Payload(int i) {
    std::string payload = std::to_string(1'000'000 + i);
    std::mt19937 random(i);
    while (payload.size() < GetParam().bytes) payload.push_back(static_cast<char>(random() % 16));
    return payload;
  }

  void SetUp() override {
    const Kind& kind = GetParam();
    const OutputSpec spec = *ParseOutputSpec(folder_ / "a@1");
    DatasetWriterOptions options;
    options.sync = false;
    options.encode.compression = kind.foreign ? Compression::kNone : kind.compression;
    options.encode.member_bytes = 4 << 10;
    auto writer = DatasetWriter::Create(spec, options);
    ASSERT_OK(writer);
    for (int i = 0; i < kind.records; ++i) ASSERT_OK((*writer)->Write(Payload(i)));
    ASSERT_OK((*writer)->Finish({}));
    path_ = folder_ / "a-00000-of-00001";
    if (kind.foreign) {
      const int window_bits = kind.compression == Compression::kGzip ? 31 : 15;
      folder_.Write("a-00000-of-00001", testing::Deflate(ReadBytes(path_), window_bits, 1));
      IndexBuildOptions building;
      building.restart_interval = 20'000;
      const auto index = BuildIndex(path_, building);
      ASSERT_OK(index);
      Put((*index)->bytes());
      std::filesystem::remove(OnDisk(ManifestPath(folder_.path(), "a")));
    }
    sound_ = ReadBytes(IndexPath(path_));
  }

  void Put(std::string_view index) {
    std::ofstream(OnDisk(IndexPath(path_)), std::ios::binary | std::ios::trunc) << index;
  }

  // The records of `set`, read from beginning to end without an index, are `numbers`.
  void ExpectRecords(const std::string& path, const std::vector<int>& numbers) {
    auto reader = ShardReader::Open(path);
    ASSERT_OK(reader);
    RecordBlock block;
    size_t next = 0;
    while (true) {
      ASSERT_OK((*reader)->Next(&block));
      if (block.records.empty()) break;
      for (const Record& record : block.records) {
        ASSERT_LT(next, numbers.size());
        ASSERT_TRUE(record.payload == Payload(numbers[next])) << next;
        ++next;
      }
    }
    EXPECT_EQ(next, numbers.size());
  }

  void ExpectReshard(const RecordSelection& selection, const std::vector<int>& numbers,
                     Compression compression) {
    const auto set = ResolveSpec(folder_ / "a@1");
    ASSERT_OK(set);
    const auto input = ReshardInput::Open({*set}, 1, {});
    if (!input.ok()) return ExpectDataLoss(input.status());
    const OutputSpec spec = *ParseOutputSpec(folder_ / "b@1");
    ReshardOptions options;
    options.sync = false;
    options.threads = 2;
    options.overwrite = true;
    options.encode.compression = compression;
    // The lie may be in the number of records.
    if (input->num_records() != static_cast<uint64_t>(GetParam().records)) {
      const auto all = RecordSelection::Runs({{0, input->num_records()}});
      return ExpectDataLoss(Reshard(*input, all, EvenEnds(all.count(), 1), spec, options).status());
    }
    const auto done = Reshard(*input, selection, EvenEnds(selection.count(), 1), spec, options);
    if (!done.ok()) return ExpectDataLoss(done.status());
    ExpectRecords(folder_ / "b-00000-of-00001", numbers);
    ++done_;
  }

  void ExpectDataLoss(const absl::Status& status) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("index"));
    ++refused_;
  }

  std::vector<int> Numbers() const {
    std::vector<int> numbers(GetParam().records);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i);
    return numbers;
  }

  TestFolder folder_;
  std::string path_;
  std::string sound_;
  int done_ = 0;
  int refused_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Kinds, LyingIndexTest,
                         ::testing::Values(Kind{"RawSmall", Compression::kNone, false, 1000, 100},
                                           Kind{"RawLarge", Compression::kNone, false, 300, 20'000},
                                           Kind{"Gzip", Compression::kGzip, false, 1000, 100},
                                           Kind{"Zlib", Compression::kZlib, false, 1000, 100},
                                           Kind{"ForeignGzip", Compression::kGzip, true, 1000, 100},
                                           Kind{"ForeignZlib", Compression::kZlib, true, 1000,
                                                100}),
                         [](const auto& info) { return info.param.name; });

TEST_P(LyingIndexTest, ReshardAndSampleGiveTheRightRecordsOrDataLoss) {
  std::mt19937_64 random(1);
  const auto all = RecordSelection::Runs({{0, static_cast<uint64_t>(GetParam().records)}});
  const auto some = RecordSelection::Runs({{128, 140}, {200, 260}});
  std::vector<int> some_numbers;
  for (int i = 128; i < 140; ++i) some_numbers.push_back(i);
  for (int i = 200; i < 260; ++i) some_numbers.push_back(i);
  for (int lie = 0; lie < kLies; ++lie) {
    SCOPED_TRACE(lie);
    Put(lie == 0 ? sound_ : LyingIndex(sound_, random));
    ExpectReshard(all, Numbers(),
                  GetParam().compression);  // copies bytes where there is a manifest
    ExpectReshard(all, Numbers(), Compression::kZlib);
    ExpectReshard(some, some_numbers, Compression::kNone);
    if (lie == 0) {
      EXPECT_EQ(refused_, 0);
    }
    if (HasFatalFailure()) return;
  }
  // An impossible index of a raw shard is rebuilt; in one of a compressed shard, points may be
  // exchanged.
  if (kManyLies && GetParam().compression != Compression::kNone) {
    EXPECT_GT(refused_, 0);
  }
  EXPECT_GT(done_, 0);
}

// An index that verify accepts is correct.
TEST_P(LyingIndexTest, VerifyTellsEachThatReadsWrong) {
  std::mt19937_64 random(2);
  VerifyOptions options;
  int defects = 0;
  const auto truth = ShardIndex::FromBytes(sound_, "truth");
  ASSERT_OK(truth);
  for (int lie = 0; lie < 4 * kLies; ++lie) {
    SCOPED_TRACE(lie);
    Put(lie == 0 ? sound_ : LyingIndex(sound_, random));
    options.level = lie % 2 == 0 ? VerifyLevel::kPayload : VerifyLevel::kHeaders;
    const auto report = VerifyShard(path_, options);
    ASSERT_OK(report);
    if (lie == 0) {
      ASSERT_EQ(report->num_defects, 0) << report->defects[0].detail;
    }
    defects += report->num_defects > 0;
    if (report->num_defects > 0) {
      EXPECT_EQ(report->defects[0].kind, "index");
      EXPECT_THAT(report->defects[0].detail,
                  ::testing::HasSubstr("rebuild it with 'shardfeed index'"));
      continue;
    }
    const auto index = ShardIndex::Open(IndexPath(path_));
    ASSERT_OK(index);
    ASSERT_EQ((*index)->records(), (*truth)->records());
    for (uint64_t i = 0; i <= (*truth)->records(); ++i) {
      ASSERT_EQ((*index)->Offset(i), (*truth)->Offset(i));
    }
    for (uint64_t i = 0; i < (*index)->num_restart_points(); ++i) {
      ASSERT_EQ((*index)->PointAt(i).file_offset, (*truth)->PointAt(i).file_offset);
      ASSERT_EQ((*index)->PointAt(i).bits, (*truth)->PointAt(i).bits);
      ASSERT_EQ((*index)->PointAt(i).stream_offset, (*truth)->PointAt(i).stream_offset);
      ASSERT_TRUE((*truth)->DictionaryAt(i).ends_with((*index)->DictionaryAt(i)));
    }
  }
  EXPECT_GT(defects, kManyLies ? kLies : 0);
}

// Readers trust an index that does not contradict itself, but a record that they deliver is a whole
// record of the shard.
TEST_P(LyingIndexTest, ReadersDeliverRecordsOrFail) {
  std::mt19937_64 random(3);
  for (int lie = 0; lie < kLies; ++lie) {
    SCOPED_TRACE(lie);
    Put(lie == 0 ? sound_ : LyingIndex(sound_, random));
    const auto set = ResolveSpec(folder_ / "a@1");
    ASSERT_OK(set);
    const auto access = RandomAccess::Open(*set, 1);
    if (!access.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(access.status())) << access.status();
      continue;
    }
    const auto is_record = [](std::string_view payload) {
      if (payload.size() != GetParam().bytes) return false;
      const int i = std::atoi(std::string(payload.substr(0, 7)).c_str()) - 1'000'000;
      return i >= 0 && i < GetParam().records && payload == Payload(i);
    };
    const uint64_t records = (*access)->num_records();
    for (uint64_t begin : {uint64_t{0}, std::min<uint64_t>(records, 128), records / 2}) {
      const absl::Status status = (*access)->Read(begin, std::min(begin + 200, records),
                                                  [&](uint64_t, std::string_view payload) {
                                                    EXPECT_TRUE(is_record(payload));
                                                    return absl::OkStatus();
                                                  });
      EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
      if (lie == 0) {
        EXPECT_OK(status);
      }
    }
  }
}

}  // namespace
}  // namespace shardfeed
