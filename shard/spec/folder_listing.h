// Lists the folders of datasets.
//
// All functions are thread-safe.

#ifndef SHARDFEED_SHARD_SPEC_FOLDER_LISTING_H_
#define SHARDFEED_SHARD_SPEC_FOLDER_LISTING_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardfeed/spec.h"

namespace shardfeed {

struct Folder {
  std::vector<std::string> files;
  std::vector<std::string> folders;

  bool HasFile(std::string_view name) const {
    return std::find(files.begin(), files.end(), name) != files.end();
  }
  bool HasFolder(std::string_view name) const {
    return std::find(folders.begin(), folders.end(), name) != folders.end();
  }
};

// Lists a folder ("" is the current one), in no particular order. Leaves out pipes, sockets and
// devices, except those named like a shard, so that opening them reports what they are. Errors: as
// ErrnoStatus.
absl::StatusOr<Folder> ListFolder(const std::string& path);

// The versions of the datasets in the listed folders, each taken before the listing.
using Versions = std::vector<DatasetVersion>;

// Moves all committed datasets of the folder into place and then lists it. `sidecars`, unless null,
// receives the listing of the hidden folder. Errors: those of ListFolder and FinishCommit.
absl::StatusOr<Folder> ListCommitted(const std::string& path, Versions* seen,
                                     Folder* sidecars = nullptr);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SPEC_FOLDER_LISTING_H_
