// Expansion of the globs that users pass.

#ifndef SHARDFEED_CONVERT_INPUT_PATH_GLOBS_H_
#define SHARDFEED_CONVERT_INPUT_PATH_GLOBS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shardfeed {

// Replaces braces with the paths that they stand for (shard/names/braces.h), and globs (* ? [) with
// the matching files and folders, sorted by their bytes. A path that exists literally is left as it
// is. NotFound: nothing matches a glob. InvalidArgument: see NamesInBraces.
absl::StatusOr<std::vector<std::string>> ExpandGlobs(const std::vector<std::string>& paths);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_PATH_GLOBS_H_
