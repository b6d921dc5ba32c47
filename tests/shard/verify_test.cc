#include "shard/verify.h"

#include "shard/writer.h"
#include "tests/testing/files.h"
#include "tfrecord/example_builder.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

using testing::ReadBytes;
using testing::TestFolder;

std::string SmallExample(int i) {
  ExampleBuilder builder;
  builder.AddInt64("i", i);
  std::string bytes;
  builder.SerializeExample(&bytes);
  return bytes;
}

class VerifyTest : public ::testing::Test {
 protected:
  // A shard of five records, of which `change` alters the bytes.
  template <typename Change>
  ShardReport Verify(Change change, VerifyLevel level = VerifyLevel::kPayload) {
    std::string bytes;
    for (int i = 0; i < 5; ++i) AppendFrame("payload " + std::to_string(i), &bytes);
    change(bytes);
    const auto report = VerifyShard(folder_.Write("s", bytes), {.level = level});
    EXPECT_OK(report);
    return *report;
  }

  TestFolder folder_;
};

constexpr size_t kFrame = 9 + kFrameBytes;

TEST_F(VerifyTest, SoundShard) {
  for (VerifyLevel level : {VerifyLevel::kHeaders, VerifyLevel::kPayload}) {
    const ShardReport report = Verify([](std::string&) {}, level);
    EXPECT_EQ(report.records, 5);
    EXPECT_EQ(report.num_defects, 0);
  }
}

TEST_F(VerifyTest, DamagedPayloadLosesItsRecordAlone) {
  const ShardReport report = Verify([](std::string& b) { b[2 * kFrame + 15] ^= 1; });
  EXPECT_EQ(report.records, 4);
  ASSERT_EQ(report.num_defects, 1);
  EXPECT_EQ(report.defects[0].kind, "payload CRC");
  EXPECT_EQ(report.defects[0].record, 2);
  EXPECT_EQ(report.defects[0].offset, 2 * kFrame);
  EXPECT_EQ(report.skipped_bytes, kFrame);
}

TEST_F(VerifyTest, HeadersLevelDoesNotSeeDamagedPayloads) {
  EXPECT_EQ(
      Verify([](std::string& b) { b[2 * kFrame + 15] ^= 1; }, VerifyLevel::kHeaders).num_defects,
      0);
}

TEST_F(VerifyTest, DamagedLengthIsPassed) {
  for (VerifyLevel level : {VerifyLevel::kHeaders, VerifyLevel::kPayload}) {
    const ShardReport report = Verify([](std::string& b) { b[kFrame] ^= 1; }, level);
    EXPECT_EQ(report.records, 4);
    ASSERT_EQ(report.num_defects, 1);
    EXPECT_EQ(report.defects[0].kind, "length CRC");
    EXPECT_EQ(report.defects[0].record, 1);
    EXPECT_EQ(report.defects[0].offset, kFrame);
  }
}

TEST_F(VerifyTest, SeveralDefectsAreAllFound) {
  const ShardReport report = Verify([](std::string& b) {
    b[15] ^= 1;
    b[2 * kFrame + 1] ^= 1;
    b.resize(5 * kFrame - 2);
  });
  ASSERT_EQ(report.num_defects, 3);
  EXPECT_EQ(report.defects[0].kind, "payload CRC");
  EXPECT_EQ(report.defects[1].kind, "length CRC");
  EXPECT_EQ(report.defects[2].kind, "cut footer");
  EXPECT_EQ(report.records, 2);
}

TEST_F(VerifyTest, BytesInsertedBetweenRecords) {
  const ShardReport report =
      Verify([](std::string& b) { b.insert(2 * kFrame, "some bytes that are no record"); });
  EXPECT_EQ(report.records, 5);
  ASSERT_EQ(report.num_defects, 1);
  EXPECT_EQ(report.defects[0].offset, 2 * kFrame);
  EXPECT_EQ(report.skipped_bytes, 29);
}

TEST_F(VerifyTest, StrayBytesAtTheEnd) {
  for (size_t n : {1, 8, 11}) {
    const ShardReport report = Verify([n](std::string& b) { b.append(n, 'x'); });
    EXPECT_EQ(report.records, 5);
    ASSERT_EQ(report.num_defects, 1);
    EXPECT_EQ(report.defects[0].kind, "cut header");
    EXPECT_EQ(report.defects[0].record, 5);
  }
}

TEST_F(VerifyTest, OtherFileIsNotATFRecord) {
  const ShardReport report =
      Verify([](std::string& b) { b = "a text that has nothing to do with records"; });
  ASSERT_EQ(report.num_defects, 1);
  EXPECT_EQ(report.defects[0].kind, "not a TFRecord");
}

TEST_F(VerifyTest, OnlyTheFirstDefectsAreKept) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) AppendFrame("payload", &bytes);
  for (int i = 0; i < 100; ++i) bytes[i * 23 + 13] ^= 1;
  const auto report = VerifyShard(folder_.Write("s", bytes), {.max_defects = 10});
  EXPECT_EQ(report->num_defects, 100);
  EXPECT_EQ(report->defects.size(), 10);
}

