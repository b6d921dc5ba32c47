#include "shard/writing/writer.h"

#include <atomic>
#include <map>
#include <stop_token>
#include <thread>

#include "base/work_stop.h"
#include "io/remedy.h"
#include "reader/scan.h"
#include "shard/index/index.h"
#include "shardfeed/examples.h"
#include "shardfeed/index.h"
#include "shardfeed/verify.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::OnDisk;
using testing::ReadBytes;
using testing::TestFolder;

std::string Payload(int i) { return "record " + std::to_string(i) + std::string(i % 700, 'x'); }

class WriterTest : public ::testing::Test {
 protected:
  OutputSpec Spec(const std::string& name) { return *ParseOutputSpec(folder_ / name); }

  absl::StatusOr<Manifest> Write(const std::string& name, int n,
                                 DatasetWriterOptions options = {}) {
    auto writer = DatasetWriter::Create(Spec(name), options);
    if (!writer.ok()) return writer.status();
    for (int i = 0; i < n; ++i) {
      absl::Status status = (*writer)->Write(Payload(i));
      if (!status.ok()) return status;
    }
    return (*writer)->Finish({});
  }

  // Every file in the folder, sidecars included.
  std::map<std::string, std::string> Files() {
    std::map<std::string, std::string> files;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(OnDisk(folder_.path()))) {
      if (!entry.is_regular_file()) continue;
      files[std::filesystem::relative(entry.path(), OnDisk(folder_.path())).string()] =
          ReadBytes(entry.path().string());
    }
    return files;
  }

  TestFolder folder_;
};

class EveryCompression : public WriterTest, public ::testing::WithParamInterface<Compression> {};

INSTANTIATE_TEST_SUITE_P(Writer, EveryCompression,
                         ::testing::Values(Compression::kNone, Compression::kGzip,
                                           Compression::kZlib),
                         [](const auto& info) { return std::string(CompressionName(info.param)); });

TEST_P(EveryCompression, RecordsGoRoundTheShardsAndVerify) {
  const auto manifest = Write("d@3", 5000, {.encode = {.compression = GetParam()}});
  ASSERT_OK(manifest);
  EXPECT_EQ(manifest->num_records(), 5000);
  const auto set = ResolveSpec(folder_ / "d@3");
  ASSERT_OK(set);
  const auto report = Verify(*set, {});
  ASSERT_OK(report);
  EXPECT_EQ(report->num_defects(), 0);
  EXPECT_TRUE(report->has_manifest);
  std::vector<int> next = {0, 1, 2};
  ASSERT_OK(ScanDataset(*set, {.threads = 2}, [&](size_t shard, const RecordBlock& block) {
    for (const Record& record : block.records) {
      EXPECT_EQ(record.payload, Payload(next[shard]));
      next[shard] += 3;
    }
    return absl::OkStatus();
  }));
  EXPECT_EQ(next[0] + next[1] + next[2], 5001 + 5002 + 5000);
}

TEST_P(EveryCompression, FilesDoNotDependOnThreads) {
  ASSERT_OK(Write("d@4", 3000, {.encode = {.compression = GetParam()}, .threads = 1}));
  const auto one = Files();
  ASSERT_OK(
      Write("d@4", 3000, {.encode = {.compression = GetParam()}, .threads = 5, .overwrite = true}));
  EXPECT_EQ(Files(), one);
}

TEST_P(EveryCompression, AnyRecordIsReadByItsNumber) {
  ASSERT_OK(Write("d@2", 3000, {.encode = {.compression = GetParam(), .member_bytes = 10000}}));
  const auto set = ResolveSpec(folder_ / "d@2");
  for (bool with_index : {true, false}) {
    if (!with_index) {
      for (const std::string& path : set->paths) std::filesystem::remove(OnDisk(IndexPath(path)));
    }
    const auto access = RandomAccess::Open(*set, 1);
    ASSERT_OK(access);
    ASSERT_EQ((*access)->num_records(), 3000);
    for (uint64_t number : {0, 1, 777, 1499, 1500, 2999}) {
      // Shard 0 holds the even records, shard 1 the odd ones.
      const int expected = number < 1500 ? 2 * number : 2 * (number - 1500) + 1;
      int calls = 0;
      ASSERT_OK((*access)->Read(number, number + 1, [&](uint64_t n, std::string_view payload) {
        EXPECT_EQ(n, number);
        EXPECT_EQ(payload, Payload(expected));
        ++calls;
        return absl::OkStatus();
      }));
      EXPECT_EQ(calls, 1);
    }
    int calls = 0;
    ASSERT_OK((*access)->Read(1400, 1600, [&](uint64_t, std::string_view) {
      ++calls;
      return absl::OkStatus();
    }));
    EXPECT_EQ(calls, 200);
  }
}

