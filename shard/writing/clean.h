// Removes what writers of datasets left behind.

#ifndef SHARDFEED_SHARD_WRITING_CLEAN_H_
#define SHARDFEED_SHARD_WRITING_CLEAN_H_

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

struct CleanOptions {
  // Where the work of a living writer looks like that of a killed one, what is later than this is
  // kept: uploads to a store that began later, and jobs (write_job.h) written to since.
  std::time_t begun_before = 0;
  bool dry_run = false;  // Only look.
};

struct CleanSummary {
  std::vector<std::string> finished;  // stems of datasets whose commit was finished
  // Staging folders, folders of jobs, temporary files of indexes and manifests, and objects whose
  // uploads were removed.
  std::vector<std::string> removed;
  // Objects whose uploads, and folders of jobs whose last change, are too recent.
  std::vector<std::string> kept;
  // Objects whose uploads the store removes by itself in time; it takes no request to do so.
  std::vector<std::string> expiring;
};

// Finishes commits, and removes unfinished uploads and staging folders, what could be resumed
// included. `spec` names a dataset (ParseOutputSpec), or, with a '/' at its end, all datasets of a
// folder. The name of a stream stands for all of its micro-batches, STEM-NNNNNNNN. With `dry_run`,
// the summary says what would be done.
//
// FailedPrecondition: another process is writing a dataset in a folder. NotFound: there is no such
// folder. DataLoss: see Staging::Open and FinishStoreCommit. Others: those of ParseOutputSpec, of
// ErrnoStatus and of Store::ErrorOf.
absl::StatusOr<CleanSummary> CleanDatasets(const std::string& spec, const CleanOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_WRITING_CLEAN_H_
