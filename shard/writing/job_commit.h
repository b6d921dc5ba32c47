// The commit of a job that tasks share by its name, in one call: what the command and the other
// front ends do.

#ifndef SHARDFEED_SHARD_WRITING_JOB_COMMIT_H_
#define SHARDFEED_SHARD_WRITING_JOB_COMMIT_H_

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "shard/manifest/manifest.h"
#include "shardfeed/spec.h"

namespace shardfeed {

struct JobCommit {
  Manifest manifest;
  bool earlier = false;  // an earlier call has committed the job
};

// Makes the shards that the tasks of the job have written the dataset of this name. `spec` may lack
// the number of shards. `overwrite`: replaces a dataset of that name. With `dry_run`, changes
// nothing, and returns the manifest as it would be.
//
// FailedPrecondition: shards are missing, or see SharedJob. NotFound: there is no such job. Others:
// those of SharedJob::Find, Committed and Commit.
absl::StatusOr<JobCommit> CommitSharedJob(const OutputSpec& spec, std::string id, bool overwrite,
                                          bool dry_run, const std::stop_token& stop = {});

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_WRITING_JOB_COMMIT_H_
