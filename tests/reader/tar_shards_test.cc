// Tar shards: their indexes, reading them in every order by every engine, verifying, and damage.

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "reader/reader.h"
#include "shard/indexing/index_build.h"
#include "shard/indexing/index_check.h"
#include "shard/indexing/text_index.h"
#include "shard/verify/salvage.h"
#include "shardfeed/index.h"
#include "shardfeed/verify.h"
#include "tests/reader/reader_fixture.h"
#include "tests/testing/files.h"
#include "tests/testing/index_lies.h"
#include "tests/testing/tar_members.h"
#include "tfrecord/example_text.h"
#include "tfrecord/gzip_members.h"

namespace shardfeed {
namespace {

using testing::Drain;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakeReader;
using testing::Member;
using testing::OpenTable;
using testing::Orders;
using testing::Pax;
using testing::TestFolder;

const std::string kEnd(1024, '\0');
constexpr uint64_t kShards = 3;
constexpr uint64_t kSamples = 100;  // in each shard

std::string KeyOf(uint64_t sample) { return fmt::format("s{:05}", sample); }

// A sample of 1024 bytes for its number and others for an image.
std::string SampleOf(uint64_t sample) {
  return Member(KeyOf(sample) + ".cls", std::to_string(sample)) +
         Member(KeyOf(sample) + ".jpg", std::string(sample * 37 % 3000, 'i'));
}

std::string JsonOf(uint64_t sample) {
  return fmt::format(R"({{"__key__":["{}"],"cls":["{}"],"jpg":["{}"]}})", KeyOf(sample), sample,
                     std::string(sample * 37 % 3000, 'i'));
}

class TarShardsTest : public ::testing::Test {
 protected:
  std::string ShardPath(uint64_t shard) { return folder_ / fmt::format("d-{}.tar", shard); }

  ShardSet Write(bool gzip = false) {
    std::vector<std::string> paths;
    for (uint64_t shard = 0; shard < kShards; ++shard) {
      std::string bytes;
      for (uint64_t i = 0; i < kSamples; ++i) bytes += SampleOf(shard * kSamples + i);
      bytes += kEnd;
      std::string deflated;
      for (size_t at = 0; gzip && at < bytes.size(); at += 20'000) {
        AppendGzipMember(bytes.substr(at, 20'000), 1, &deflated);
      }
      paths.push_back(folder_.Write(fmt::format("d-{}.tar", shard), gzip ? deflated : bytes));
    }
    return *ResolveSpecs(paths);
  }
  // The offset of a sample in its shard.
  static uint64_t OffsetOf(uint64_t sample) {
    uint64_t offset = 0;
    for (uint64_t i = sample / kSamples * kSamples; i < sample; ++i) offset += SampleOf(i).size();
    return offset;
  }
  void Damage(uint64_t sample) {
    std::string bytes = testing::ReadBytes(ShardPath(sample / kSamples));
    bytes[OffsetOf(sample) + 5] ^= 1;
    folder_.Write(fmt::format("d-{}.tar", sample / kSamples), bytes);
  }
  // Overwrites headers of the first shard with zeros.
  void Overwrite(const std::vector<uint64_t>& headers) {
    std::string bytes = testing::ReadBytes(ShardPath(0));
    for (const uint64_t at : headers) bytes.replace(at, 512, 512, '\0');
    folder_.Write("d-0.tar", bytes);
  }
  absl::StatusOr<std::shared_ptr<const ShardIndex>> IndexOf(const std::string& archive) {
    return BuildIndex(folder_.Write("one.tar", archive), {});
  }

  TestFolder folder_;
};

TEST_F(TarShardsTest, EveryOrderByEveryEngineDeliversEachSampleOnce) {
  for (bool gzip : {false, true}) {
    const ShardSet set = Write(gzip);
    for (const std::string& path : set.paths) ASSERT_OK(IndexShard(path, {.restart_interval = 1}));
    for (const OrderSpec& order : Orders()) {
      for (EngineKind io : {EngineKind::kUring, EngineKind::kThreads, EngineKind::kMmap}) {
        std::vector<std::string> keys;
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
            keys.push_back(KeyOf(sample));
          }
        }
        std::sort(keys.begin(), keys.end());
        EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), keys.size());
        EXPECT_TRUE(keys.empty() || keys.size() == kShards * kSamples);
      }
    }
  }
}

