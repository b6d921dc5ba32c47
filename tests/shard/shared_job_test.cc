#include "shard/writing/shared_job.h"

#include <functional>
#include <map>
#include <thread>

#include "fmt/format.h"
#include "shard/names/names.h"
#include "shard/spec/spec.h"
#include "shard/writing/job_folders.h"
#include "shard/writing/writer.h"
#include "shardfeed/examples.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ReadBytes;
using testing::TestFolder;

constexpr uint64_t kParts = 4;
constexpr int kPerPart = 20;

const std::map<std::string, std::string> kMadeBy = {{"tool", "a test"}, {"seed", "1"}};

JobInput InputOf(std::string fingerprint = "x") {
  JobInput input;
  input.made_by = kMadeBy;
  input.notes = {"a note"};
  input.skipped.Add("broken.txt", 2);
  input.classes = {{"label", {{0, "cat"}, {7, "dog"}}}};
  input.fingerprint = std::move(fingerprint);
  return input;
}

std::string RecordOf(uint64_t part, int i) {
  ExampleBuilder builder;
  builder.AddInt64("part", static_cast<int64_t>(part));
  if (i % 3 == 0) builder.AddFloat("third", static_cast<float>(i));
  std::string record;
  builder.SerializeExample(&record);
  return record;
}

class SharedJobTest : public ::testing::Test {
 protected:
  OutputSpec Spec(const std::string& name = "d@4") const {
    return *ParseOutputSpec(folder_ / name);
  }
  std::string JobFolder(const std::string& id = "7") const {
    return JoinPath(JobsPath(folder_.path(), "d"), id);
  }

  absl::StatusOr<SharedJob> Join(const std::string& name = "d@4", WriteJobOptions options = {},
                                 const std::string& id = "7") const {
    absl::StatusOr<SharedJob> job = SharedJob::Prepare(Spec(name), options, id, kMadeBy);
    if (!job.ok()) return job;
    if (absl::Status status = job->Join(); !status.ok()) return status;
    return job;
  }
  // Commits what is finished.
  absl::StatusOr<Manifest> Commit(bool overwrite = false) const {
    const absl::StatusOr<SharedJob> job = SharedJob::Find(Spec(), overwrite, "7");
    if (!job.ok()) return job.status();
    const absl::StatusOr<FinishedParts> finished = job->AllFinished();
    if (!finished.ok()) return finished.status();
    EXPECT_THAT(finished->missing, IsEmpty());
    return job->Commit(*finished);
  }

  // What is wrong with attempts that do not count.
  std::vector<std::string> Unsound() const {
    const absl::StatusOr<SharedJob> job = SharedJob::Find(Spec(), false, "7");
    if (!job.ok()) return {std::string(job.status().message())};
    return job->AllFinished()->unsound;
  }

  static absl::Status Fill(DatasetWriter& writer, uint64_t part) {
    absl::Status status = writer.Submit(part, [part](RecordBatch& batch) {
      for (int i = 0; i < kPerPart; ++i) batch.Add(RecordOf(part, i));
      if (part == 2) {
        batch.Begin();
        batch.Skip("left out");
      }
      return absl::OkStatus();
    });
    return status.ok() ? writer.CloseShard(part) : status;
  }
  static absl::StatusOr<std::unique_ptr<DatasetWriter>> Begin(const SharedJob& job,
                                                              const std::vector<uint64_t>& parts,
                                                              const JobInput& input) {
    absl::StatusOr<std::unique_ptr<PartStaging>> staging = job.Stage(parts);
    if (!staging.ok()) return staging.status();
    if (absl::Status status = job.Describe(**staging, input); !status.ok()) return status;
    return DatasetWriter::Create(job.job().spec(), {.threads = 2, .only_shards = parts},
                                 *std::move(staging));
  }
  // What a task does.
  static absl::Status Write(const SharedJob& job, const std::vector<uint64_t>& parts,
                            const JobInput& input = InputOf()) {
    absl::StatusOr<std::unique_ptr<DatasetWriter>> writer = Begin(job, parts, input);
    if (!writer.ok()) return writer.status();
    for (const uint64_t part : parts) {
      if (absl::Status status = Fill(**writer, part); !status.ok()) return status;
    }
    return (*writer)->FinishShards({}).status();
  }
  // What a single process writes.
  absl::StatusOr<Manifest> WriteAlone(const std::string& name, bool overwrite = false) const {
    auto writer = DatasetWriter::Create(Spec(name), {.threads = 2, .overwrite = overwrite});
    if (!writer.ok()) return writer.status();
    for (uint64_t part = 0; part < kParts; ++part) {
      if (absl::Status status = Fill(**writer, part); !status.ok()) return status;
    }
    const JobInput input = InputOf();
    Manifest manifest;
    manifest.made_by = input.made_by;
    manifest.notes = input.notes;
    manifest.classes = input.classes;
    manifest.skipped = input.skipped;
    return (*writer)->Finish(std::move(manifest));
  }

