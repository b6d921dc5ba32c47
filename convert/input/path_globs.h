// Expansion of the globs that users pass.

#ifndef SHARDFEED_CONVERT_INPUT_PATH_GLOBS_H_
#define SHARDFEED_CONVERT_INPUT_PATH_GLOBS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shardfeed {

// Replaces globs (* ? [) with the matching files and folders, sorted by their bytes. A path that
// exists literally is not treated as a glob. NotFound: nothing matches a glob.
absl::StatusOr<std::vector<std::string>> ExpandGlobs(const std::vector<std::string>& paths);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_PATH_GLOBS_H_
