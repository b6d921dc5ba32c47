#include "shardfeed/verify.h"

#include "nlohmann/json.hpp"
#include "shard/manifest/manifest_seal.h"
#include "shard/writing/writer.h"
#include "shardfeed/examples.h"
#include "tests/testing/files.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

using testing::OnDisk;
using testing::ReadBytes;
using testing::TestFolder;
using Json = nlohmann::ordered_json;

std::string SmallExample(int i) {
  ExampleBuilder builder;
  builder.AddInt64("i", i);
  std::string bytes;
  builder.SerializeExample(&bytes);
  return bytes;
}

class VerifyTest : public ::testing::Test {
 protected:
  // A shard of five records, whose bytes `change` alters.
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

TEST_F(VerifyTest, DamagedLengthIsMended) {
  for (VerifyLevel level : {VerifyLevel::kHeaders, VerifyLevel::kPayload}) {
    const ShardReport report = Verify([](std::string& b) { b[kFrame] ^= 1; }, level);
    EXPECT_EQ(report.records, 5);
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
  EXPECT_EQ(report.records, 3);  // the length can be repaired
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

TEST_F(VerifyTest, ImagesThatCannotBeCheckedAreAnErrorThatNamesTheRecord) {
  std::string bytes;
  for (int i = 0; i < 3; ++i) AppendFrame(SmallExample(i), &bytes);
  const std::string path = folder_.Write("s", bytes);
  VerifyOptions options = {.level = VerifyLevel::kImages};
  options.check_images = [](std::string_view record, std::vector<std::string>*) {
    return record == SmallExample(1) ? absl::ResourceExhaustedError("image: no memory")
                                     : absl::OkStatus();
  };
  const size_t at = SmallExample(0).size() + kFrameBytes;
  EXPECT_FAILS(VerifyShard(path, options), kResourceExhausted,
               path + ": record 1 at byte " + std::to_string(at) + ": image: no memory");
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
    std::ofstream(OnDisk(set_.paths[shard]), std::ios::binary) << bytes;
  }
  VerifyReport Verify(VerifyLevel level = VerifyLevel::kPayload) {
    // The tests replace the manifest.
    set_.version = DatasetVersion::Of(folder_.path(), "d");
    return *shardfeed::Verify(set_, {.level = level});
  }
  // Changes the manifest, and corrects its checksum.
  template <typename Change>
  void ChangeManifest(Change change) {
    const std::string path = ManifestPath(folder_.path(), "d");
    if (manifest_.empty()) manifest_ = ReadBytes(path);
    Json json = Json::parse(manifest_);
    json.erase("crc32c");
    change(json);
    std::ofstream(OnDisk(path), std::ios::binary) << SealManifest(json.dump(1));
  }

  TestFolder folder_;
  ShardSet set_;
  std::string manifest_;
};

TEST_F(VerifyDatasetTest, DamageInAGzipMemberLosesThatMember) {
  Write(Compression::kGzip);
  Damage(1, 300);
  const VerifyReport report = Verify();
  ASSERT_EQ(report.num_defects(), 1);
  EXPECT_EQ(report.shards[1].defects[0].kind, "compressed data");
  EXPECT_THAT(report.shards[1].defects[0].detail, ::testing::HasSubstr("incorrect data check"));
  EXPECT_GT(report.shards[1].records, 500);
  EXPECT_LT(report.shards[1].records, 1000);
}

TEST_F(VerifyDatasetTest, DamageInAZlibStreamLosesASegment) {
  Write(Compression::kZlib);
  Damage(1, 300);
  const VerifyReport report = Verify();
  // What zlib inflates before it notices damage may appear as damaged records first.
  ASSERT_GE(report.num_defects(), 1);
  EXPECT_EQ(report.shards[0].num_defects, 0);
  EXPECT_EQ(report.shards[1].defects.back().kind, "compressed data");
  EXPECT_THAT(report.shards[1].defects.back().detail, ::testing::HasSubstr("ZLIB data is damaged"));
}

TEST_F(VerifyDatasetTest, ShardReplacedByAnotherIsToldByIndexAndManifest) {
  Write(Compression::kNone);
  std::string bytes;
  for (int i = 0; i < 7; ++i) AppendFrame(SmallExample(i), &bytes);
  std::ofstream(OnDisk(set_.paths[0]), std::ios::binary) << bytes;
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
  std::ofstream(OnDisk(IndexPath(set_.paths[0])), std::ios::binary) << bytes;
  const VerifyReport report = Verify();
  ASSERT_EQ(report.num_defects(), 1);
  EXPECT_THAT(report.shards[0].defects[0].detail, ::testing::HasSubstr("rebuild it"));
}

TEST_F(VerifyDatasetTest, BrokenManifestIsADefect) {
  Write(Compression::kNone);
  std::ofstream(OnDisk(ManifestPath(folder_.path(), "d")), std::ios::binary) << "{}";
  const VerifyReport report = Verify();
  ASSERT_EQ(report.manifest_defects.size(), 1);
  EXPECT_THAT(report.manifest_defects[0].detail, ::testing::HasSubstr("not a shardfeed manifest"));
}

TEST_F(VerifyDatasetTest, ManifestThatDescribesOtherRecordsIsADefectOfExamplesLevel) {
  Write(Compression::kNone);
  const auto details = [this](auto change, VerifyLevel level = VerifyLevel::kExamples) {
    ChangeManifest(change);
    std::string text;
    for (const Defect& defect : Verify(level).manifest_defects) text += defect.detail;
    return text;
  };
  const std::string says = ManifestPath(folder_.path(), "d") + ": does not match the records: ";
  const auto feature = [](const char* key, const Json& value) {
    return [=](Json& json) { json["features"]["i"][key] = value; };
  };
  EXPECT_EQ(details([](Json&) {}), "");
  EXPECT_EQ(details(feature("kind", "float"), VerifyLevel::kPayload), "");
  EXPECT_EQ(details(feature("kind", "float")), says + "feature 'i': kind float instead of int64");
  EXPECT_EQ(details(feature("kind", "none")), says + "feature 'i': kind none instead of int64");
  EXPECT_EQ(details(feature("records", 1999)), says + "feature 'i': records 1999 instead of 2000");
  EXPECT_EQ(details(feature("max_values", 2)), says + "feature 'i': max_values 2 instead of 1");
  EXPECT_EQ(details(feature("min_values", 0)), says + "feature 'i': min_values 0 instead of 1");
  EXPECT_EQ(details(feature("list", true)), says + "feature 'i': list true instead of false");
  EXPECT_EQ(details(feature("mixed_kinds", 3)),
            says + "feature 'i': mixed kinds true instead of false");
  EXPECT_EQ(details([](Json& json) { json["not_examples"] = 1; }),
            says + "1 records that are not Examples instead of 0");
  EXPECT_EQ(details([](Json& json) { json["features"]["j"] = json["features"]["i"]; }),
            says + "feature 'j', which no record has");
  EXPECT_EQ(details([](Json& json) { json["features"] = Json::object(); }),
            says + "no feature 'i'");
}

TEST_F(VerifyDatasetTest, OtherCompressionInTheManifestIsADefect) {
  Write(Compression::kGzip);
  ChangeManifest([](Json& json) { json["compression"] = "none"; });
  const VerifyReport report = Verify();
  ASSERT_EQ(report.manifest_defects.size(), 2);
  EXPECT_THAT(
      report.manifest_defects[0].detail,
      ::testing::HasSubstr("does not match d-00000-of-00002: compression none instead of gzip"));
}

TEST_F(VerifyDatasetTest, SchemaOfMixedKindsIsSound) {
  auto writer = DatasetWriter::Create(*ParseOutputSpec(folder_ / "d@3"), {});
  ASSERT_OK(writer);
  for (int i = 0; i < 300; ++i) {
    ExampleBuilder builder;
    if (i % 7 == 0) builder.AddFloat("x", 1);
    if (i % 7 > 2) builder.AddInt64("x", i);
    if (i % 7 == 2) builder.AddInt64List("x", {});
    builder.AddBytes("b", std::string(i % 5, 'b'));
    std::string bytes;
    builder.SerializeExample(&bytes);
    ASSERT_OK((*writer)->Write(bytes));
  }
  ASSERT_OK((*writer)->Finish({}));
  set_ = *ResolveSpec(folder_ / "d@3");
  EXPECT_EQ(Verify(VerifyLevel::kExamples).num_defects(), 0);
  ChangeManifest([](Json& json) {
    json["features"]["x"]["kinds"] = {{"bytes", 1}, {"float", 42}, {"int64", 214}};
  });
  VerifyReport report = Verify(VerifyLevel::kExamples);
  ASSERT_EQ(report.manifest_defects.size(), 1);
  EXPECT_THAT(report.manifest_defects[0].detail,
              ::testing::HasSubstr("feature 'x': records of kind bytes 1 instead of 0, "
                                   "records of kind float 42 instead of 43"));
  // A manifest of an earlier version does not tell them.
  ChangeManifest([](Json& json) { json["features"]["x"].erase("kinds"); });
  EXPECT_EQ(Verify(VerifyLevel::kExamples).num_defects(), 0);
  ChangeManifest([](Json& json) { json["features"]["b"]["max_bytes"] = 5; });
  EXPECT_EQ(Verify(VerifyLevel::kExamples).num_defects(), 1);
}

TEST_F(VerifyDatasetTest, FlippedBitOfTheManifestIsADefect) {
  Write(Compression::kNone);
  const std::string path = ManifestPath(folder_.path(), "d");
  const std::string sound = ReadBytes(path);
  for (size_t bit = 0; bit < 8 * sound.size(); bit += 37) {
    std::string bytes = sound;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << (bit % 8));
    std::ofstream(OnDisk(path), std::ios::binary) << bytes;
    const VerifyReport report = Verify(VerifyLevel::kHeaders);
    ASSERT_EQ(report.manifest_defects.size(), 1) << bit;
    EXPECT_EQ(report.manifest_defects[0].kind, "manifest");
  }
}

TEST_F(VerifyDatasetTest, MissingShardIsUnreadableAndTheOthersAreRead) {
  Write(Compression::kNone);
  std::filesystem::remove(OnDisk(set_.paths[0]));
  const VerifyReport report = Verify();
  EXPECT_EQ(report.shards[0].defects[0].kind, "unreadable");
  EXPECT_EQ(report.shards[1].records, 1000);
}

TEST_F(VerifyDatasetTest, StopIsCancelled) {
  Write(Compression::kNone);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FAILS(shardfeed::Verify(set_, {.stop = stop.get_token()}), kCancelled, "interrupted");
}

}  // namespace
}  // namespace shardfeed
