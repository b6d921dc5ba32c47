// The folders of jobs (write_job.h) in the file system: how they are removed while processes may
// still write to them.

#ifndef SHARDFEED_SHARD_WRITING_JOB_FOLDERS_H_
#define SHARDFEED_SHARD_WRITING_JOB_FOLDERS_H_

#include <ctime>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace shardfeed {

// FailedPrecondition: the path of the jobs of a dataset is a symbolic link.
absl::Status CheckIsNoLink(const std::string& jobs);

// Removes the folder `name` among `jobs`, and what a call that was killed has left of it. Tasks
// that still write find no folder of this name any more, so nothing is created in it while it is
// removed. Errors: as ErrnoStatus.
absl::Status RemoveJobFolder(const std::string& jobs, const std::string& name);

// Removes the folders of jobs of a dataset that have not been written to since `before`, and
// appends their paths to `removed`, or only does the latter if `dry_run`. Those of later jobs go to
// `kept`, unless they have been committed.
absl::Status CleanJobs(const std::string& directory, const std::string& stem, std::time_t before,
                       bool dry_run, std::vector<std::string>* removed,
                       std::vector<std::string>* kept);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_WRITING_JOB_FOLDERS_H_
