#include "io/removal.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "io/errno_status.h"
#include "io/parallel.h"

namespace shardfeed {

int RemovalThreads(size_t count) {
  constexpr size_t kFilesPerThread = 64;
  constexpr size_t kMost = 8;
  return static_cast<int>(std::clamp<size_t>(count / kFilesPerThread, 1, kMost));
}

absl::Status RemoveAll(const std::vector<std::string>& paths) {
  std::vector<std::error_code> errors(paths.size());
  absl::Status status = ParallelFor(paths.size(), RemovalThreads(paths.size()), {}, [&](size_t i) {
    std::filesystem::remove_all(paths[i], errors[i]);
    return absl::OkStatus();
  });
  for (size_t i = 0; i < paths.size(); ++i) {
    if (errors[i]) return ErrnoStatus(errors[i].value(), paths[i], "remove");
  }
  return status;
}

}  // namespace shardfeed
