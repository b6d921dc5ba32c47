// Which files a user means.

#ifndef SHARDFEED_CONVERT_INPUT_PATH_GLOBS_H_
#define SHARDFEED_CONVERT_INPUT_PATH_GLOBS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shardfeed {

// Replaces globs (* ? [) by the files and folders that fit, sorted by their bytes. A name that is
// there as it is written is taken as it is. NotFound: nothing fits a glob.
absl::StatusOr<std::vector<std::string>> ExpandGlobs(const std::vector<std::string>& paths);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_PATH_GLOBS_H_
