// A cache of open files for random reads from many threads, which bounds the number of open files.

#ifndef SHARDFEED_CONVERT_INPUT_OPEN_FILE_CACHE_H_
#define SHARDFEED_CONVERT_INPUT_OPEN_FILE_CACHE_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "io/file.h"

namespace shardfeed {

// Thread-safe.
class FileCache {
 public:
  explicit FileCache(size_t max_open = 128) : max_open_(max_open) {}

  // Returns the file at `path`, opened if necessary. Errors: those of File::Open.
  absl::StatusOr<std::shared_ptr<const File>> Get(const std::string& path);

 private:
  const size_t max_open_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<const File>> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_OPEN_FILE_CACHE_H_