  // All files of the folder, without those of jobs.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      const std::string name = fs::relative(entry.path(), folder_.path()).string();
      if (!entry.is_regular_file() || name.find(".jobs") != name.npos) continue;
      files[name] = ReadBytes(entry.path().string());
    }
    return files;
  }
  std::map<std::string, std::string> Alone() const {
    EXPECT_OK(WriteAlone("d@4"));
    std::map<std::string, std::string> files = Files();
    fs::remove_all(folder_.path());
    fs::create_directories(folder_.path());
    return files;
  }

  TestFolder folder_;
};

TEST_F(SharedJobTest, TasksInAnyOrderWriteWhatOneProcessWrites) {
  const std::map<std::string, std::string> alone = Alone();
  ASSERT_OK(Write(*Join(), {1, 3}));
  ASSERT_OK(Write(*Join(), {2}));
  const absl::StatusOr<FinishedParts> finished = Join()->AllFinished();
  ASSERT_OK(finished);
  EXPECT_THAT(finished->missing, ElementsAre(0));
  ASSERT_OK(Write(*Join(), {0}));
  const absl::StatusOr<Manifest> manifest = Commit();
  ASSERT_OK(manifest);
  EXPECT_EQ(manifest->num_records(), kParts * kPerPart);
  EXPECT_EQ(manifest->skipped.count, 3);
  EXPECT_EQ(Files(), alone);
}

TEST_F(SharedJobTest, OnlyTheJobRemainsAndTellsThatItWasCommitted) {
  ASSERT_OK(Write(*Join(), {0, 1, 2, 3}));
  EXPECT_EQ(*Join()->Committed(), std::nullopt);
  ASSERT_OK(Commit());
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(JobFolder())) {
    left.push_back(entry.path().filename());
  }
  EXPECT_THAT(left, ::testing::UnorderedElementsAre("job", "committed"));
  const absl::StatusOr<SharedJob> job = SharedJob::Find(Spec(), false, "7");
  ASSERT_OK(job);
  EXPECT_EQ((*job->Committed())->num_records(), kParts * kPerPart);
  EXPECT_FAILS(Join(), kFailedPrecondition, "the job has been committed; choose another name");
  EXPECT_FAILS(job->Stage({1}), kFailedPrecondition, "the job has been committed");
  ASSERT_OK(WriteAlone("d@4", /*overwrite=*/true));
  EXPECT_EQ((*job->Committed())->num_records(), kParts * kPerPart) << "the same dataset";
  ASSERT_OK(WriteAlone("d@5", /*overwrite=*/true));
  EXPECT_FAILS(job->Committed(), kFailedPrecondition, "its dataset has been replaced since");
  fs::remove(ManifestPath(folder_.path(), "d"));
  EXPECT_FAILS(job->Committed(), kFailedPrecondition, "its dataset has been removed since");
}

TEST_F(SharedJobTest, ACommitThatWasKilledBeforeItSaidSoIsFinished) {
  const std::map<std::string, std::string> alone = Alone();
  ASSERT_OK(Write(*Join(), {0, 1, 2, 3}));
  fs::copy(JobFolder(), folder_ / "aside", fs::copy_options::recursive);
  ASSERT_OK(Commit());
  fs::remove_all(JobFolder());
  fs::rename(folder_ / "aside", JobFolder());
  ASSERT_OK(Commit());
  EXPECT_EQ(Files(), alone);
  EXPECT_TRUE(fs::exists(CommittedPath(JobFolder())));
}

TEST_F(SharedJobTest, TheFirstAttemptByNameCountsOnce) {
  const std::map<std::string, std::string> alone = Alone();
  for (int i = 0; i < 3; ++i) ASSERT_OK(Write(*Join(), {0, 1, 2, 3}));
  ASSERT_OK(Write(*Join(), {2}));
  const absl::StatusOr<FinishedParts> finished = Join()->AllFinished();
  ASSERT_OK(finished);
  ASSERT_EQ(finished->parts.size(), kParts);
  for (const PartMessage& part : finished->parts) {
    for (const auto& entry : fs::directory_iterator(JobFolder())) {
      const std::string other = entry.path().filename().string();
      if (fs::exists(PartBase(entry.path().string(), part.part) + ".message")) {
        EXPECT_LE(part.folder, other);
      }
    }
  }
  ASSERT_OK(Commit());
  EXPECT_EQ(Files(), alone);
}

