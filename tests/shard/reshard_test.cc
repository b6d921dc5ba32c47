#include "shard/reshard/reshard.h"

#include <map>
#include <tuple>

#include "fmt/format.h"
#include "shard/formats/shard_reader.h"
#include "shard/writing/writer.h"
#include "shardfeed/examples.h"
#include "shardfeed/verify.h"
#include "tests/testing/files.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

using testing::OnDisk;
using testing::ReadBytes;
using testing::TestFolder;

std::string Payload(int i, size_t size = 300) {
  ExampleBuilder builder;
  const std::string text = "record " + std::to_string(i) + std::string(i % size, 'x');
  builder.AddInt64("number", i);
  builder.AddBytes("text", text);
  std::string payload;
  builder.SerializeExample(&payload);
  return payload;
}

class ReshardTest : public ::testing::Test {
 protected:
  // Records 0 to n-1, in this order through the shards.
  void Write(const std::string& name, int n, Compression compression = Compression::kNone,
             size_t size = 300, FeatureClasses classes = {}) {
    const OutputSpec spec = *ParseOutputSpec(folder_ / name);
    DatasetWriterOptions options;
    options.encode.compression = compression;
    options.encode.member_bytes = 4 << 10;
    auto writer = DatasetWriter::Create(spec, options);
    ASSERT_OK(writer);
    const std::vector<uint64_t> ends = EvenEnds(n, *spec.count);
    for (size_t shard = 0; shard < ends.size(); ++shard) {
      const int begin = shard == 0 ? 0 : static_cast<int>(ends[shard - 1]);
      ASSERT_OK((*writer)->Submit(shard, [&, begin, shard](RecordBatch& batch) {
        for (int i = begin; i < static_cast<int>(ends[shard]); ++i) batch.Add(Payload(i, size));
        return absl::OkStatus();
      }));
    }
    ASSERT_OK((*writer)->Finish({.classes = std::move(classes)}));
  }
  void WriteWith(const std::string& name, FeatureClasses classes) {
    Write(name, 10, Compression::kNone, 300, std::move(classes));
  }

  absl::StatusOr<ReshardInput> Open(const std::vector<std::string>& names) {
    std::vector<ShardSet> sets;
    for (const std::string& name : names) {
      auto set = ResolveSpec(folder_ / name);
      if (!set.ok()) return set.status();
      sets.push_back(*std::move(set));
    }
    return ReshardInput::Open(sets, 2, {});
  }

  absl::StatusOr<Manifest> All(const std::vector<std::string>& from, const std::string& to,
                               ReshardOptions options = {}) {
    auto input = Open(from);
    if (!input.ok()) return input.status();
    const OutputSpec spec = *ParseOutputSpec(folder_ / to);
    return Reshard(*input, RecordSelection::Runs({{0, input->num_records()}}),
                   EvenEnds(input->num_records(), *spec.count), spec, options);
  }

  absl::StatusOr<Manifest> Some(const std::string& from, const std::string& to,
                                const RecordSelection& selection) {
    auto input = Open({from});
    if (!input.ok()) return input.status();
    const OutputSpec spec = *ParseOutputSpec(folder_ / to);
    return Reshard(*input, selection, EvenEnds(selection.count(), *spec.count), spec, {});
  }

  std::vector<std::string> Records(const std::string& name) {
    std::vector<std::string> records;
    const auto set = ResolveSpec(folder_ / name);
    EXPECT_OK(set);
    if (!set.ok()) return records;
    for (const std::string& path : set->paths) {
      auto reader = ShardReader::Open(path);
      EXPECT_OK(reader);
      RecordBlock block;
      while ((*reader)->Next(&block).ok() && !block.records.empty()) {
        for (const Record& record : block.records) records.emplace_back(record.payload);
      }
    }
    return records;
  }

  void ExpectSound(const std::string& name) {
    const auto set = ResolveSpec(folder_ / name);
    ASSERT_OK(set);
    const auto report = Verify(*set, {.level = VerifyLevel::kExamples});
    ASSERT_OK(report);
    EXPECT_EQ(report->num_defects(), 0);
    EXPECT_TRUE(report->has_manifest);
  }