TEST_F(WriterTest, NamesOfFeaturesMustBeUtf8) {
  ExampleBuilder builder;
  builder.AddInt64("a\xff", 1);
  std::string record;
  builder.SerializeExample(&record);
  auto writer = DatasetWriter::Create(Spec("d@2"), {});
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->Write(record));
  EXPECT_FAILS((*writer)->Finish({}), kDataLoss,
               folder_ /
                   "d@2: the name of the feature \"a\\377\" is not UTF-8, so no manifest can "
                   "describe it; rename it in the records");
  writer->reset();
  EXPECT_EQ(Files().size(), 0);
}

TEST_F(WriterTest, ReadingBeyondTheEndIsOutOfRange) {
  ASSERT_OK(Write("d@2", 10));
  const auto access = RandomAccess::Open(*ResolveSpec(folder_ / "d@2"), 1);
  EXPECT_FAILS((*access)->Read(5, 11, [](uint64_t, std::string_view) { return absl::OkStatus(); }),
               kOutOfRange, "there are 10 records");
}

TEST_F(WriterTest, IndexThatDoesNotFitIsFoundWhenReading) {
  ASSERT_OK(Write("d@1", 10));
  ASSERT_OK(Write("e@1", 10));
  const auto set = ResolveSpec(folder_ / "d@1");
  // Same size, other records: exchange the first two.
  std::string bytes = ReadBytes(set->paths[0]);
  std::string frames;
  AppendFrame(Payload(1), &frames);
  AppendFrame(Payload(0), &frames);
  frames += bytes.substr(frames.size());
  std::ofstream(OnDisk(set->paths[0]), std::ios::binary) << frames;
  const auto access = RandomAccess::Open(*set, 1);
  EXPECT_FAILS((*access)->Read(1, 3, [](uint64_t, std::string_view) { return absl::OkStatus(); }),
               kDataLoss, "");
  const auto report = Verify(*set, {});
  ASSERT_OK(report);
  ASSERT_GT(report->num_defects(), 0);
  EXPECT_EQ(report->shards[0].defects[0].kind, "index");
  EXPECT_THAT(report->shards[0].defects[0].detail, ::testing::HasSubstr("stale"));
}

TEST_F(WriterTest, ShardsWithoutRecordsAreFiles) {
  ASSERT_OK(Write("d@5", 2));
  const auto set = ResolveSpec(folder_ / "d@5");
  ASSERT_OK(set);
  EXPECT_EQ(set->paths.size(), 5);
  EXPECT_EQ(Verify(*set, {})->num_defects(), 0);
}

TEST_F(WriterTest, ExistingDatasetIsRefused) {
  ASSERT_OK(Write("d@2", 10));
  const auto before = Files();
  EXPECT_FAILS(Write("d@2", 5), kAlreadyExists, "there is a dataset of this name");
  EXPECT_FAILS(Write("d@3", 5), kAlreadyExists, "there is a dataset of this name");
  EXPECT_EQ(RemedyOf(Write("d@3", 5).status()).value_or(Remedy()).option, "overwrite");
  EXPECT_EQ(Files(), before);
}

TEST_F(WriterTest, ShardsWithoutManifestAreRefusedToo) {
  folder_.Write("d-00000-of-00007", "");
  EXPECT_FAILS(Write("d@2", 5), kAlreadyExists, "there are shards of this name");
}

TEST_F(WriterTest, LinksInPlaceOfShardsAreRefused) {
  SKIP_OVER_STORE("links");
  // A link counts as a link, even to a folder.
  std::filesystem::create_directory(folder_ / "elsewhere");
  std::filesystem::create_directory_symlink(folder_ / "elsewhere", folder_ / "l-00001-of-00002");
  EXPECT_FAILS(Write("l@2", 5), kAlreadyExists, "there are shards of this name");
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "l-00001-of-00002"));
}