TEST_F(SharedJobTest, AnAttemptWhoseFilesAreNotThereDoesNotCount) {
  ASSERT_OK(Write(*Join(), {0, 1, 2, 3}));
  ASSERT_OK(Write(*Join(), {1}));
  absl::StatusOr<FinishedParts> finished = Join()->AllFinished();
  ASSERT_OK(finished);
  for (const PartMessage& part : finished->parts) {
    const std::string base = PartBase(JoinPath(JobFolder(), part.folder), part.part);
    if (part.part == 1) fs::resize_file(base + ".shard", part.shard.bytes - 1);
    if (part.part == 2) fs::remove(base + ".index");
    if (part.part == 3) fs::resize_file(base + ".message", 10);
  }
  finished = Join()->AllFinished();
  ASSERT_OK(finished);
  EXPECT_THAT(finished->missing, ElementsAre(2, 3)) << "there is another attempt at 1";
  EXPECT_THAT(finished->unsound,
              ElementsAre(HasSubstr("expected the file of a finished part with"),
                          HasSubstr("the file of a finished part is gone"),
                          HasSubstr("00003.message: not the message of this part")));
}

TEST_F(SharedJobTest, ATaskThatEndsEarlyLeavesItsFinishedParts) {
  const std::map<std::string, std::string> alone = Alone();
  {
    absl::StatusOr<std::unique_ptr<DatasetWriter>> writer = Begin(*Join(), {0, 1, 2}, InputOf());
    ASSERT_OK(writer);
    EXPECT_TRUE((*writer)->is_taken_over(3));
    EXPECT_FALSE((*writer)->is_taken_over(2));
    ASSERT_OK(Fill(**writer, 0));
    ASSERT_OK((*writer)->WaitForAll());
    ASSERT_OK((*writer)->Submit(1, [](RecordBatch&) { return absl::OkStatus(); }));
    EXPECT_THAT(std::string((*writer)->Interrupted().message()),
                HasSubstr("1 of 3 shards are finished and stay in the job"));
  }
  { ASSERT_OK(Begin(*Join(), {1}, InputOf())); }
  std::vector<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(JobFolder())) {
    if (entry.is_regular_file()) left.push_back(entry.path().filename());
  }
  EXPECT_THAT(left, ::testing::UnorderedElementsAre("job", "input", "00000.shard", "00000.index",
                                                    "00000.statistics", "00000.message"));
  EXPECT_THAT(Join()->Finished({0, 1})->missing, ElementsAre(1));
  EXPECT_THAT(Join()->AllFinished()->missing, ElementsAre(1, 2, 3));
  ASSERT_OK(Write(*Join(), {1, 2, 3}));
  ASSERT_OK(Commit());
  EXPECT_EQ(Files(), alone);
}

TEST_F(SharedJobTest, TasksWithOtherOptionsAreRefused) {
  ASSERT_OK(Join());
  EXPECT_FAILS(Join("d@5"), kFailedPrecondition,
               "the job has another option, shards: '4', but this task has '5'");
  EXPECT_FAILS(Join("d@4.gz"), kFailedPrecondition, "suffix: '', but this task has '.gz'");
  EXPECT_FAILS(Join("d@4", {.encode = {.compression = Compression::kGzip}}), kFailedPrecondition,
               "compression: 'none', but this task has 'gzip'");
  EXPECT_FAILS(Join("d@4", {.encode = {.level = 1}}), kFailedPrecondition,
               "level: '6', but this task has '1'");
  EXPECT_FAILS(Join("d@4", {.encode = {.member_bytes = 1}}), kFailedPrecondition, "member_bytes: ");
  EXPECT_FAILS(Join("d@4", {.sync = false}), kFailedPrecondition,
               "sync: 'yes', but this task has 'no'");
  EXPECT_FAILS(SharedJob::Prepare(Spec(), {}, "7", {{"tool", "a test"}, {"seed", "2"}}),
               kFailedPrecondition, "seed: '1', but this task has '2'");
  EXPECT_FAILS(SharedJob::Prepare(Spec(), {}, "7", {{"tool", "a test"}}), kFailedPrecondition,
               "seed: '1', but this task has none");
  EXPECT_OK(Join("d@5", {}, "8"));
}

TEST_F(SharedJobTest, PreparingCreatesNothing) {
  absl::StatusOr<SharedJob> first = SharedJob::Prepare(Spec(), {}, "7", kMadeBy);
  absl::StatusOr<SharedJob> other = SharedJob::Prepare(Spec(), {}, "7", {});
  ASSERT_OK(first);
  ASSERT_OK(other);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  ASSERT_OK(first->Join());
  EXPECT_FAILS(other->Join(), kFailedPrecondition, "seed: '1', but this task has none");
}