  // Shards and indexes of a dataset, by their names without its stem.
  std::map<std::string, std::string> Files(const std::string& stem) {
    std::map<std::string, std::string> files;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(OnDisk(folder_.path()))) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_regular_file() || !name.starts_with(stem + "-")) continue;
      files[name.substr(stem.size())] = ReadBytes(entry.path().string());
    }
    return files;
  }

  void RemoveManifest(const std::string& stem) {
    std::filesystem::remove(OnDisk(ManifestPath(folder_.path(), stem)));
  }

  // No file belongs to the dataset `stem`, and nothing is left of it.
  void ExpectNothing(const std::string& stem) {
    EXPECT_TRUE(Files(stem).empty());
    EXPECT_FALSE(std::filesystem::exists(OnDisk(ManifestPath(folder_.path(), stem))));
    EXPECT_FALSE(std::filesystem::exists(OnDisk(StagingPath(folder_.path(), stem))));
  }

  static std::vector<std::string> Payloads(int begin, int end, size_t size = 300) {
    std::vector<std::string> payloads;
    for (int i = begin; i < end; ++i) payloads.push_back(Payload(i, size));
    return payloads;
  }

  TestFolder folder_;
};

class EveryCompressionPair
    : public ReshardTest,
      public ::testing::WithParamInterface<std::tuple<Compression, Compression, int>> {};

INSTANTIATE_TEST_SUITE_P(
    Reshard, EveryCompressionPair,
    ::testing::Combine(
        ::testing::Values(Compression::kNone, Compression::kGzip, Compression::kZlib),
        ::testing::Values(Compression::kNone, Compression::kGzip, Compression::kZlib),
        ::testing::Values(1, 3, 7)),
    [](const auto& info) {
      return std::string(CompressionName(std::get<0>(info.param))) + "To" +
             std::string(CompressionName(std::get<1>(info.param))) +
             std::to_string(std::get<2>(info.param));
    });

TEST_P(EveryCompressionPair, KeepsRecordsAndTheirOrder) {
  const auto [from, to, shards] = GetParam();
  Write("a@3", 3000, from);
  ReshardOptions options;
  options.encode.compression = to;
  const std::string name = "b@" + std::to_string(shards);
  const auto manifest = All({"a@3"}, name, options);
  ASSERT_OK(manifest);
  EXPECT_EQ(manifest->num_records(), 3000);
  EXPECT_EQ(manifest->compression, to);
  EXPECT_EQ(manifest->shards.size(), shards);
  EXPECT_EQ(manifest->schema.features().at("text").records, 3000);
  EXPECT_EQ(Records(name), Payloads(0, 3000));
  ExpectSound(name);
}

TEST_F(ReshardTest, CopyingGivesWhatEncodingGives) {
  for (const size_t size : {300, 60000}) {  // read through; copied by the kernel
    const std::string stem = "a" + std::to_string(size);
    Write(stem + "@3", 1000, Compression::kNone, size);
    const auto copied = All({stem + "@3"}, stem + "copied@5");
    ASSERT_OK(copied);
    ExpectSound(stem + "copied@5");
    EXPECT_EQ(Records(stem + "copied@5"), Payloads(0, 1000, size));
    RemoveManifest(stem);
    const auto encoded = All({stem + "@3"}, stem + "encoded@5");
    ASSERT_OK(encoded);
    EXPECT_EQ(Files(stem + "copied"), Files(stem + "encoded"));
    EXPECT_EQ(copied->schema.features(), encoded->schema.features());
  }
}

TEST_F(ReshardTest, OneRecordThatIsLargerThanTheBuffer) {
  // Small on average, so that the shard is read through.
  const OutputSpec spec = *ParseOutputSpec(folder_ / "a@1");
  auto writer = DatasetWriter::Create(spec, {});
  ASSERT_OK(writer);
  ExampleBuilder builder;
  const std::string large(3 << 20, 'l');
  for (int i = 0; i < 1000; ++i) ASSERT_OK((*writer)->Write(Payload(i)));
  builder.AddBytes("large", large);
  std::string record;
  builder.SerializeExample(&record);
  ASSERT_OK((*writer)->Write(record));
  for (int i = 0; i < 1000; ++i) ASSERT_OK((*writer)->Write(Payload(i)));
  ASSERT_OK((*writer)->Finish({}));
  ASSERT_OK(All({"a@1"}, "b@3"));
  EXPECT_EQ(Records("b@3"), Records("a@1"));
  ExpectSound("b@3");
}