TEST_F(TarShardsTest, MappedPagesAreNotChanged) {
  const ShardSet set = Write();
  const std::string before = testing::ReadBytes(set.paths[0]);
  ReaderOptions options;
  options.io = EngineKind::kMmap;
  ASSERT_OK(Drain(*MakeReader(OpenTable(set), options)));
  EXPECT_EQ(testing::ReadBytes(set.paths[0]), before);
}

TEST_F(TarShardsTest, AnySampleByItsNumber) {
  for (bool gzip : {false, true}) {
    const auto access = RandomAccess::Open(Write(gzip));
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
}

TEST_F(TarShardsTest, AnIndexIsMadeOfHeadersAlone) {
  const std::string large(1 << 20, 'x');
  std::atomic<uint64_t> read = 0;
  std::string archive;
  for (int i = 0; i < 20; ++i) archive += Member(fmt::format("s{}.bin", i), large);
  const std::string path = folder_.Write("one.tar", archive + kEnd);
  const auto summary = IndexShard(path, {.bytes_read = &read});
  ASSERT_OK(summary);
  EXPECT_EQ(summary->framing, Framing::kTar);
  EXPECT_EQ(summary->records, 20u);
  EXPECT_EQ(summary->stream_bytes, archive.size());
  EXPECT_EQ(summary->shard_bytes, archive.size() + kEnd.size());
  EXPECT_LT(read, 1 << 20);
  const auto index = ShardIndex::Open(IndexPath(path));
  ASSERT_OK(index);
  EXPECT_EQ((*index)->Offset(3), 3 * (large.size() + 512));
  EXPECT_OK(CompareIndexWithShard(path, *index, {}));
}

TEST_F(TarShardsTest, TheIndexOfACompressedArchiveIsThatOfTheArchive) {
  const ShardSet set = Write();
  const auto raw = BuildIndex(set.paths[0], {});
  ASSERT_OK(raw);
  const auto compressed = BuildIndex(Write(/*gzip=*/true).paths[0], {});
  ASSERT_OK(compressed);
  EXPECT_EQ((*compressed)->summary().framing, Framing::kTar);
  EXPECT_EQ((*compressed)->summary().compression, Compression::kGzip);
  EXPECT_EQ((*compressed)->summary().stream_bytes, (*raw)->summary().stream_bytes);
  EXPECT_EQ((*compressed)->summary().records_digest, (*raw)->summary().records_digest);
  for (uint64_t i = 0; i <= kSamples; ++i) EXPECT_EQ((*compressed)->Offset(i), (*raw)->Offset(i));
}

TEST_F(TarShardsTest, VersionsThatKnowOnlyTFRecordRefuseTheIndex) {
  const auto index = BuildIndex(Write().paths[0], {});
  ASSERT_OK(index);
  // They take the format for a compression, of which they know four.
  EXPECT_GT(LoadLittleEndian<uint32_t>((*index)->bytes().data() + 8), 3u);
  std::string later((*index)->bytes());
  later[10] = 1;
  testing::FitIndexCrcs(&later);
  EXPECT_FAILS(ShardIndex::FromBytes(later, "x.index"), kDataLoss,
               "x.index: the index names an unknown compression; rebuild it");
}

TEST_F(TarShardsTest, WhatIsWrongWithAnArchiveIsToldWithItsPlace) {
  const std::string a = Member("a.x", "1");
  std::string damaged = a + Member("b.x", "1") + kEnd;
  damaged[1024] ^= 1;
  EXPECT_FAILS(IndexOf(damaged), kDataLoss,
               "one.tar: record 0: a damaged header, whose checksum is wrong, at byte 1024");
  EXPECT_FAILS(IndexOf(a + Member("b.x", "1")), kDataLoss,
               "one.tar: record 1: the archive is cut off: it ends after a member, without the "
               "zero blocks that end a tar, at byte 2048");
  EXPECT_FAILS(
      IndexOf(Member("a.x", "1", '0', "", "", "77777777777") + kEnd), kDataLoss,
      "one.tar: record 0: the archive is cut off: it ends inside \"a.x\", 8589933055 bytes "
      "before that member's end, at byte 2048");
  EXPECT_FAILS(IndexOf(a + Member("b.x", "", '2', "a.x") + kEnd), kDataLoss,
               "\"b.x\" is a link to \"a.x\", which is not followed");
  EXPECT_FAILS(IndexOf(a + Member("a.x", "2") + kEnd), kDataLoss,
               "one.tar: record 0: the member \"a.x\", which is the second \"x\" of its sample,");
  EXPECT_FAILS(IndexOf(a + kEnd + a + kEnd), kDataLoss,
               "one.tar: record 0: the archive ends at byte 1024, but other data follows, as if "
               "several tar files had been concatenated; split them: at byte 2048");
  EXPECT_FAILS(IndexOf(""), kDataLoss, "one.tar: the file is empty");
  EXPECT_OK(IndexOf(Member("README", "") + kEnd));
}

TEST_F(TarShardsTest, ADamagedFirstHeaderIsToldByTheName) {
  std::string damaged = Member("a.x", "1") + Member("b.x", "1") + kEnd;
  damaged[0] ^= 1;
  std::string gzip;
  AppendGzipMember(damaged, 1, &gzip);
  for (const std::string& path :
       {folder_.Write("one.tar", damaged), folder_.Write("one.tar.gz", gzip)}) {
    for (const std::string& part :
         {path + ": record 0",
          std::string("a damaged header, whose checksum is wrong, at byte 0")}) {
      EXPECT_FAILS(BuildIndex(path, {}), kDataLoss, part);
    }
    const auto report = VerifyShard(path, {});
    ASSERT_OK(report);
    ASSERT_EQ(report->num_defects, 1u);
    EXPECT_EQ(report->defects[0].kind, "tar sample");
    EXPECT_EQ(report->records_lost, std::nullopt);
  }
  EXPECT_FAILS(BuildIndex(folder_.Write("text.tar", std::string(600, 'x')), {}), kDataLoss,
               "text.tar: record 0: not a tar archive, or its first header is damaged: no header, "
               "but \"xxxxxxxxxxxxxxxx\" at byte 0");
}

TEST_F(TarShardsTest, SkippedMembersAndRepeatedKeysAreNoted) {
  const std::string archive = Member("README", "") + Member("a.x", "1") + Member("d/", "", '5') +
                              Member(".b.x", "") + Member("b.x", "2") + Member("a.y", "3") +
                              Member("__meta__.json", "") + kEnd;
  const std::string path = folder_.Write("one.tar", archive);
  const auto notes_are = ElementsAre(
      path + ": skipped 3 members with hidden names or without an ending",
      path +
          ": 1 sample has the key of an earlier one, the first is \"a\" at byte 3584: files of "
          "one key that are not adjacent are samples of their own; sort the archive "
          "(tar --sort=name) if they belong together");
  std::vector<std::string> notes;
  ASSERT_OK(IndexShard(path, {.notes = &notes}));
  EXPECT_THAT(notes, notes_are);
  for (VerifyLevel level : {VerifyLevel::kHeaders, VerifyLevel::kPayload, VerifyLevel::kExamples}) {
    const auto report = VerifyShard(path, {.level = level});
    ASSERT_OK(report);
    EXPECT_EQ(report->num_defects, 0u);
    EXPECT_EQ(report->records, 3u);
    EXPECT_THAT(report->notes, notes_are);
  }
}

TEST_F(TarShardsTest, AnArchiveWithoutFilesHasNoSamples) {
  for (const std::string& zeros : {kEnd, std::string(10240, '\0')}) {
    std::string gzip;
    AppendGzipMember(zeros, 1, &gzip);
    for (const std::string& path :
         {folder_.Write("none.tar", zeros), folder_.Write("none.tar.gz", gzip),
          folder_.Write("none.tgz", gzip)}) {
      const auto report = VerifyShard(path, {});
      ASSERT_OK(report);
      EXPECT_EQ(report->num_defects, 0u);
      EXPECT_EQ(report->records, 0u);
      const auto all = Drain(*MakeReader(OpenTable(*ResolveSpecs({path})), {}));
      ASSERT_OK(all);
      EXPECT_THAT(all->records, IsEmpty());
      EXPECT_OK(CompareIndexWithShard(path, *ShardIndex::Open(IndexPath(path)), {}));
      std::filesystem::remove(IndexPath(path));
    }
  }
  // The message says more if the first header of an archive was overwritten.
  std::string wrong = Member("a.x", "1") + kEnd;
  wrong.replace(0, 512, 512, '\0');
  EXPECT_FAILS(IndexOf(wrong), kDataLoss, "one.tar: record 0: zeros instead of a header at byte 0");
  EXPECT_FAILS(BuildIndex(folder_.Write("none", kEnd), {}), kDataLoss,
               "none: not a TFRecord file: starts with zeros alone");
}

TEST_F(TarShardsTest, TextIndexesAreRefused) {
  const std::string path = Write().paths[0];
  EXPECT_FAILS(WriteTextIndex(path + ".idx", **BuildIndex(path, {})), kInvalidArgument,
               "d-0.tar.idx: not written: its shard is a tar archive");
}

TEST_F(TarShardsTest, DamagedSamplesAreErrorsOrSkippedAndCounted) {
  const ShardSet set = Write();
  for (const std::string& path : set.paths) ASSERT_OK(IndexShard(path, {}));
  const std::set<uint64_t> lost = {0, 17, 18, 99, 150};
  for (const uint64_t sample : lost) Damage(sample);
  for (const OrderSpec& order : Orders()) {
    ReaderOptions options;
    options.order = order;
    EXPECT_FAILS(Drain(*MakeReader(OpenTable(set), options)), kDataLoss, "header");
    options.skip_damaged = true;
    std::set<uint64_t> told;
    options.on_skip = [&](const DamagedRecord& record) {
      told.insert(record.record);
      EXPECT_THAT(
          record.Message(),
          HasSubstr(fmt::format("d-{}.tar: record {} at byte {}: ", record.record / kSamples,
                                record.record % kSamples, OffsetOf(record.record))));
      EXPECT_THAT(record.what, HasSubstr("whose checksum is wrong"));
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

TEST_F(TarShardsTest, VerifyFindsAllDamageByTheIndex) {
  const ShardSet set = Write();
  ASSERT_OK(IndexShard(set.paths[0], {}));
  for (const uint64_t sample : {0, 17, 18, 99}) Damage(sample);
  for (VerifyLevel level : {VerifyLevel::kHeaders, VerifyLevel::kPayload}) {
    const auto report = VerifyShard(set.paths[0], {.level = level});
    ASSERT_OK(report);
    ASSERT_EQ(report->num_defects, 4u);
    EXPECT_EQ(report->records, kSamples - 4);
    EXPECT_EQ(report->records_lost, 4u);
    EXPECT_EQ(report->defects[1].kind, "tar sample");
    EXPECT_EQ(report->defects[1].record, 17u);
    EXPECT_EQ(report->defects[1].offset, OffsetOf(17));
  }
  // Without it, what follows cannot be told apart.
  std::filesystem::remove(IndexPath(set.paths[0]));
  Write();
  Damage(17);
  const auto report = VerifyShard(set.paths[0], {});
  ASSERT_OK(report);
  ASSERT_EQ(report->num_defects, 1u);
  EXPECT_EQ(report->records, 16u);
  EXPECT_EQ(report->records_lost, std::nullopt);
}

TEST_F(TarShardsTest, OverwrittenHeadersCostOnlyTheirSamplesWithAnIndex) {
  const ShardSet set = Write();
  ASSERT_OK(IndexShard(set.paths[0], {}));
  // The second header of two samples and the first of one; the last sample is cut short by zeros.
  Overwrite({OffsetOf(17) + 1024, OffsetOf(50), OffsetOf(99) + 1024});
  for (VerifyLevel level : {VerifyLevel::kHeaders, VerifyLevel::kPayload}) {
    const auto report = VerifyShard(set.paths[0], {.level = level});
    ASSERT_OK(report);
    EXPECT_EQ(report->records, kSamples - 3);
    EXPECT_EQ(report->records_lost, 3u);
    ASSERT_EQ(report->num_defects, 3u);
    EXPECT_THAT(report->defects[0].detail,
                HasSubstr(fmt::format("d-0.tar: record 17 at byte {}: zeros instead of a header at "
                                      "byte {}",
                                      OffsetOf(17), OffsetOf(17) + 1024)));
    EXPECT_EQ(report->defects[1].record, 50u);
    EXPECT_EQ(report->defects[2].record, 99u);
  }
  const auto account =
      Repair(*ResolveSpecs({set.paths[0]}), *ParseOutputSpec(folder_ / "whole@1"), {});
  ASSERT_OK(account);
  EXPECT_EQ(account->records_lost(), 3u);
  const auto whole = Drain(*MakeReader(OpenTable(*ResolveSpec(folder_ / "whole@1")), {}));
  ASSERT_OK(whole);
  std::vector<std::string> expected;
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    if (sample != 17 && sample != 50 && sample != 99) expected.push_back(JsonOf(sample));
  }
  std::vector<std::string> found;
  for (const std::string& record : whole->records) found.push_back(*ExampleToJson(record));
  EXPECT_EQ(found, expected);
}

TEST_F(TarShardsTest, ASampleBeforeAnOverwrittenHeaderIsNotPassedOffAsWhole) {
  for (const uint64_t header : {OffsetOf(17) + 1024, OffsetOf(18)}) {
    const ShardSet set = Write();
    Overwrite({header});
    const auto report = VerifyShard(set.paths[0], {});
    ASSERT_OK(report);
    EXPECT_EQ(report->records, 17u);
    EXPECT_EQ(report->records_lost, std::nullopt);
    ASSERT_EQ(report->num_defects, 1u);
    EXPECT_EQ(report->defects[0].record, 17u);
    EXPECT_THAT(
        report->defects[0].detail,
        HasSubstr(fmt::format("d-0.tar: record 17 at byte {}: zeros instead of a header at "
                              "byte {}; it and all records after it are lost, because no index "
                              "tells where they begin",
                              OffsetOf(17), header)));
    EXPECT_EQ(report->skipped_bytes, std::filesystem::file_size(set.paths[0]) - OffsetOf(17));
    EXPECT_FAILS(BuildIndex(set.paths[0], {}), kDataLoss,
                 fmt::format("record 17: zeros instead of a header at byte {}", header));
  }
  // An index that lists other samples says nothing.
  const ShardSet set = Write();
  std::filesystem::create_directories(folder_ / ".shardfeed");
  ASSERT_OK(IndexShard(set.paths[1], {}));
  std::filesystem::rename(IndexPath(set.paths[1]), IndexPath(set.paths[0]));
  Overwrite({OffsetOf(18)});
  const auto report = VerifyShard(set.paths[0], {});
  ASSERT_OK(report);
  EXPECT_EQ(report->records, 17u);
  EXPECT_THAT(
      report->defects[0].detail,
      HasSubstr("it and all records after it are lost, because the index is that of another"));
}

TEST_F(TarShardsTest, DamageAtTheEndOfTheArchiveLosesNothing) {
  for (const uint64_t from_end : {1000, 10}) {
    const ShardSet set = Write();
    ASSERT_OK(IndexShard(set.paths[0], {}));
    std::string bytes = testing::ReadBytes(set.paths[0]);
    bytes[bytes.size() - from_end] = 'x';
    folder_.Write("d-0.tar", bytes);
    for (VerifyLevel level : {VerifyLevel::kHeaders, VerifyLevel::kPayload}) {
      const auto report = VerifyShard(set.paths[0], {.level = level});
      ASSERT_OK(report);
      ASSERT_EQ(report->num_defects, 1u);
      EXPECT_EQ(report->defects[0].record, kSamples);
      EXPECT_EQ(report->records, kSamples);
      EXPECT_EQ(report->records_lost, 0u);
    }
  }
}

TEST_F(TarShardsTest, ACutArchiveTellsWhatItsIndexHadMore) {
  const ShardSet set = Write();
  ASSERT_OK(IndexShard(set.paths[0], {}));
  std::filesystem::resize_file(set.paths[0], OffsetOf(60) + 100);
  const auto report = VerifyShard(set.paths[0], {});
  ASSERT_OK(report);
  EXPECT_EQ(report->records, 59u);
  EXPECT_EQ(report->records_lost, kSamples - 59);
  EXPECT_THAT(report->defects[0].detail,
              HasSubstr("the archive is cut off: it ends inside a header"));
}

}  // namespace
}  // namespace shardfeed