TEST_F(SharedJobTest, JobsAreFoundByNameAlone) {
  ASSERT_OK(Join());
  EXPECT_EQ(SharedJob::Find(Spec("d"), false, "7")->job().num_parts(), kParts);
  EXPECT_FAILS(SharedJob::Find(Spec("d@5"), false, "7"), kFailedPrecondition,
               "the job writes d@4, not d@5");
  EXPECT_FAILS(SharedJob::Find(Spec("d@*.gz"), false, "7"), kFailedPrecondition,
               "the job writes d@4, not d@*.gz");
  EXPECT_FAILS(SharedJob::Find(Spec(), false, "8"), kNotFound, "there is no such job");
  for (const std::string& id : {std::string(), std::string(".."), std::string("a/b"),
                                std::string(".new-7"), std::string(65, 'a')}) {
    EXPECT_FAILS(Join("d@4", {}, id), kInvalidArgument, "expected the name of a job");
    EXPECT_FAILS(SharedJob::Find(Spec(), false, id), kInvalidArgument,
                 "expected the name of a job");
  }
  EXPECT_FAILS(Join("d"), kInvalidArgument, "a job needs the number of shards");
}

TEST_F(SharedJobTest, TasksThatDisagreeAboutTheInputAreRefused) {
  const absl::StatusOr<std::unique_ptr<DatasetWriter>> early =
      Begin(*Join(), {3}, InputOf("other"));
  ASSERT_OK(early);
  ASSERT_OK(Write(*Join(), {0, 1}));
  EXPECT_FAILS(Write(*Join(), {2}, InputOf("changed")), kFailedPrecondition,
               "the tasks disagree about the names, sizes or times of the input's files");
  ASSERT_OK(Write(*Join(), {2}));
  // The commit finds tasks that began before any part was finished.
  ASSERT_OK(Fill(**early, 3));
  ASSERT_OK((*early)->FinishShards({}));
  const absl::Status status = Commit().status();
  EXPECT_FAILS(status, kFailedPrecondition, "the tasks disagree about the names, sizes or times");
  EXPECT_THAT(std::string(status.message()), HasSubstr("/00000-"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/00003-"));
  EXPECT_TRUE(Files().empty());
  fs::remove_all((*early)->staging_directory());
  ASSERT_OK(Write(*Join(), {3}));
  ASSERT_OK(Commit());
}

TEST_F(SharedJobTest, DifferencesOfInputsAreNamed) {
  const auto differ = [](const std::function<void(JobInput&)>& change) {
    JobInput other = InputOf();
    change(other);
    EXPECT_EQ(FormatJobInput(*ParseJobInput(FormatJobInput(other))), FormatJobInput(other));
    return DifferenceOf(InputOf(), other);
  };
  EXPECT_EQ(differ([](JobInput&) {}), "");
  EXPECT_EQ(differ([](JobInput& o) { o.made_by["seed"] = "2"; }), "'seed'");
  EXPECT_EQ(differ([](JobInput& o) { o.made_by["more"] = "2"; }), "'more'");
  EXPECT_THAT(differ([](JobInput& o) { o.notes.clear(); }), HasSubstr("notes"));
  EXPECT_THAT(differ([](JobInput& o) { o.classes["label"][1] = "cow"; }), HasSubstr("classes"));
  EXPECT_THAT(differ([](JobInput& o) { o.skipped.Add("x"); }), HasSubstr("broken records"));
  EXPECT_THAT(differ([](JobInput& o) { o.max_skipped = 5; }), HasSubstr("may be broken"));
  EXPECT_THAT(differ([](JobInput& o) { EXPECT_OK(o.schema.AddRecord(RecordOf(1, 3))); }),
              HasSubstr("features"));
}

TEST_F(SharedJobTest, AllTasksTogetherMayLeaveOutOnlySoManyRecords) {
  JobInput input = InputOf();
  input.max_skipped = 0;
  ASSERT_OK(Write(*Join(), {0, 1}, input));
  ASSERT_OK(Write(*Join(), {2, 3}, input));
  EXPECT_FAILS(Commit(), kDataLoss,
               "at least 1 records are broken, and no more than 0 may be left");
  EXPECT_TRUE(Files().empty());
}

TEST_F(SharedJobTest, NothingIsReplacedByMistake) {
  const std::map<std::string, std::string> alone = Alone();
  ASSERT_OK(WriteAlone("d@5"));
  EXPECT_FAILS(Join(), kAlreadyExists, "there is a dataset of this name");
  ASSERT_OK(Write(*Join("d@4", {.overwrite = true}), {0, 1, 2, 3}));
  EXPECT_FAILS(Commit(), kAlreadyExists, "there is a dataset of this name");
  ASSERT_OK(WriteAlone("d@6", /*overwrite=*/true));
  EXPECT_FAILS(Commit(/*overwrite=*/true), kFailedPrecondition,
               "another dataset of this name has been written since the job was created");
  ASSERT_OK(WriteAlone("d@5", /*overwrite=*/true));
  ASSERT_OK(Commit(/*overwrite=*/true));
  EXPECT_EQ(Files(), alone);
}

TEST_F(SharedJobTest, ADatasetThatWasMovedAwayDoesNotHinderACommit) {
  const std::map<std::string, std::string> alone = Alone();
  ASSERT_OK(WriteAlone("d@5"));
  ASSERT_OK(Write(*Join("d@4", {.overwrite = true}), {0, 1, 2, 3}));
  for (const auto& [name, bytes] : Files()) fs::remove(folder_ / name);
  ASSERT_OK(Commit());
  EXPECT_EQ(Files(), alone);
}

TEST_F(SharedJobTest, BrokenDescriptionsAreTold) {
  ASSERT_OK(Write(*Join(), {0, 1, 2, 3}));
  for (const auto& entry : fs::directory_iterator(JobFolder())) {
    if (entry.is_directory()) fs::resize_file(entry.path() / "input", 10);
  }
  EXPECT_THAT(Unsound(), ElementsAre(HasSubstr("the description of its input is missing")));
  for (const auto& entry : fs::directory_iterator(JobFolder())) {
    if (entry.is_directory()) fs::remove(entry.path() / "input");
  }
  EXPECT_THAT(Unsound(), ElementsAre(HasSubstr("the description of its input is missing")));
  fs::resize_file(JobFolder() + "/job", 10);
  EXPECT_FAILS(Join(), kDataLoss, "/job: not the description of a job: ");
  fs::remove(JobFolder() + "/job");
  EXPECT_FAILS(Join(), kFailedPrecondition, "the folder has no description of a job");
  EXPECT_FAILS(Commit(), kNotFound, "there is no such job");
}

TEST_F(SharedJobTest, ManyTasksBeginAJobTogether) {
  std::vector<std::thread> threads;
  for (uint64_t part = 0; part < kParts; ++part) {
    threads.emplace_back([this, part] { EXPECT_OK(Write(*Join(), {part})); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_OK(Commit());
  EXPECT_THAT(ReadBytes(JobFolder() + "/job"), HasSubstr("shardfeed shared job 1"));
  size_t jobs = 0;
  for (const auto& entry : fs::directory_iterator(JobsPath(folder_.path(), "d"))) {
    jobs += entry.exists();
  }
  EXPECT_EQ(jobs, 1) << "nothing of the others is left";
}

TEST_F(SharedJobTest, OldJobsAreCleaned) {
  ASSERT_OK(Write(*Join(), {0}));
  fs::create_directories(JobFolder(HiddenJobName("7")));
  std::vector<std::string> removed;
  std::vector<std::string> kept;
  ASSERT_OK(CleanJobs(folder_.path(), "d", 0, false, &removed, &kept));
  EXPECT_THAT(removed, IsEmpty());
  EXPECT_EQ(kept.size(), 2);
  kept.clear();
  ASSERT_OK(CleanJobs(folder_.path(), "d", std::time(nullptr) + 10, false, &removed, &kept));
  EXPECT_EQ(removed.size(), 2);
  EXPECT_THAT(kept, IsEmpty());
  EXPECT_FALSE(fs::exists(SidecarPath(folder_.path())));
  ASSERT_OK(Write(*Join(), {0, 1, 2, 3}));
  ASSERT_OK(Commit());
  ASSERT_OK(CleanJobs(folder_.path(), "d", 0, false, &removed, &kept));
  EXPECT_THAT(kept, IsEmpty()) << "a job that was committed is not unfinished";
}

TEST(FormatPartsTest, JoinsNeighbors) {
  EXPECT_EQ(FormatParts({}, ", "), "");
  EXPECT_EQ(FormatParts({3}, ", "), "3");
  EXPECT_EQ(FormatParts({3, 7, 8, 9, 11, 12}, ", "), "3, 7-9, 11-12");
  EXPECT_EQ(FormatParts({0, 1, 2}, ","), "0-2");
}

}  // namespace
}  // namespace shardfeed