TEST_F(WriterTest, LinksInPlaceOfSidecarsAreRefused) {
  SKIP_OVER_STORE("links");
  namespace fs = std::filesystem;
  fs::create_directories(folder_ / ".shardfeed");
  const std::string manifest = folder_ / ".shardfeed/d.manifest.json";
  fs::create_symlink(folder_ / "nowhere", manifest);
  EXPECT_FAILS(Write("d@2", 5), kAlreadyExists, "there is a dataset of this name");
  EXPECT_TRUE(fs::is_symlink(manifest));
  fs::remove(manifest);
  fs::create_directory(manifest);
  EXPECT_FAILS(Write("d@2", 5), kFailedPrecondition,
               "expected a manifest, found a folder; move it away");
  fs::remove(manifest);
  const std::string index = folder_ / ".shardfeed/d-00001-of-00002.index";
  fs::create_symlink(folder_ / "nowhere", index);
  EXPECT_FAILS(
      Write("d@2", 5), kAlreadyExists,
      "d-00001-of-00002.index: expected an index, found a link or a special file; remove it");
  EXPECT_TRUE(fs::is_symlink(index));
  ASSERT_OK(Write("d@3", 5));  // by another writer
  EXPECT_TRUE(fs::is_symlink(index));
  ASSERT_OK(Write("d@2", 5, {.overwrite = true}));
  EXPECT_FALSE(fs::is_symlink(index));
  fs::remove_all(folder_ / ".shardfeed/d-00001-of-00002.index");
  fs::create_directory(index);
  EXPECT_FAILS(Write("d@2", 5, {.overwrite = true}), kFailedPrecondition,
               "expected a file of the dataset, found a folder");
}

TEST_F(WriterTest, OverwriteLeavesNothingOfTheOldDataset) {
  ASSERT_OK(Write("d@7", 100));
  ASSERT_OK(Write("d@2", 100, {.overwrite = true}));
  EXPECT_EQ(Files().size(), 6);  // two shards, two indexes, one pack of them, one manifest
  EXPECT_EQ(ResolveSpec(folder_ / "d@*")->paths.size(), 2);
}

TEST_F(WriterTest, UnfinishedWriterLeavesNothing) {
  {
    auto writer = DatasetWriter::Create(Spec("d@2"), {});
    ASSERT_OK(writer);
    for (int i = 0; i < 10000; ++i) ASSERT_OK((*writer)->Write(Payload(i)));
  }
  EXPECT_TRUE(std::filesystem::is_empty(OnDisk(folder_.path())));
}

TEST_F(WriterTest, WhatAKilledProcessLeftIsRemoved) {
  SKIP_OVER_STORE("what a killed writer leaves is seen in folders alone");
  folder_.Write(".shardfeed/d.incomplete/00000.shard", "half a shard");
  folder_.Write(".shardfeed/d.incomplete/00009.shard", "another");
  EXPECT_FAILS(ResolveSpec(folder_ / "d@2"), kNotFound, "its writer did not finish");
  ASSERT_OK(Write("d@2", 100));
  EXPECT_EQ(Files().size(), 6);
}

TEST_F(WriterTest, TwoWritersOfOneDatasetAreRefused) {
  SKIP_OVER_STORE("the first of two writers that commits wins (tests/package)");
  auto first = DatasetWriter::Create(Spec("d@2"), {});
  ASSERT_OK(first);
  EXPECT_FAILS(DatasetWriter::Create(Spec("d@2"), {}), kFailedPrecondition,
               "another process is writing this dataset");
}

TEST_F(WriterTest, ErrorOfABlockIsTheEarliest) {
  auto writer = DatasetWriter::Create(Spec("d@2"), {.threads = 4});
  ASSERT_OK(writer);
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) {
    status = (*writer)->Submit(i % 2, [i](RecordBatch& batch) {
      batch.Add("x");
      return i >= 3 ? absl::DataLossError("block " + std::to_string(i)) : absl::OkStatus();
    });
  }
  status = (*writer)->Finish({}).status();
  EXPECT_FAILS(status, kDataLoss, "block 3");
}