TEST_F(VerifyTest, ExamplesLevelNamesRecordsThatAreNone) {
  std::string bytes;
  AppendFrame(SmallExample(1), &bytes);
  AppendFrame("not an example", &bytes);
  const std::string path = folder_.Write("s", bytes);
  EXPECT_EQ(VerifyShard(path, {})->num_defects, 0);
  const auto report = VerifyShard(path, {.level = VerifyLevel::kExamples});
  ASSERT_EQ(report->num_defects, 1);
  EXPECT_EQ(report->defects[0].kind, "not an Example");
  EXPECT_EQ(report->defects[0].record, 1);
}

class VerifyDatasetTest : public ::testing::Test {
 protected:
  void Write(Compression compression) {
    auto writer = DatasetWriter::Create(
        *ParseOutputSpec(folder_ / "d@2"),
        {.encode = {.compression = compression, .member_bytes = 4000}, .overwrite = true});
    ASSERT_OK(writer);
    for (int i = 0; i < 2000; ++i) ASSERT_OK((*writer)->Write(SmallExample(i)));
    ASSERT_OK((*writer)->Finish({}));
    set_ = *ResolveSpec(folder_ / "d@2");
  }
  void Damage(size_t shard, size_t at) {
    std::string bytes = ReadBytes(set_.paths[shard]);
    bytes[at] ^= 1;
    std::ofstream(set_.paths[shard], std::ios::binary) << bytes;
  }
  VerifyReport Verify() { return *VerifyDataset(set_, {}); }

  TestFolder folder_;
  ShardSet set_;
};

TEST_F(VerifyDatasetTest, DamageInAGzipMemberLosesThatMember) {
  Write(Compression::kGzip);
  Damage(1, 300);
  const VerifyReport report = Verify();
  ASSERT_EQ(report.num_defects(), 1);
  EXPECT_EQ(report.shards[1].defects[0].kind, "compressed data");
  EXPECT_THAT(report.shards[1].defects[0].detail,
              ::testing::HasSubstr("compressed bytes are lost"));
  EXPECT_GT(report.shards[1].records, 500);
  EXPECT_LT(report.shards[1].records, 1000);
}

TEST_F(VerifyDatasetTest, DamageInAZlibStreamLosesTheRest) {
  Write(Compression::kZlib);
  Damage(1, 300);
  const VerifyReport report = Verify();
  // What zlib inflates before it notices may show up as damaged records first.
  ASSERT_GE(report.num_defects(), 1);
  EXPECT_EQ(report.shards[0].num_defects, 0);
  EXPECT_EQ(report.shards[1].defects.back().kind, "compressed data");
  EXPECT_THAT(report.shards[1].defects.back().detail,
              ::testing::HasSubstr("all records from here"));
}

TEST_F(VerifyDatasetTest, ShardReplacedByAnotherIsToldByIndexAndManifest) {
  Write(Compression::kNone);
  std::string bytes;
  for (int i = 0; i < 7; ++i) AppendFrame(SmallExample(i), &bytes);
  std::ofstream(set_.paths[0], std::ios::binary) << bytes;
  const VerifyReport report = Verify();
  ASSERT_EQ(report.shards[0].num_defects, 1);
  EXPECT_EQ(report.shards[0].defects[0].kind, "index");
  EXPECT_THAT(report.shards[0].defects[0].detail,
              ::testing::HasSubstr("records 1000 instead of 7"));
  ASSERT_EQ(report.manifest_defects.size(), 1);
  EXPECT_THAT(report.manifest_defects[0].detail, ::testing::HasSubstr("bytes "));
}

TEST_F(VerifyDatasetTest, DamagedIndexIsADefect) {
  Write(Compression::kNone);
  std::string bytes = ReadBytes(IndexPath(set_.paths[0]));
  bytes[100] ^= 1;
  std::ofstream(IndexPath(set_.paths[0]), std::ios::binary) << bytes;
  const VerifyReport report = Verify();
  ASSERT_EQ(report.num_defects(), 1);
  EXPECT_THAT(report.shards[0].defects[0].detail, ::testing::HasSubstr("make it anew"));
}

TEST_F(VerifyDatasetTest, BrokenManifestIsADefect) {
  Write(Compression::kNone);
  std::ofstream(ManifestPath(folder_.path(), "d"), std::ios::binary) << "{}";
  const VerifyReport report = Verify();
  ASSERT_EQ(report.manifest_defects.size(), 1);
  EXPECT_THAT(report.manifest_defects[0].detail, ::testing::HasSubstr("not a manifest"));
}

TEST_F(VerifyDatasetTest, MissingShardIsUnreadableAndTheOthersAreRead) {
  Write(Compression::kNone);
  std::filesystem::remove(set_.paths[0]);
  const VerifyReport report = Verify();
  EXPECT_EQ(report.shards[0].defects[0].kind, "unreadable");
  EXPECT_EQ(report.shards[1].records, 1000);
}

TEST_F(VerifyDatasetTest, StopIsCancelled) {
  Write(Compression::kNone);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FAILS(VerifyDataset(set_, {.stop = stop.get_token()}), kCancelled, "interrupted");
}

}  // namespace
}  // namespace shardfeed