TEST_F(ReshardTest, WholeCompressedShardsAreCopied) {
  SKIP_OVER_STORE("shards are copied between folders alone");
  Write("a@3", 3000, Compression::kGzip);
  ReshardOptions options;
  options.encode.compression = Compression::kGzip;
  options.encode.member_bytes = 1 << 20;  // would be noticed if they were compressed again
  ASSERT_OK(All({"a@3"}, "b@3", options));
  EXPECT_EQ(Files("b"), Files("a"));
  ExpectSound("b@3");
}

TEST_F(ReshardTest, ThreadsDoNotShow) {
  Write("a@4", 5000);
  RemoveManifest("a");
  for (const Compression compression : {Compression::kNone, Compression::kZlib}) {
    ReshardOptions options;
    options.encode.compression = compression;
    options.overwrite = true;
    options.threads = 1;
    ASSERT_OK(All({"a@4"}, "b@3", options));
    const auto one = Files("b");
    options.threads = 5;
    ASSERT_OK(All({"a@4"}, "b@3", options));
    EXPECT_EQ(Files("b"), one);
  }
}

TEST_F(ReshardTest, DatasetsOneAfterAnother) {
  Write("a@2", 500);
  Write("b@3", 800);
  ASSERT_OK(All({"a@2", "b@3"}, "c@2"));
  std::vector<std::string> expected = Payloads(0, 500);
  for (std::string& payload : Payloads(0, 800)) expected.push_back(std::move(payload));
  EXPECT_EQ(Records("c@2"), expected);
  ExpectSound("c@2");
  const auto input = Open({"a@2", "b@3"});
  ASSERT_OK(input);
  EXPECT_EQ(input->num_shards(), 5);
  EXPECT_EQ(input->StartOf(2), 500);
  EXPECT_EQ(input->num_records(), 1300);
}

TEST_F(ReshardTest, SomeRecords) {
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    const std::string stem(CompressionName(compression));
    Write(stem + "@3", 3000, compression);
    ASSERT_OK(Some(stem + "@3", stem + "runs@2", RecordSelection::Runs({{990, 1010}, {5, 8}})));
    std::vector<std::string> expected = Payloads(990, 1010);
    for (std::string& payload : Payloads(5, 8)) expected.push_back(std::move(payload));
    EXPECT_EQ(Records(stem + "runs@2"), expected);
    ExpectSound(stem + "runs@2");

    const auto sample = RecordSelection::Sample(3000, 700, 4);
    ASSERT_OK(Some(stem + "@3", stem + "sample@4", sample));
    expected.clear();
    ASSERT_OK(sample.ForEachRun(0, 700, [&expected](RecordRun run) {
      for (uint64_t n = run.begin; n < run.end; ++n) expected.push_back(Payload(n));
      return absl::OkStatus();
    }));
    EXPECT_EQ(Records(stem + "sample@4"), expected);
    ExpectSound(stem + "sample@4");
  }
}

TEST_F(ReshardTest, EmptyShardsAndEmptyDatasets) {
  Write("a@5", 3);
  ASSERT_OK(All({"a@5"}, "b@7"));
  EXPECT_EQ(Records("b@7"), Payloads(0, 3));
  ExpectSound("b@7");
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    ReshardOptions options;
    options.encode.compression = compression;
    const std::string stem(CompressionName(compression));
    Write(stem + "@2", 0);
    ASSERT_OK(All({stem + "@2"}, stem + "out@3", options));
    EXPECT_TRUE(Records(stem + "out@3").empty());
    ExpectSound(stem + "out@3");
  }
}

TEST_F(ReshardTest, IndexesNeedNotBeThere) {
  Write("a@3", 1000);
  const auto shards = Files("a");
  for (const auto& [name, bytes] : shards) {
    std::filesystem::remove(OnDisk(IndexPath(folder_ / ("a" + name))));
  }
  ASSERT_OK(All({"a@3"}, "b@3"));
  EXPECT_EQ(Files("b"), shards);
}

TEST_F(ReshardTest, DamagedLengthIsTold) {
  for (const size_t size : {300, 60000}) {
    const std::string stem = "a" + std::to_string(size);
    Write(stem + "@1", 400, Compression::kNone, size);
    const std::string path = folder_ / (stem + "-00000-of-00001");
    const auto index = ShardIndex::Open(IndexPath(path));
    ASSERT_OK(index);
    std::string bytes = ReadBytes(path);
    bytes[(*index)->Offset(100) + 1] ^= 1;
    folder_.Write(stem + "-00000-of-00001", bytes);
    const std::string said = path + ": record 100 at byte " +
                             std::to_string((*index)->Offset(100)) +
                             ": its index does not match it";
    EXPECT_FAILS(All({stem + "@1"}, "b@2"), kDataLoss, said);
    RemoveManifest(stem);
    EXPECT_FAILS(All({stem + "@1"}, "b@2"), kDataLoss, said);
    ExpectNothing("b");
  }
}