TEST_F(WriterTest, StopIsCancelled) {
  std::stop_source stop;
  auto writer = DatasetWriter::Create(Spec("d@2"), {.stop = stop.get_token()});
  ASSERT_OK(writer);
  stop.request_stop();
  absl::Status status;
  for (int i = 0; i < 100000 && status.ok(); ++i) status = (*writer)->Write(Payload(i));
  EXPECT_FAILS(status, kCancelled, "nothing was kept");
}

// As what waits for a store that does not answer.
absl::Status WaitUntilUnwanted(RecordBatch&) {
  while (!WorkStop::Requested()) std::this_thread::yield();
  return absl::CancelledError("interrupted");
}

TEST_F(WriterTest, WhatIsNotNeededIsBrokenOff) {
  std::stop_source stop;
  stop.request_stop();
  auto writer = DatasetWriter::Create(Spec("a@1"), {.threads = 1});
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->Submit(0, WaitUntilUnwanted));
  auto full = DatasetWriter::Create(Spec("b@1"), {.threads = 1});
  ASSERT_OK(full);
  for (int i = 0; i < 4; ++i) ASSERT_OK((*full)->Submit(0, WaitUntilUnwanted));
  {
    const WorkStop unwanted(stop.get_token());
    EXPECT_FAILS((*writer)->WaitForAll(), kCancelled, "interrupted; nothing was kept");
    EXPECT_FAILS((*full)->Submit(0, WaitUntilUnwanted), kCancelled,  // there is no room
                 "interrupted; nothing was kept");
  }
  EXPECT_FAILS((*writer)->Finish({}), kCancelled, "interrupted; nothing was kept");
  EXPECT_FAILS((*full)->CloseShard(0), kCancelled, "interrupted; nothing was kept");
  // The last one is destroyed while it waits.
  auto last = DatasetWriter::Create(Spec("c@1"), {.threads = 1});
  ASSERT_OK(last);
  ASSERT_OK((*last)->Submit(0, WaitUntilUnwanted));
}

// A store that answers makes room soon.
TEST_F(WriterTest, AnInterruptedCallLosesNothing) {
  std::atomic<bool> answers = false;
  const auto fill = [&answers](RecordBatch& batch) {
    while (!answers) std::this_thread::yield();
    batch.Add("x");
    return absl::OkStatus();
  };
  auto writer = DatasetWriter::Create(Spec("d@1"), {.threads = 1});
  ASSERT_OK(writer);
  for (int i = 0; i < 4; ++i) ASSERT_OK((*writer)->Submit(0, fill));
  std::stop_source stop;
  stop.request_stop();
  std::thread store([&answers] {
    std::this_thread::sleep_for(3 * WorkStop::kInterval);
    answers = true;
  });
  {
    const WorkStop unwanted(stop.get_token());
    EXPECT_OK((*writer)->Submit(0, fill));
  }
  store.join();
  const auto manifest = (*writer)->Finish({});
  ASSERT_OK(manifest);
  EXPECT_EQ(manifest->num_records(), 5);
}

class ResumeTest : public WriterTest {
 protected:
  // Writes shards 0 to `until` - 1 of four. The writer is then destroyed, or finishes if `until` is
  // 4.
  absl::StatusOr<Manifest> WriteShards(size_t until, DatasetWriterOptions options = {},
                                       std::vector<bool>* taken_over = nullptr) {
    options.resume = true;
    auto writer = DatasetWriter::Create(Spec("d@4"), options);
    if (!writer.ok()) return writer.status();
    for (size_t shard = 0; shard < 4; ++shard) {
      if (taken_over != nullptr) taken_over->push_back((*writer)->is_taken_over(shard));
      if (shard >= until || (*writer)->is_taken_over(shard)) continue;
      EXPECT_OK((*writer)->Submit(shard, [shard](RecordBatch& batch) {
        for (int i = 0; i < 10; ++i) batch.Add(Payload(100 * shard + i));
        batch.Begin()->append("broken");
        batch.Skip("record of shard " + std::to_string(shard));
        return absl::OkStatus();
      }));
      EXPECT_OK((*writer)->CloseShard(shard));
    }
    if (until == 4) return (*writer)->Finish({});
    // Waits for what was submitted.
    while ((*writer)->records_written() < 10 * until) std::this_thread::yield();
    while (NumDone() < until) std::this_thread::yield();
    return absl::CancelledError("stopped");
  }
  // Files come and go meanwhile.
  size_t NumDone() {
    size_t n = 0;
    for (int shard = 0; shard < 4; ++shard) {
      const std::string name = ".shardfeed/d.incomplete/0000" + std::to_string(shard) + ".done";
      n += std::filesystem::exists(OnDisk(folder_ / name)) ? 1 : 0;
    }
    return n;
  }
};

