// The statistics in manifests, however the dataset was written.

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "reader/collect_statistics.h"
#include "shard/manifest/manifest_seal.h"
#include "shard/reshard/reshard.h"
#include "shard/statistics/statistics_json.h"
#include "shard/writing/write_job.h"
#include "shard/writing/writer.h"
#include "shardfeed/examples.h"
#include "shardfeed/verify.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::testing::HasSubstr;
using testing::OnDisk;
using testing::ReadBytes;
using testing::TestFolder;

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Few different values of one feature, many of another, missing ones, lists; and equal records.
std::string RecordOf(int i) {
  if (i % 10 == 9) i = 0;
  ExampleBuilder builder;
  builder.AddInt64("class", i % 7);
  builder.AddBytes("name", fmt::format("name {}", i));
  if (i % 3 != 0) builder.AddFloat("score", static_cast<float>(i) / 3);
  builder.AddInt64List("ids", std::vector<int64_t>(i % 5, i));
  std::string record;
  builder.SerializeExample(&record);
  return record;
}

class WrittenStatistics : public ::testing::Test {
 protected:
  OutputSpec Spec(const std::string& name) { return *ParseOutputSpec(folder_ / name); }
  std::string ManifestOf(const std::string& stem) {
    return OnDisk(folder_ / ".shardfeed/" + stem + ".manifest.json");
  }

  void Write(const std::string& name, int begin, int end, DatasetWriterOptions options = {}) {
    auto writer = DatasetWriter::Create(Spec(name), options);
    ASSERT_OK(writer);
    for (int i = begin; i < end; ++i) ASSERT_OK((*writer)->Write(RecordOf(i)));
    ASSERT_OK((*writer)->Finish({}));
  }

  // Compares the statistics in the manifest with those of the records.
  void Check(const std::string& name) {
    const auto set = ResolveSpec(folder_ / name);
    ASSERT_OK(set);
    const std::shared_ptr<const Manifest> manifest = FindManifest(*set);
    ASSERT_NE(manifest, nullptr);
    ASSERT_NE(manifest->values, nullptr);
    const auto read = CollectStatistics(*set, {});
    ASSERT_OK(read);
    EXPECT_EQ(DifferenceOf(*manifest->values, read->values(), read->schema()), "");
    EXPECT_EQ(manifest->values->features().size(), 4);
    // What is sampled is close.
    const FrequentValues& stored = manifest->values->features().at("name").frequent();
    const FrequentValues& found = read->features().at("name").frequent();
    EXPECT_EQ(stored.counted(), found.counted());
    ASSERT_FALSE(stored.Top(1).empty());
    EXPECT_EQ(stored.Top(1)[0].text, "name 0");
    EXPECT_NEAR(stored.Top(1)[0].count, read->schema().records() / 10.0, stored.max_error());
    VerifyOptions verifying;
    verifying.level = VerifyLevel::kExamples;
    const auto report = Verify(*set, verifying);
    ASSERT_OK(report);
    EXPECT_EQ(report->num_defects(), 0);
  }

  TestFolder folder_;
};

TEST_F(WrittenStatistics, EqualThoseOfTheRecords) {
  for (Compression compression : {Compression::kNone, Compression::kGzip}) {
    Write("d@3", 0, 20000, {.encode = {.compression = compression}, .overwrite = true});
    Check("d@3");
  }
}

TEST_F(WrittenStatistics, DoNotDependOnThreads) {
  Write("a@5", 0, 20000, {.threads = 1});
  const std::string manifest = ReadBytes(ManifestOf("a"));
  for (int i = 0; i < 3; ++i) {
    Write("a@5", 0, 20000, {.threads = 8, .overwrite = true});
    EXPECT_EQ(ReadBytes(ManifestOf("a")), manifest);
  }
}

TEST_F(WrittenStatistics, OfAnInterruptedWriterAreKept) {
  SKIP_OVER_STORE("a dataset in a store cannot be resumed");
  Write("d@4", 0, 12000);
  DatasetWriterOptions options;
  options.resume = true;
  options.fingerprint = "same";
  const auto fill = [](DatasetWriter& writer, size_t shard) {
    for (int begin = 0; begin < 3000; begin += 500) {
      ASSERT_OK(writer.Submit(shard, [=](RecordBatch& batch) {
        for (int i = begin; i < begin + 500; ++i) batch.Add(RecordOf(i * 4 + shard));
        return absl::OkStatus();
      }));
    }
    ASSERT_OK(writer.CloseShard(shard));
  };
  std::string whole;
  for (bool interrupted : {false, true}) {
    options.overwrite = interrupted;
    auto writer = DatasetWriter::Create(Spec("r@4"), options);
    ASSERT_OK(writer);
    fill(**writer, 0);
    fill(**writer, 2);
    ASSERT_OK((*writer)->WaitForAll());
    if (interrupted) {
      writer->reset();
      writer = DatasetWriter::Create(Spec("r@4"), options);
      ASSERT_OK(writer);
      EXPECT_EQ((*writer)->num_taken_over(), 2);
    }
    fill(**writer, 1);
    fill(**writer, 3);
    ASSERT_OK((*writer)->Finish({}));
    Check("r@4");
    if (interrupted) {
      EXPECT_EQ(ReadBytes(ManifestOf("r")), whole);
    } else {
      whole = ReadBytes(ManifestOf("r"));
    }
  }
}

