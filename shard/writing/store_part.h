// What the tasks of a job (write_job.h) leave in an object store if the dataset is there.
//
// FOLDER is URL/.shardfeed/STEM.jobs/ID, and the object FOLDER/job shows that the job exists. An
// attempt writes FOLDER/NNNNN-ATTEMPT-RANDOM/begun, uploads its shard under the shard's own name,
// where nobody sees it before the commit publishes it, and then writes NNNNN.index,
// NNNNN.statistics and NNNNN.message beside `begun`. The message names the upload, also for
// removing the job, which removes `job` first, while no commit record can be created, and then the
// uploads. A commit creates its record first, and then checks that `job` exists. So one of the two
// gives way.
//
// A job that tasks find by the name NAME (shared_job.h) is such a job, too, and
// URL/.shardfeed/STEM.jobs/NAME/job has its text. FOLDER/input is what the first task found out
// about the input; every attempt has an `input` of its own, too. NAME/committed appears when the
// job has been committed, before the job itself is removed.

#ifndef SHARDFEED_SHARD_WRITING_STORE_PART_H_
#define SHARDFEED_SHARD_WRITING_STORE_PART_H_

#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "net/upload.h"
#include "shard/writing/part_folder.h"

namespace shardfeed {

// An attempt at a part. What it uploaded is removed by the destructor unless its shard is finished.
class StorePart : public PartStaging {
 public:
  // `directory` is the dataset's, and `first` the first part that is attempted. `check` is as that
  // of PartFolder::Create. FailedPrecondition: the job is gone. InvalidArgument: `attempt` is not
  // an IsPlainName. Others: those of UploadGroup::Begin.
  static absl::StatusOr<std::unique_ptr<StorePart>> Create(
      const std::string& directory, const std::string& job_folder, const std::string& job,
      uint64_t first, std::string_view attempt, std::function<absl::Status()> check = {});
  ~StorePart() override;

  absl::StatusOr<std::unique_ptr<StagedShard>> Create(size_t number,
                                                      const std::string& name) override;
  absl::Status ShardFinished(size_t number, const FinishedShard& shard, bool sync) override;
  std::string MessageOf(uint64_t part) const override;
  std::string attempt() const override;

 private:
  StorePart(std::string temporary, std::string directory, std::string folder, std::string job,
            std::function<absl::Status()> check, std::unique_ptr<UploadGroup> group);
  // Writes what belongs to a shard whose upload is finished.
  absl::Status WriteSidecars(uint64_t part, const FinishedShard& shard, const PendingObject& object,
                             std::string* message) const;

  const std::string directory_;
  const std::string folder_;  // folder of the attempt
  const std::string job_;
  const std::function<absl::Status()> check_;
  std::unique_ptr<UploadGroup> group_;
  mutable Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Upload>> uploads_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::string> messages_ ABSL_GUARDED_BY(mutex_);
};

// Makes the job exist.
absl::Status CreateStoreJob(const std::string& job_folder);
// FailedPrecondition: the job is gone. Others: those of Store::ErrorOf.
absl::Status CheckStoreJob(const std::string& job_folder);

// Copies the index of a finished part to the file `index`. DataLoss: the part's objects are gone,
// or not those that the message describes.
absl::Status FetchPartIndex(const std::string& job_folder, const PartMessage& message,
                            const std::string& index);

// Checks that the objects of a finished part, except its upload, are there and as they should be.
// DataLoss: they are not.
absl::Status CheckPartObjects(const std::string& job_folder, const PartMessage& message);

// Removes a job and what its tasks have finished. Tasks that still write fail. OK if there is none.
// Errors: those of WhileNothingIsCommitted and Store::ErrorOf.
absl::Status RemoveStoreJob(const std::string& directory, const std::string& stem,
                            const std::string& id);

// Implements CleanJobs for a dataset in a store. `used` receives the uploads of finished parts of
// the jobs that stay.
absl::Status CleanStoreJobs(const std::string& directory, const std::string& stem,
                            std::time_t before, bool dry_run, std::vector<std::string>* removed,
                            std::vector<std::string>* kept, std::set<std::string>* used);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_WRITING_STORE_PART_H_