TEST_F(ResumeTest, FinishedShardsAreTakenOverAndTheResultIsTheSame) {
  SKIP_OVER_STORE("finished shards are kept in folders alone");
  const auto whole = WriteShards(4);
  ASSERT_OK(whole);
  EXPECT_EQ(whole->skipped.count, 4);
  EXPECT_EQ(whole->skipped.first[2], "record of shard 2");
  const auto expected = Files();
  for (size_t until : {0, 1, 3}) {
    std::filesystem::remove_all(OnDisk(folder_.path()));
    std::filesystem::create_directories(OnDisk(folder_.path()));
    EXPECT_FALSE(WriteShards(until).ok());
    std::vector<bool> taken_over;
    ASSERT_OK(WriteShards(4, {}, &taken_over));
    for (size_t shard = 0; shard < 4; ++shard) EXPECT_EQ(taken_over[shard], shard < until);
    EXPECT_EQ(Files(), expected);
  }
}

TEST_F(ResumeTest, WithoutFinishedShardsNothingIsLeft) {
  EXPECT_FALSE(WriteShards(0).ok());
  EXPECT_TRUE(Files().empty());
}

TEST_F(ResumeTest, AnotherPlanStartsAnew) {
  SKIP_OVER_STORE("finished shards are kept in folders alone");
  EXPECT_FALSE(WriteShards(2, {.fingerprint = "one"}).ok());
  std::vector<bool> taken_over;
  ASSERT_OK(WriteShards(4, {.fingerprint = "two"}, &taken_over));
  EXPECT_EQ(taken_over, std::vector<bool>(4, false));
}

TEST_F(ResumeTest, DamagedShardsAreWrittenAnew) {
  SKIP_OVER_STORE("finished shards are kept in folders alone");
  ASSERT_OK(WriteShards(4));
  const auto expected = Files();
  for (const std::string file : {"00000.shard", "00001.index", "00002.done"}) {
    std::filesystem::remove_all(OnDisk(folder_.path()));
    std::filesystem::create_directories(OnDisk(folder_.path()));
    EXPECT_FALSE(WriteShards(3).ok());
    const std::string path = ".shardfeed/d.incomplete/" + file;
    std::string bytes = ReadBytes(folder_ / path);
    bytes[bytes.size() / 2] ^= 4;
    folder_.Write(path, bytes);
    std::vector<bool> taken_over;
    ASSERT_OK(WriteShards(4, {}, &taken_over));
    std::vector<bool> sound = {true, true, true, false};
    sound[file[4] - '0'] = false;
    EXPECT_EQ(taken_over, sound) << file;
    EXPECT_EQ(Files(), expected) << file;
  }
}

TEST_F(ResumeTest, ShardsThatWereCutAreWrittenAnew) {
  SKIP_OVER_STORE("finished shards are kept in folders alone");
  EXPECT_FALSE(WriteShards(3).ok());
  folder_.Write(".shardfeed/d.incomplete/00000.shard", "");
  std::filesystem::remove(folder_ / ".shardfeed/d.incomplete/00001.shard");
  folder_.Write(".shardfeed/d.incomplete/00002.done", "{}");
  std::vector<bool> taken_over;
  ASSERT_OK(WriteShards(4, {}, &taken_over));
  EXPECT_EQ(taken_over, std::vector<bool>(4, false));
}

TEST_F(ResumeTest, AWriterThatDoesNotResumeRemovesFinishedShards) {
  SKIP_OVER_STORE("finished shards are kept in folders alone");
  EXPECT_FALSE(WriteShards(3).ok());
  ASSERT_OK(Write("d@4", 100));
  EXPECT_EQ(Files().size(), 10);
}

