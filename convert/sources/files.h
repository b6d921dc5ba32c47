// Files of any kind: one record per file.
//
//   bytes  bytes  the unchanged content of the file
//   name   bytes  its path below SOURCE, or the path as given if SOURCE is a file
//
// Names that start with a dot are skipped. Links are followed, except into a folder that contains
// the link.

#ifndef SHARDFEED_CONVERT_SOURCES_FILES_H_
#define SHARDFEED_CONVERT_SOURCES_FILES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/items/source.h"

namespace shardfeed {

// Delivers the files of each folder sorted by the bytes of their names, then those of its
// subfolders. `paths` are folders or files. An item's bytes are a path.
//
// InvalidArgument: no paths. DataLoss: no files at all, or a file above 2 GiB. FailedPrecondition:
// files were added or removed since Scan. NotFound and the like: a file cannot be read.
absl::StatusOr<std::unique_ptr<Source>> MakeFilesSource(std::vector<std::string> paths);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_FILES_H_