TEST_F(ReshardTest, DamagedPayloadIsToldWhereItIsRead) {
  Write("a@1", 400);
  const std::string path = folder_ / "a-00000-of-00001";
  const auto index = ShardIndex::Open(IndexPath(path));
  ASSERT_OK(index);
  std::string bytes = ReadBytes(path);
  bytes[(*index)->Offset(100) + kHeaderBytes + 3] ^= 1;
  folder_.Write("a-00000-of-00001", bytes);
  ReshardOptions options;
  options.encode.compression = Compression::kGzip;
  EXPECT_FAILS(All({"a@1"}, "b@2", options), kDataLoss,
               path + ": record 100 at byte " + std::to_string((*index)->Offset(100)) +
                   ": its payload's CRC is wrong; 'shardfeed verify' lists all defects, 'shardfeed "
                   "repair' saves what is sound");
  ExpectNothing("b");
}

TEST_F(ReshardTest, DigestOfACopiedShardIsCompared) {
  SKIP_OVER_STORE("shards are copied between folders alone");
  Write("a@1", 400);
  const std::string path = folder_ / "a-00000-of-00001";
  std::string bytes = ReadBytes(path);
  bytes.back() ^= 1;  // in a payload's CRC
  folder_.Write("a-00000-of-00001", bytes);
  EXPECT_FAILS(All({"a@1"}, "b@1"), kDataLoss, path + ": the digest of its records is ");
  ExpectNothing("b");
}

TEST_F(ReshardTest, DamagedCompressedShardIsTold) {
  Write("a@1", 2000, Compression::kGzip);
  const std::string path = folder_ / "a-00000-of-00001";
  std::string bytes = ReadBytes(path);
  bytes[bytes.size() / 2] ^= 1;
  folder_.Write("a-00000-of-00001", bytes);
  EXPECT_FAILS(All({"a@1"}, "b@2"), kDataLoss, path + ": ");
  ExpectNothing("b");
}

TEST_F(ReshardTest, IndexOfAnotherShardIsFoundOut) {
  SKIP_OVER_STORE("shards are copied between folders alone");
  // The same file size, but other records.
  Write("a@1", 100);
  ExampleBuilder builder;
  const std::string path = folder_ / "a-00000-of-00001";
  const std::string bytes = ReadBytes(path);
  std::string one;
  const std::string payload(bytes.size() - kFrameBytes, 'x');
  AppendFrame(payload, &one);
  folder_.Write("a-00000-of-00001", one);
  EXPECT_FAILS(All({"a@1"}, "b@1"), kDataLoss, path + ": record 0 at byte 0: its index does not");
  ExpectNothing("b");
}

TEST_F(ReshardTest, StoppingLeavesNothing) {
  Write("a@3", 1000);
  std::stop_source source;
  source.request_stop();
  ReshardOptions options;
  options.stop = source.get_token();
  EXPECT_FAILS(All({"a@3"}, "b@2", options), kCancelled, "interrupted; nothing was kept");
  RemoveManifest("a");
  EXPECT_FAILS(All({"a@3"}, "b@2", options), kCancelled, "interrupted; nothing was kept");
  ExpectNothing("b");
}

TEST_F(ReshardTest, DatasetThatIsThereStaysUnlessAskedFor) {
  Write("a@3", 1000);
  Write("b@2", 10);
  EXPECT_FAILS(All({"a@3"}, "b@2"), kAlreadyExists, "there is a dataset of this name");
  EXPECT_EQ(Records("b@2"), Payloads(0, 10));
  // Also itself.
  ReshardOptions options;
  options.overwrite = true;
  ASSERT_OK(All({"a@3"}, "a@5", options));
  EXPECT_EQ(Records("a@*"), Payloads(0, 1000));
  ExpectSound("a@5");
}

