// MDS shards: their indexes, reading them in every order by every engine, verifying, and damage.

#include "tests/testing/mds_shards.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "reader/reader.h"
#include "shard/indexing/index_build.h"
#include "shard/indexing/index_check.h"
#include "shard/indexing/text_index.h"
#include "shardfeed/index.h"
#include "shardfeed/verify.h"
#include "tests/reader/reader_fixture.h"
#include "tests/testing/files.h"
#include "tests/testing/index_lies.h"
#include "tfrecord/example_text.h"

namespace shardfeed {
namespace {

using testing::Bytes;
using testing::Drain;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakeReader;
using testing::MdsConfig;
using testing::MdsSample;
using testing::MdsShard;
using testing::OpenTable;
using testing::Orders;
using testing::TestFolder;

constexpr uint64_t kShards = 3;
constexpr uint64_t kSamples = 100;  // in each shard
const std::string kConfig = MdsConfig({{"n", "int32", 4}, {"score", "float64", 8}, {"x", "bytes"}});

std::string SampleOf(uint64_t sample) {
  const std::string content(sample * 37 % 3000, 'i');
  return MdsSample({static_cast<uint32_t>(content.size())},
                   {Bytes<int32_t>({static_cast<int32_t>(sample)}),
                    Bytes<double>({static_cast<double>(sample) + 0.5}), content});
}

std::string JsonOf(uint64_t sample) {
  return fmt::format(R"({{"n":[{}],"score":[{}.5],"x":["{}"]}})", sample, sample,
                     std::string(sample * 37 % 3000, 'i'));
}

class MdsShardsTest : public ::testing::Test {
 protected:
  static std::string NameOf(uint64_t shard) { return fmt::format("shard.{:05}.mds", shard); }
  std::string ShardPath(uint64_t shard) { return folder_ / NameOf(shard); }

  ShardSet Write() {
    std::vector<std::string> paths;
    for (uint64_t shard = 0; shard < kShards; ++shard) {
      std::vector<std::string> samples;
      for (uint64_t i = 0; i < kSamples; ++i) samples.push_back(SampleOf(shard * kSamples + i));
      paths.push_back(folder_.Write(NameOf(shard), MdsShard(kConfig, samples)));
    }
    return *ResolveSpecs(paths);
  }
  // The offset of a sample in its shard.
  static uint64_t OffsetOf(uint64_t sample) {
    uint64_t offset = 4 * (kSamples + 2) + kConfig.size();
    for (uint64_t i = sample / kSamples * kSamples; i < sample; ++i) offset += SampleOf(i).size();
    return offset;
  }
  void SetByte(uint64_t shard, uint64_t offset, char byte) {
    std::string bytes = testing::ReadBytes(ShardPath(shard));
    bytes[offset] = byte;
    folder_.Write(NameOf(shard), bytes);
  }
  // Makes the sample claim to be larger than it is.
  void Damage(uint64_t sample) { SetByte(sample / kSamples, OffsetOf(sample) + 3, 1); }

