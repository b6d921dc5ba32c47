// Which of the datasets that had a name, one after the other, files are of.

#ifndef SHARDFEED_SHARD_DATASET_VERSION_H_
#define SHARDFEED_SHARD_DATASET_VERSION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace shardfeed {

// Tells whether a dataset was replaced since: each has a manifest of its own, which is moved into
// place after the shards, while a commit record stands beside it (staging.h). One with no manifest
// is taken to stay until there is one. Thread safe.
class DatasetVersion {
 public:
  // Of files that are no one dataset: they are never replaced together.
  DatasetVersion() = default;
  // Of a dataset without a manifest.
  DatasetVersion(std::string directory, std::string stem);

  // The one that is there now.
  static DatasetVersion Of(const std::string& directory, const std::string& stem);

  const std::string& directory() const { return directory_; }
  const std::string& stem() const { return stem_; }

  // `so_far` is of a step that used the dataset's files, which may have failed for this reason.
  //
  // Aborted: another dataset has taken the name since, or is about to. A file of the dataset that
  // was opened before an OK is one of this version. Else, and where the step was cancelled,
  // `so_far`.
  absl::Status CheckUnchanged(absl::Status so_far = absl::OkStatus()) const;

 private:
  std::string directory_;
  std::string stem_;                // empty: of no dataset
  std::vector<uint64_t> manifest_;  // what tells one file of that path from another
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_DATASET_VERSION_H_
