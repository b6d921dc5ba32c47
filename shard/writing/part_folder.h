// The folders in which processes write shards of a job (write_job.h), and the messages that report
// finished shards to whoever commits the job.
//
// DIRECTORY/.shardfeed/STEM.jobs/ID/NNNNN-ATTEMPT-RANDOM/ has attempts at one part or at several,
// of which NNNNN is the first: for each part, its shard, its index and the statistics of its
// values. No two attempts share a folder.

#ifndef SHARDFEED_SHARD_WRITING_PART_FOLDER_H_
#define SHARDFEED_SHARD_WRITING_PART_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "net/upload.h"
#include "shard/commit/staging.h"
#include "shard/writing/finished_shards.h"

namespace shardfeed {

inline constexpr std::string_view kMessageEnding = ".message";
inline constexpr std::string_view kStatisticsEnding = ".statistics";
// What a task of a shared job found out about the input, in the folder of its attempts.
inline constexpr std::string_view kInputName = "input";
// What tasks leave beside shards and indexes is smaller.
inline constexpr uint64_t kMaxJobFileBytes = 64 << 20;

// What errors about a text that another process of a job has written say of a reason and a remedy.
inline constexpr std::string_view kOtherVersion =
    "if nothing has changed it, another version of shardfeed has written it; use the same version "
    "on all machines";

// What a message says. Its text is JSON without line feeds (docs/jobs.md).
struct PartMessage {
  std::string job;
  uint64_t part = 0;
  std::string folder;  // name of the attempt's folder
  uint64_t index_bytes = 0;
  bool has_statistics = false;  // in a file beside the shard
  FinishedShard shard;
  // In a store: the upload of the shard, whose path is the shard's name.
  std::optional<PendingObject> object;
  // What users should know about the records, for the manifest.
  std::vector<std::string> notes = {};
};

std::string FormatMessage(const PartMessage& message);
// InvalidArgument: `text` is not a message; the error says what is wrong with it.
absl::StatusOr<PartMessage> ParseMessage(std::string_view text);

// Whether a message from a store names the upload of its shard.
bool NamesUpload(const PartMessage& message);

// Returns the number of the part of which the file or object `name` is the message. Nullopt: none.
std::optional<uint64_t> PartOfMessage(std::string_view name);

// The path of the shard of a part, or of its index, without the ending.
std::string PartBase(const std::string& folder, uint64_t part);
// Reads the statistics of a part that has them. DataLoss: they are gone or damaged.
absl::Status ReadPartStatistics(const std::string& job_folder, PartMessage* message);
// Checks that the files of a part exist and have their sizes. `job_folder` is the folder of the
// job. DataLoss: a file is gone, or has another size. FailedPrecondition: the whole job is gone.
absl::Status CheckPartFiles(const std::string& job_folder, const PartMessage& message);

// Checks that `index`, a file, is the index of the part's shard. Errors name it `path`.
absl::Status CheckPartIndex(const std::string& index, const std::string& path,
                            const PartMessage& message);

// The digits of a job's random id, and whether a name is one.
inline constexpr size_t kJobIdDigits = 32;
bool IsRandomJobId(std::string_view name);
// Whether such an id is that of a micro-batch of a stream (python/pyspark_shardfeed/streaming.py).
bool IsStreamJobId(std::string_view name);
// A name for the folder of an attempt. InvalidArgument: `attempt` is not a plain name.
absl::StatusOr<std::string> NewPartFolderName(uint64_t first, std::string_view attempt);
// Whether `text` has at most 64 characters, which are letters, digits, '.', '_' and '-'.
bool IsPlainName(std::string_view text);
// Whether this is a name of a folder of attempts.
bool IsPartFolderName(std::string_view name);
// What a task or a commit says that finds no folder of its job any more.
absl::Status JobIsGone(const std::string& job_folder);
// A name for the folder of a job that is being created or removed, and whether `name` is one.
std::string HiddenJobName(std::string_view id);
bool IsHiddenJobName(std::string_view name);
// Returns the id that HiddenJobName was given. Empty: there is none in the name.
std::string_view IdOfHidden(std::string_view name);
// Whether `name` is such a name for the job `id`.
bool IsHiddenNameOf(std::string_view name, std::string_view id);
// The description of a job that tasks share, in its folder.
std::string SharedJobPath(std::string_view job_folder);
// The file in the folder of a job that says that it was committed.
std::string CommittedPath(std::string_view job_folder);

// Where attempts at parts of a job write.
class PartStaging : public Staging {
 public:
  // Always fails: the job commits its parts.
  absl::Status Commit(const CommitPlan& plan, std::string_view manifest, bool sync,
                      const std::stop_token& stop) final;
  // The message for a part that is finished; empty if it is not.
  virtual std::string MessageOf(uint64_t part) const = 0;
  // The name of the folder of these attempts, in that of the job.
  virtual std::string attempt() const = 0;

 protected:
  using Staging::Staging;
};

// The folder of attempts at parts of a job. Removed by the destructor unless it is to be kept.
class PartFolder : public PartStaging {
 public:
  // Creates the folder in that of the job, whose name is `job`. If `leaves_messages`, the message
  // for each part is also written to NNNNN.message beside the part's shard. `check`, if any, is
  // called before a part counts as finished, and an error of it is one of the part.
  //
  // InvalidArgument: `attempt` is not a plain name. FailedPrecondition: the job's folder does not
  // exist. Others: as ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<PartFolder>> Create(const std::string& job_folder,
                                                            const std::string& job, uint64_t first,
                                                            std::string_view attempt,
                                                            bool leaves_messages,
                                                            std::function<absl::Status()> check);
  ~PartFolder() override;

  void Keep(bool keep) override { keep_ = keep; }
  absl::StatusOr<std::unique_ptr<StagedShard>> Create(size_t number,
                                                      const std::string& name) override;
  absl::Status ShardFinished(size_t number, const FinishedShard& shard, bool sync) override;
  std::string MessageOf(uint64_t part) const override;
  std::string attempt() const override;

 private:
  PartFolder(std::string path, std::string job, bool leaves_messages,
             std::function<absl::Status()> check);

  const std::string job_;
  const bool leaves_messages_;
  const std::function<absl::Status()> check_;
  bool keep_ = false;
  mutable Mutex mutex_;
  std::map<uint64_t, std::string> messages_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_WRITING_PART_FOLDER_H_