TEST_F(WrittenStatistics, OfPartsAreMerged) {
  SKIP_OVER_STORE("jobs write to folders");
  const auto job = WriteJob::Create(Spec("j@4"), {});
  ASSERT_OK(job);
  std::vector<std::string> messages;
  for (int part : {2, 0, 3, 1}) {
    const auto writer = job->Open(part, "a");
    ASSERT_OK(writer);
    for (int i = 0; i < 3000; ++i) ASSERT_OK((*writer)->Write(RecordOf(i * 4 + part)));
    const auto message = (*writer)->Close();
    ASSERT_OK(message);
    EXPECT_LT(message->size(), 4096);
    messages.push_back(*message);
  }
  ASSERT_OK(job->Commit(messages, {}));
  Check("j@4");
}

TEST_F(WrittenStatistics, AreWithoutFeaturesThatHaveNoValueInAnyPart) {
  SKIP_OVER_STORE("jobs write to folders");
  const auto job = WriteJob::Create(Spec("j@2"), {});
  ASSERT_OK(job);
  std::vector<std::string> messages;
  for (int part : {0, 1}) {
    const auto writer = job->Open(part, "a");
    ASSERT_OK(writer);
    ASSERT_OK((*writer)->Write(RecordOf(part)));  // record 0 has no score
    (*writer)->SetTypes(part == 0 ? FeatureTypes{{"none", {}}, {"score", {}}}
                                  : FeatureTypes{{"score", {"float32", {}}}});
    const auto message = (*writer)->Close();
    ASSERT_OK(message);
    messages.push_back(*message);
  }
  for (int time = 0; time < 2; ++time) {  // a commit may be repeated
    std::vector<std::string> without_values = {"other"};
    const auto manifest = job->Commit(messages, {}, {}, &without_values);
    ASSERT_OK(manifest);
    EXPECT_EQ(without_values, (std::vector<std::string>{"none"}));
    EXPECT_FALSE(manifest->schema.features().contains("none"));
    EXPECT_EQ(manifest->schema.features().at("score").type, (FeatureType{"float32", {}}));
  }
}

TEST_F(WrittenStatistics, OfAPartMustBeThere) {
  SKIP_OVER_STORE("jobs write to folders");
  for (bool damaged : {true, false}) {
    const auto job = WriteJob::Create(Spec("j@1"), {});
    ASSERT_OK(job);
    const auto writer = job->Open(0, "a");
    ASSERT_OK(writer);
    ASSERT_OK((*writer)->Write(RecordOf(1)));
    const auto message = (*writer)->Close();
    ASSERT_OK(message);
    std::string path;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(job->Folder())) {
      if (entry.path().filename() == "00000.statistics") path = entry.path().string();
    }
    ASSERT_NE(path, "");
    if (damaged) {
      std::string code = ReadBytes(path);
      code[code.size() / 2] = static_cast<char>(code[code.size() / 2] ^ 1);
      WriteBytes(path, code);
    } else {
      std::filesystem::remove(path);
    }
    const absl::Status status = job->Commit(std::vector<std::string>{*message}, {}).status();
    EXPECT_FAILS(status, kDataLoss,
                 damaged ? "00000.statistics: it is damaged; write the part again"
                         : "00000.statistics: it is gone; write the part again");
    ASSERT_OK(job->Abort());
  }
}

TEST_F(WrittenStatistics, AreTakenOverByResharding) {
  Write("a@3", 0, 20000);
  Write("b@2", 20000, 32000);
  const auto reshard = [&](const std::vector<std::string>& from, const std::string& to,
                           Compression compression) {
    std::vector<ShardSet> sets;
    for (const std::string& name : from) {
      const auto set = ResolveSpec(folder_ / name);
      ASSERT_OK(set);
      sets.push_back(*set);
    }
    const auto input = ReshardInput::Open(sets, 2, {});
    ASSERT_OK(input);
    const OutputSpec spec = Spec(to);
    ReshardOptions options;
    options.encode.compression = compression;
    ASSERT_OK(Reshard(*input, RecordSelection::Runs({{0, input->num_records()}}),
                      EvenEnds(input->num_records(), *spec.count), spec, options));
    Check(to);
  };
  reshard({"a@3"}, "copied@2", Compression::kNone);
  reshard({"a@3"}, "encoded@2", Compression::kGzip);
  reshard({"a@3", "b@2"}, "both@4", Compression::kNone);
  reshard({"a@3", "b@2"}, "both_encoded@4", Compression::kGzip);
}

