#include "convert/input/path_globs.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "shard/names/braces.h"

namespace shardfeed {

absl::StatusOr<std::vector<std::string>> ExpandGlobs(const std::vector<std::string>& paths) {
  std::vector<std::string> expanded;
  for (const std::string& path : paths) {
    absl::StatusOr<std::vector<std::string>> names = NamesInBraces(path);
    if (names.ok() && !names->empty()) names = ExpandGlobs(*names);
    if (!names.ok()) return names.status();
    if (!names->empty()) {
      expanded.insert(expanded.end(), names->begin(), names->end());
      continue;
    }
    struct stat stat;
    if (path.find_first_of("*?[") == path.npos || ::lstat(path.c_str(), &stat) == 0) {
      expanded.push_back(path);
      continue;
    }
    glob_t found{};
    // glob is unsafe in threads only where it looks up users, for a tilde.
    const int result =
        ::glob(path.c_str(), GLOB_NOSORT, nullptr, &found);  // NOLINT(concurrency-mt-unsafe)
    const size_t first = expanded.size();
    for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
      expanded.emplace_back(found.gl_pathv[i]);
    }
    ::globfree(&found);
    if (result == GLOB_NOSPACE) return absl::ResourceExhaustedError("out of memory");
    if (expanded.size() == first) {
      return absl::NotFoundError(fmt::format("{}: no file matches", path));
    }
    std::sort(expanded.begin() + static_cast<ptrdiff_t>(first), expanded.end());
  }
  return expanded;
}

}  // namespace shardfeed
