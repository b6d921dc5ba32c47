// Jobs (write_job.h) without a driver, such as the arrays of a batch system: tasks find their job
// by a name that the user chose, and leave their messages in its folder. Whichever task comes first
// creates the job. Each task divides the whole input in the same way, and writes some of the
// shards; once all are finished, one process commits them.
//
// In .shardfeed/STEM.jobs/ID/:
//   job                      the job and its options
//   NNNNN-ATTEMPT-RANDOM/    shards that a task wrote (part_folder.h), with their messages, and
//     input                  what the task found out about the whole input (job_input.h)
//   committed                identifies the dataset, once it is in place; the tasks' folders are
//                            gone
//
// In a store, a folder cannot be removed at once, so that a job that has the name of an earlier one
// could get what that one's tasks or `clean` do late. There, ID has only `job` and `committed`, and
// `job` names a job with a random id (store_part.h), in whose folder is all else: the attempts, and
// `input`, that of the first task.

#ifndef SHARDFEED_SHARD_WRITING_SHARED_JOB_H_
#define SHARDFEED_SHARD_WRITING_SHARED_JOB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/commit/staging.h"
#include "shard/manifest/manifest.h"
#include "shard/writing/job_input.h"
#include "shard/writing/write_job.h"
#include "shardfeed/spec.h"

namespace shardfeed {

// What the tasks of a job have finished.
struct FinishedParts {
  // One attempt at each part that is finished, in their order: the one whose folder comes first.
  std::vector<PartMessage> parts;
  std::vector<uint64_t> missing;
  // What is wrong with attempts that do not count.
  std::vector<std::string> unsound;
};

// A value: copies are the same job. Thread-safe.
class SharedJob {
 public:
  // The job called `id` of the dataset of this name, which must have a number of shards. `made_by`
  // has the options that shards depend on, as the manifest names them. All tasks must have the same
  // of these and the same `options`, except `overwrite`. Creates nothing, so that a task that finds
  // no input leaves no job behind.
  //
  // AlreadyExists: there is a dataset of that name, and `overwrite` is not set.
  // FailedPrecondition: the job has been committed, or has other options. InvalidArgument: `id` is
  // no WriteJob::IsId, or an option is invalid. Others: as ErrnoStatus, and those of
  // Store::ErrorOf.
  static absl::StatusOr<SharedJob> Prepare(const OutputSpec& spec, const WriteJobOptions& options,
                                           std::string id,
                                           std::map<std::string, std::string> made_by);
  // Creates the job of Prepare unless another task has done so. Errors: as Prepare.
  absl::Status Join();
  // The job that Join created. `spec` may lack the number of shards. The job's `overwrite` is that
  // of the caller.
  //
  // NotFound: there is none. FailedPrecondition: it is for another number of shards or another
  // suffix. InvalidArgument: as Join. DataLoss: the description of the job is damaged.
  static absl::StatusOr<SharedJob> Find(const OutputSpec& spec, bool overwrite, std::string id);

  const WriteJob& job() const { return job_; }
  // Where tasks find the job: DIRECTORY/.shardfeed/STEM.jobs/ID.
  std::string NameFolder() const;

  // Begins attempts at these parts, which ascend: DatasetWriter::Create takes the result for a
  // writer of only_shards. `check` is as that of PartFolder::Create, like the errors.
  absl::StatusOr<std::unique_ptr<PartStaging>> Stage(
      const std::vector<uint64_t>& parts, std::function<absl::Status()> check = {}) const;

  // States what the dataset is made of, before any part of this attempt is finished.
  // FailedPrecondition: a task has finished parts of a dataset that is made of something else; in a
  // store, the first task has stated something else.
  absl::Status Describe(const PartStaging& staging, const JobInput& input) const;

  // Begins an attempt at one part, of a dataset made of `input`; PartWriter::Close leaves its
  // message for the commit. Errors: those of Stage and Describe.
  absl::StatusOr<std::unique_ptr<PartWriter>> Open(uint64_t part, const JobInput& input,
                                                   int threads) const;

  // Looks for finished attempts at these parts, which ascend. An attempt does not count if its
  // files or uploads are gone or cut. Errors: as ErrnoStatus, and those of Store::ErrorOf.
  absl::StatusOr<FinishedParts> Finished(const std::vector<uint64_t>& parts) const;
  // The same for all parts.
  absl::StatusOr<FinishedParts> AllFinished() const;

  // The dataset, if an earlier call has committed the job. FailedPrecondition: that dataset has
  // been replaced or removed since.
  absl::StatusOr<std::optional<Manifest>> Committed() const;

  // For a job that has been committed: removes what a commit that was killed may have left.
  void RemoveLeftovers() const;

  // Checks that parts may become a dataset together, and returns all but their shards.
  // FailedPrecondition: tasks disagree about the input. DataLoss: more records were left out than
  // may be, or a description is damaged.
  absl::StatusOr<Manifest> Check(const FinishedParts& finished) const;
  // Makes the parts the dataset of its name, and removes the folders of all tasks. None of
  // `finished` may be missing. Errors: those of Check and WriteJob::Commit.
  absl::StatusOr<Manifest> Commit(const FinishedParts& finished,
                                  const std::stop_token& stop = {}) const;

 private:
  SharedJob(std::string id, WriteJob job, std::map<std::string, std::string> made_by)
      : id_(std::move(id)), job_(std::move(job)), made_by_(std::move(made_by)) {}
  std::string Text() const;
  // The job that is there, of the same name and id as `like`. Nullopt: there is none.
  static absl::StatusOr<std::optional<SharedJob>> Read(const SharedJob& like);
  // Takes over what the creator of the job found, and returns whether the job is there.
  absl::StatusOr<bool> TakeOver();
  absl::Status Publish() const;
  absl::Status PublishInStore() const;
  absl::Status RemoveName() const;
  absl::Status CheckNotCommitted() const;
  std::string DifferenceOf(const SharedJob& other) const;
  // Checks that what two tasks found out about the input, as text, is the same. `path` and `other`
  // say where it is, and `remedy` what to do otherwise.
  static absl::Status CheckAgree(const std::string& path, const std::string& text,
                                 const std::string& other, const std::string& other_text,
                                 std::string_view remedy);
  absl::Status DescribeInStore(const std::string& attempt, const JobInput& input) const;
  absl::Status FindIn(const std::string& folder, const std::vector<uint64_t>& parts,
                      FinishedParts* found) const;
  absl::Status LeaveOutLost(FinishedParts* found) const;
  absl::StatusOr<std::vector<std::string>> TaskFolders() const;
  // The message of a part whose file `name` is in this task's folder. DataLoss: it is not sound.
  absl::StatusOr<PartMessage> ReadMessage(const std::string& folder, const std::string& name,
                                          uint64_t part) const;
  std::string InputPath(const std::string& folder) const;

  std::string id_;
  WriteJob job_;
  std::map<std::string, std::string> made_by_;
};

// Lists part numbers for people and for the command line: "3, 7-9" with the separator ", ".
std::string FormatParts(const std::vector<uint64_t>& parts, std::string_view separator);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_WRITING_SHARED_JOB_H_