TEST_F(ReshardTest, ShardsThatAreNotThoseOfTheManifestAreRefused) {
  Write("a@2", 100);
  Write("b@1", 50);
  const std::string path = folder_ / "a-00000-of-00002";
  const std::string old = ReadBytes(path);
  // A shard of the same size, with another record and a matching index.
  std::vector<std::string> records = Records("a@2");
  records.resize(50);
  records[7][3] ^= 1;
  std::string shard;
  for (const std::string& record : records) AppendFrame(record, &shard);
  ASSERT_EQ(shard.size(), old.size());
  folder_.Write("a-00000-of-00002", shard);
  std::filesystem::remove(OnDisk(IndexPath(path)));
  EXPECT_FAILS(
      All({"a@2"}, "c@1").status(), kDataLoss,
      fmt::format("a-00000-of-00002: its index lists {} bytes and 50 records", shard.size()));
  EXPECT_FAILS(Some("a@2", "c@1", RecordSelection::Runs({{60, 70}})).status(), kDataLoss,
               "the shard was replaced or changed");
  folder_.Write("a-00000-of-00002", old);
  std::filesystem::remove(OnDisk(IndexPath(path)));
  EXPECT_OK(All({"a@2"}, "c@1").status());
  // A shard of other records.
  std::filesystem::copy_file(OnDisk(folder_ / "b-00000-of-00001"),
                             OnDisk(folder_ / "a-00001-of-00002"),
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(OnDisk(IndexPath(folder_ / "b-00000-of-00001")),
                             OnDisk(IndexPath(folder_ / "a-00001-of-00002")),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_FAILS(All({"b@1", "a@2"}, "d@1").status(), kDataLoss, "a-00001-of-00002: its index lists");
  std::filesystem::remove(OnDisk(ManifestPath(folder_.path(), "a")));
  EXPECT_OK(All({"b@1", "a@2"}, "d@1").status());
}

TEST_F(ReshardTest, EvenEndsShareOutEvenly) {
  EXPECT_EQ(EvenEnds(10, 4), (std::vector<uint64_t>{2, 5, 7, 10}));
  EXPECT_EQ(EvenEnds(2, 4), (std::vector<uint64_t>{0, 1, 1, 2}));
  EXPECT_EQ(EvenEnds(0, 2), (std::vector<uint64_t>{0, 0}));
}

TEST_F(ReshardTest, NamesOfClassesAreKept) {
  const ClassNames pets = {{0, "cat"}, {1, "dog"}};
  WriteWith("a@2", {{"number", pets}});
  EXPECT_EQ(All({"a@2"}, "copied@3")->classes.at("number"), pets);
  EXPECT_EQ(Some("a@2", "some@1", RecordSelection::Runs({{3, 5}}))->classes.at("number"), pets);
  EXPECT_EQ(ReadManifest(ManifestPath(folder_.path(), "some"))->classes.at("number"), pets);
  WriteWith("b@1", {{"number", {{1, "dog"}, {2, "cow"}}}, {"other", {{0, "x"}}}});
  const auto both = All({"a@2", "b@1"}, "both@1");
  ASSERT_OK(both);
  EXPECT_EQ(both->classes.at("number"), (ClassNames{{0, "cat"}, {1, "dog"}, {2, "cow"}}));
  EXPECT_THAT(both->notes, ::testing::ElementsAre(fmt::format(
                               "the names of the classes of \"other\" are those of {}; 1 of 2 "
                               "datasets names none",
                               folder_ / "b@1")));
}

TEST_F(ReshardTest, ClassesThatContradictAreRefused) {
  WriteWith("a@2", {{"number", {{0, "cat"}, {1, "dog"}}}});
  WriteWith("b@1", {{"number", {{0, "cat"}, {1, "cow"}}}});
  EXPECT_FAILS(All({"a@2", "b@1"}, "c@1").status(), kFailedPrecondition,
               fmt::format("the classes of \"number\" differ: class 1 is \"dog\" in {} and \"cow\" "
                           "in {}; convert one of them again with the classes of the other",
                           folder_ / "a@2", folder_ / "b@1"));
  WriteWith("d@1", {{"number", {{0, "dog"}}}});
  EXPECT_FAILS(All({"d@1", "a@2"}, "c@1").status(), kFailedPrecondition, "class 0 is \"dog\" in ");
  WriteWith("e@1", {{"number", {{2, "dog"}}}});
  EXPECT_FAILS(All({"a@2", "e@1"}, "c@1").status(), kFailedPrecondition, "\"dog\" is class 1 in ");
  // A single shard belongs to a dataset, too.
  EXPECT_FAILS(All({"a-00000-of-00002", "b@1"}, "c@1").status(), kFailedPrecondition,
               "class 1 is \"dog\"");
}

}  // namespace
}  // namespace shardfeed