TEST_F(WriterTest, SkippedRecordsAreCountedInTheOrderOfTheShards) {
  auto writer = DatasetWriter::Create(Spec("d@2"), {.threads = 3});
  ASSERT_OK(writer);
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK((*writer)->Submit(i % 2, [i](RecordBatch& batch) {
      batch.Add(Payload(i));
      for (int k = 0; k < 2; ++k) {
        batch.Begin()->append("half a record");
        batch.Skip(std::to_string(i));
      }
      return absl::OkStatus();
    }));
  }
  const auto manifest = (*writer)->Finish({});
  ASSERT_OK(manifest);
  EXPECT_EQ(manifest->num_records(), 100);
  EXPECT_EQ(manifest->skipped.count, 200);
  ASSERT_EQ(manifest->skipped.first.size(), 100);
  EXPECT_EQ(manifest->skipped.first[0], "0");
  EXPECT_EQ(manifest->skipped.first[99], "98");
  EXPECT_EQ(ReadManifest(ManifestPath(folder_.path(), "d"))->skipped, manifest->skipped);
  EXPECT_EQ(Verify(*ResolveSpec(folder_ / "d@2"), {})->num_defects(), 0);
}

TEST_F(WriterTest, WrongOptionsAreRefused) {
  EXPECT_FAILS(Write("d@2", 1, {.encode = {.compression = Compression::kSnappy}}), kInvalidArgument,
               "SNAPPY can be read, but not written");
  EXPECT_FAILS(Write("d@2", 1, {.encode = {.level = 10}}), kInvalidArgument,
               "level must be from 1 to 9, got 10");
  EXPECT_FAILS(Write("d", 1), kInvalidArgument, "number of shards");
}

TEST_F(WriterTest, RecordLargerThanABatch) {
  auto writer = DatasetWriter::Create(Spec("d@1"), {.encode = {.compression = Compression::kGzip}});
  const std::string large(5 << 20, 'z');
  ASSERT_OK((*writer)->Write("small"));
  ASSERT_OK((*writer)->Write(large));
  ASSERT_OK((*writer)->Write(""));
  const auto manifest = (*writer)->Finish({});
  ASSERT_OK(manifest);
  EXPECT_EQ(manifest->num_records(), 3);
  const auto access = RandomAccess::Open(*ResolveSpec(folder_ / "d@1"), 1);
  ASSERT_OK((*access)->Read(1, 2, [&](uint64_t, std::string_view payload) {
    EXPECT_TRUE(payload == large);
    return absl::OkStatus();
  }));
}

TEST_F(WriterTest, ManifestGoesBothWays) {
  const auto written = Write("d@2", 10);
  ASSERT_OK(written);
  const auto read = ReadManifest(ManifestPath(folder_.path(), "d"));
  ASSERT_OK(read);
  EXPECT_EQ(read->shards, written->shards);
  EXPECT_EQ(read->stem, "d");
  EXPECT_EQ(FormatManifest(*read), FormatManifest(*written));
}

TEST_F(WriterTest, BrokenManifestIsDataLoss) {
  EXPECT_FAILS(ParseManifest("{", "m"), kDataLoss, "m: not a shardfeed manifest");
  EXPECT_FAILS(ParseManifest(R"({"format":"other","version":1})", "m"), kDataLoss,
               "another format");
  EXPECT_FAILS(ReadManifest(folder_ / "none"), kNotFound, "none");
}

TEST(EncodeBlock, MembersEndWithRecordsAndAreNotTooSmall) {
  RecordBatch batch;
  for (int i = 0; i < 100; ++i) batch.Add(std::string(1000, 'a'));
  const EncodedBlock block =
      EncodeBlock(batch, {.compression = Compression::kGzip, .member_bytes = 10000});
  // Ten frames reach the 10,000 bytes, so ten members; none is left over.
  EXPECT_EQ(block.restarts.size(), 10);
  for (size_t i = 0; i < block.restarts.size(); ++i) {
    EXPECT_EQ(block.restarts[i].stream_offset, i * 10 * 1016);
  }
}

TEST(RecordBatch, PayloadBuiltInPlaceEqualsOneAdded) {
  RecordBatch added;
  added.Add("abc");
  RecordBatch built;
  built.Begin()->append("abc");
  built.End();
  EXPECT_EQ(EncodeBlock(added, {}).bytes, EncodeBlock(built, {}).bytes);
}

}  // namespace
}  // namespace shardfeed