  TestFolder folder_;
};

TEST_F(MdsShardsTest, EveryOrderByEveryEngineDeliversEachSampleOnce) {
  const ShardSet set = Write();
  for (const OrderSpec& order : Orders()) {
    for (EngineKind io : {EngineKind::kUring, EngineKind::kThreads, EngineKind::kMmap}) {
      std::set<uint64_t> seen;
      for (uint64_t rank = 0; rank < 2; ++rank) {
        ReaderOptions options;
        options.order = order;
        options.io = io;
        options.world = 2;
        options.rank = rank;
        const auto reader = MakeReader(OpenTable(set), options);
        const auto all = Drain(*reader);
        if (io == EngineKind::kUring && absl::IsUnavailable(all.status())) break;  // none here
        ASSERT_OK(all);
        for (size_t i = 0; i < all->records.size(); ++i) {
          const uint64_t sample = reader->RecordAt(0, rank + 2 * i);
          ASSERT_EQ(*ExampleToJson(all->records[i]), JsonOf(sample));
          EXPECT_TRUE(seen.insert(sample).second);
        }
      }
      EXPECT_TRUE(seen.empty() || seen.size() == kShards * kSamples);
    }
  }
}

TEST_F(MdsShardsTest, AnySampleByItsNumber) {
  const auto access = RandomAccess::Open(Write());
  ASSERT_OK(access);
  EXPECT_EQ((*access)->num_records(), kShards * kSamples);
  const std::vector<uint64_t> numbers = {299, 0, 7, 8, 7, 150};
  const auto found = (*access)->Get(numbers);
  ASSERT_OK(found);
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(*ExampleToJson(found->records[i]), JsonOf(numbers[i]));
  }
  uint64_t next = 90;
  EXPECT_OK((*access)->Read(90, 210, [&](uint64_t number, std::string_view payload) {
    EXPECT_EQ(number, next++);
    EXPECT_EQ(*ExampleToJson(payload), JsonOf(number));
    return absl::OkStatus();
  }));
  EXPECT_EQ(next, 210u);
}

TEST_F(MdsShardsTest, AnIndexIsMadeOfTheHeaderAlone) {
  const std::string large(1 << 20, 'x');
  std::vector<std::string> samples(20, MdsSample({1 << 20}, {large}));
  const std::string config = MdsConfig({{"x", "bytes"}});
  const std::string path = folder_.Write("one.mds", MdsShard(config, samples));
  std::atomic<uint64_t> read = 0;
  const auto summary = IndexShard(path, {.bytes_read = &read});
  ASSERT_OK(summary);
  EXPECT_EQ(summary->framing, Framing::kMds);
  EXPECT_EQ(summary->records, 20u);
  EXPECT_EQ(summary->stream_bytes, 20 * (16 + samples[0].size()));
  EXPECT_EQ(summary->shard_bytes, std::filesystem::file_size(path));
  EXPECT_LT(read, 1000u);
  const auto index = ShardIndex::Open(IndexPath(path));
  ASSERT_OK(index);
  const uint64_t header = 22 * 4 + config.size();
  EXPECT_EQ((*index)->Offset(3), 3 * (16 + samples[0].size()));
  for (uint64_t i = 0; i <= 20; ++i) {
    EXPECT_EQ((*index)->FileOffset(i), header + i * samples[0].size());
  }
  EXPECT_EQ((*index)->mds_columns()->config(), config);
  EXPECT_OK(CompareIndexWithShard(path, *index, {}));
}

TEST_F(MdsShardsTest, AnIndexWithoutColumnsOrWithWrongOnesIsRefused) {
  const auto index = BuildIndex(Write().paths[0], {});
  ASSERT_OK(index);
  const std::string bytes((*index)->bytes());
  std::string cut = bytes;
  cut.pop_back();
  StoreLittleEndian<uint64_t>(cut.size(), cut.data() + 72);
  testing::FitIndexCrcs(&cut);
  EXPECT_FAILS(ShardIndex::FromBytes(cut, "x.index"), kDataLoss,
               "x.index: the index lacks the columns of its MDS shard; rebuild it");
  std::string wrong = bytes;
  wrong[wrong.size() - kConfig.size()] = '[';
  testing::FitIndexCrcs(&wrong);
  EXPECT_FAILS(ShardIndex::FromBytes(wrong, "x.index"), kDataLoss,
               "x.index: the description of the columns is not a JSON object; rebuild it");
}

TEST_F(MdsShardsTest, AnotherShardOfTheSameSizeIsNoticed) {
  Write();
  const auto summary = IndexShard(ShardPath(0), {});
  ASSERT_OK(summary);
  EXPECT_TRUE(*OpenTable(*ResolveSpecs({ShardPath(0)}))->Index(0));
  // One sample less, and a larger last one.
  std::vector<std::string> samples;
  for (uint64_t i = 0; i + 1 < kSamples; ++i) samples.push_back(SampleOf(i));
  std::string other = MdsShard(kConfig, samples);
  const std::string last = SampleOf(kSamples - 1);
  samples.back().append(4 + last.size(), 'x');
  other = MdsShard(kConfig, samples);
  ASSERT_EQ(other.size(), summary->shard_bytes);
  folder_.Write(NameOf(0), other);
  EXPECT_EQ(OpenTable(*ResolveSpecs({ShardPath(0)}))->num_records(), kSamples - 1);
}

TEST_F(MdsShardsTest, WhatIsWrongWithAShardIsToldWithItsPlace) {
  const auto index_of = [&](const std::string& name, const std::string& bytes) {
    return BuildIndex(folder_.Write(name, bytes), {});
  };
  EXPECT_FAILS(index_of("a.mds", ""), kDataLoss,
               "a.mds: an MDS shard that is cut off: it has 0 bytes");
  const std::string shard = MdsShard(kConfig, {SampleOf(1), SampleOf(2)});
  EXPECT_FAILS(index_of("a.mds", shard.substr(0, shard.size() - 1)), kDataLoss,
               "a.mds: offset 2 of the MDS shard, at byte 12, is");
  EXPECT_FAILS(index_of("a.mds", MdsShard("{}", {"x"})), kDataLoss,
               "a.mds: the description of the columns does not say that the format is \"mds\"");
  for (const char* name : {"a.mds.zstd", "a.mds.gz", "a.mds.bz2", "a.mds.br", "a.mds.snappy"}) {
    EXPECT_FAILS(index_of(name, "x"), kInvalidArgument,
                 fmt::format("{}: a compressed MDS shard, of which no single sample can be read; "
                             "decompress it (",
                             name));
  }
  EXPECT_EQ((*index_of("unnamed", shard))->summary().framing, Framing::kMds);
}

TEST_F(MdsShardsTest, ShardsWithoutSamplesAreEmpty) {
  const std::string path = folder_.Write("none.mds", MdsShard(kConfig, {}));
  const auto report = VerifyShard(path, {});
  ASSERT_OK(report);
  EXPECT_EQ(report->num_defects, 0u);
  EXPECT_EQ(report->records, 0u);
  const auto all = Drain(*MakeReader(OpenTable(*ResolveSpecs({path})), {}));
  ASSERT_OK(all);
  EXPECT_THAT(all->records, IsEmpty());
}

TEST_F(MdsShardsTest, WhatIsNotAsItWasIsNoted) {
  const std::string path = Write().paths[0];
  const auto notes_are =
      ElementsAre("column \"score\": float64 becomes float32, the only float type of TFRecord");
  std::vector<std::string> notes;
  ASSERT_OK(IndexShard(path, {.notes = &notes}));
  EXPECT_THAT(notes, notes_are);
  for (VerifyLevel level : {VerifyLevel::kHeaders, VerifyLevel::kPayload, VerifyLevel::kExamples}) {
    const auto report = VerifyShard(path, {.level = level});
    ASSERT_OK(report);
    EXPECT_EQ(report->num_defects, 0u);
    EXPECT_EQ(report->records, kSamples);
    EXPECT_THAT(report->notes, notes_are);
  }
}

TEST_F(MdsShardsTest, TextIndexesAreRefused) {
  const std::string path = Write().paths[0];
  EXPECT_FAILS(WriteTextIndex(path + ".idx", **BuildIndex(path, {})), kInvalidArgument,
               "shard.00000.mds.idx: not written: its shard is an MDS shard");
}

TEST_F(MdsShardsTest, DamagedSamplesAreErrorsOrSkippedAndCounted) {
  const ShardSet set = Write();
  const std::set<uint64_t> lost = {0, 17, 18, 99, 150};
  for (const uint64_t sample : lost) Damage(sample);
  for (const OrderSpec& order : Orders()) {
    ReaderOptions options;
    options.order = order;
    EXPECT_FAILS(Drain(*MakeReader(OpenTable(set), options)), kDataLoss, "more than the");
    options.skip_damaged = true;
    std::set<uint64_t> told;
    options.on_skip = [&](const DamagedRecord& record) {
      told.insert(record.record);
      EXPECT_THAT(record.Message(),
                  HasSubstr(fmt::format("shard.{:05}.mds: record {} at byte {}: its column \"x\" ",
                                        record.record / kSamples, record.record % kSamples,
                                        OffsetOf(record.record))));
    };
    const auto reader = MakeReader(OpenTable(set), options);
    const auto all = Drain(*reader);
    ASSERT_OK(all);
    EXPECT_EQ(told, lost);
    uint64_t sound = 0;
    for (size_t i = 0; i < all->records.size(); ++i) {
      const uint64_t sample = reader->RecordAt(0, i);
      if (lost.contains(sample)) continue;
      ++sound;
      ASSERT_EQ(*ExampleToJson(all->records[i]), JsonOf(sample));
    }
    EXPECT_EQ(sound, kShards * kSamples - lost.size());
  }
}

TEST_F(MdsShardsTest, VerifyFindsAllDamage) {
  const std::string path = Write().paths[0];
  for (const uint64_t sample : {0, 17, 18, 99}) Damage(sample);
  const auto report = VerifyShard(path, {});
  ASSERT_OK(report);
  ASSERT_EQ(report->num_defects, 4u);
  EXPECT_EQ(report->records, kSamples - 4);
  EXPECT_EQ(report->records_lost, 4u);
  EXPECT_EQ(report->defects[1].kind, "mds sample");
  EXPECT_EQ(report->defects[1].record, 17u);
  EXPECT_EQ(report->defects[1].offset, OffsetOf(17));
  EXPECT_EQ(report->defects[1].detail,
            fmt::format("{}: record 17 at byte {}: its column \"x\" has 16777845 bytes, more than "
                        "the 629 that are left of the sample",
                        path, OffsetOf(17)));
}

TEST_F(MdsShardsTest, VerifyTellsADamagedHeader) {
  const std::string path = Write().paths[0];
  SetByte(0, 4 * (kSamples + 2), 'x');
  for (VerifyLevel level : {VerifyLevel::kHeaders, VerifyLevel::kPayload}) {
    const auto report = VerifyShard(path, {.level = level});
    ASSERT_OK(report);
    ASSERT_EQ(report->num_defects, 1u);
    EXPECT_EQ(report->records, 0u);
    EXPECT_EQ(report->records_lost, std::nullopt);
    EXPECT_EQ(report->skipped_bytes, std::filesystem::file_size(path));
    EXPECT_EQ(report->defects[0].detail,
              fmt::format("{}: the description of the columns is not a JSON object, at byte {}; "
                          "all of it is lost",
                          path, 4 * (kSamples + 2)));
  }
}

}  // namespace
}  // namespace shardfeed
