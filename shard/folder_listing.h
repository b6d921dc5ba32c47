// What folders of datasets hold.
//
// All functions are thread safe.

#ifndef SHARDFEED_SHARD_FOLDER_LISTING_H_
#define SHARDFEED_SHARD_FOLDER_LISTING_H_

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

// Lists a folder ("" is the current one), in no order. Pipes, sockets and devices are left out, but
// those that have the name of a shard: who opens it tells what it is. Errors: as ErrnoStatus says.
absl::StatusOr<Folder> ListFolder(const std::string& path);

// The datasets of the folders that were looked at, each as it was before the folder was listed.
using Versions = std::vector<DatasetVersion>;

// The listing of a folder in which every dataset that was committed is in place. `sidecars`, if
// asked for, is that of the hidden folder. Errors: those of ListFolder and FinishCommit.
absl::StatusOr<Folder> ListCommitted(const std::string& path, Versions* seen,
                                     Folder* sidecars = nullptr);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FOLDER_LISTING_H_