TEST_F(WrittenStatistics, OfRepairedShardsAreThoseOfWhatIsLeft) {
  Write("d@2", 0, 12000);
  const std::string shard = OnDisk(folder_ / "d-00001-of-00002");
  std::string bytes = ReadBytes(shard);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  WriteBytes(shard, bytes);
  const auto set = ResolveSpec(folder_ / "d@2");
  ASSERT_OK(set);
  ASSERT_OK(Repair(*set, Spec("r@2"), {}));
  Check("r@2");
}

TEST_F(WrittenStatistics, ThatLieAreDefects) {
  Write("d@1", 0, 3000);
  const auto set = ResolveSpec(folder_ / "d@1");
  ASSERT_OK(set);
  const auto verify = [&](auto change) -> std::string {
    Manifest manifest = *ReadManifest(folder_ / ".shardfeed/d.manifest.json");
    DatasetStatistics statistics;
    for (int i = 0; i < 3000; ++i) change(i, statistics);
    manifest.values = std::make_shared<const ValueStatistics>(statistics.values());
    WriteBytes(ManifestOf("d"), FormatManifest(manifest));
    VerifyOptions verifying;
    verifying.level = VerifyLevel::kExamples;
    // The manifest may be newer than the name was resolved.
    const auto report = Verify(*ResolveSpec(folder_ / "d@1"), verifying);
    EXPECT_OK(report);
    return report->manifest_defects.empty() ? "" : report->manifest_defects[0].detail;
  };
  const auto honest = [](int i, DatasetStatistics& out) { out.AddRecord(RecordOf(i)); };
  EXPECT_EQ(verify(honest), "");
  EXPECT_THAT(verify([](int i, DatasetStatistics& out) {
                out.AddRecord(i == 5 ? RecordOf(100000) : RecordOf(i));
              }),
              HasSubstr("its statistics do not match the records: feature 'name': bytes "));
  EXPECT_THAT(verify([](int i, DatasetStatistics& out) {
                ExampleBuilder builder;
                builder.AddInt64("class", i);
                std::string record;
                builder.SerializeExample(&record);
                out.AddRecord(record);
              }),
              HasSubstr("its statistics do not match the records: feature 'class'"));
  EXPECT_THAT(verify([](int, DatasetStatistics& out) { out.AddRecord("\xff"); }),
              HasSubstr("its statistics do not match the records: no feature 'class'"));
}

TEST_F(WrittenStatistics, OfAnotherVersionOrDataset) {
  Write("d@1", 0, 100);
  const std::string path = folder_ / ".shardfeed/d.manifest.json";
  const std::string text = ReadBytes(ManifestOf("d"));
  // Programs that know a later version may write anything.
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string changed = text.substr(0, text.size() - kManifestSealBytes);
    changed.replace(changed.find(from), from.size(), to);
    changed.resize(changed.rfind(",\n "));
    return ParseManifest(SealManifest(changed + "\n}"), path);
  };
  const auto later =
      with("\"statistics\": {\n  \"version\": 1", "\"statistics\": {\n  \"version\": 2");
  ASSERT_OK(later);
  EXPECT_EQ(later->values, nullptr);
  const auto same = with("\"version\": 2", "\"version\": 2");
  ASSERT_OK(same);
  EXPECT_NE(same->values, nullptr);
  EXPECT_FAILS(with("\"code\": \"", "\"code\": \"AAAA").status(), kDataLoss,
               "the code of its statistics is not that of 100 records");
  EXPECT_FAILS(with("\"code\": \"", "\"code\": \"%").status(), kDataLoss,
               "the code of its statistics is not that of 100 records");
  EXPECT_FAILS(with("\"code\": \"", "\"no code\": \"").status(), kDataLoss, "\"code\"");
}

TEST_F(WrittenStatistics, TakeLittleRoomInTheManifest) {
  Write("few@1", 0, 50000);
  Write("many@100", 0, 50000);
  EXPECT_LT(ReadBytes(ManifestOf("few")).size(), 40 << 10);
  // Only the list of shards grows with their number.
  EXPECT_LT(ReadBytes(ManifestOf("many")).size(), 60 << 10);
}

}  // namespace
}  // namespace shardfeed
