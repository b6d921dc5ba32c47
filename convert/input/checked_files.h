// The files that a source reads, which must not change between its first and its last pass.

#ifndef SHARDFEED_CONVERT_INPUT_CHECKED_FILES_H_
#define SHARDFEED_CONVERT_INPUT_CHECKED_FILES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

// Call Stat first. Const functions are thread-safe.
class InputFiles {
 public:
  explicit InputFiles(std::vector<std::string> paths) : paths_(std::move(paths)) {}

  size_t size() const { return paths_.size(); }
  const std::string& path(size_t i) const { return paths_[i]; }
  // Available after Stat: the size of file `i`, of those before it, and of all.
  uint64_t file_bytes(size_t i) const { return states_[i].size; }
  uint64_t bytes_before(size_t i) const;
  uint64_t num_bytes() const { return num_bytes_; }

  // Records the size and time of each file, or the size and version of each object. NotFound and
  // the like: a file is missing or not a regular file (each is read twice).
  absl::Status Stat();

  // Available after Stat. See Source.
  std::string InputFingerprint() const;

  // Call after a later pass. FailedPrecondition: file `i` has changed since Stat.
  absl::Status CheckUnchanged(size_t i) const;
  // The error of CheckUnchanged.
  absl::Status Changed(size_t i) const;

  // Returns DataLoss with "FILE:LINE: WHAT", or "FILE: WHAT" if `line` is 0.
  absl::Status ErrorAt(size_t i, uint64_t line, std::string_view what) const;
  absl::Status Error(size_t i, std::string_view what) const { return ErrorAt(i, 0, what); }

 private:
  struct State {
    uint64_t size = 0;
    int64_t seconds = 0;
    int64_t nanoseconds = 0;
    std::string version;  // version of an object; empty for a file
    bool operator==(const State&) const = default;
  };
  static absl::StatusOr<State> StateOf(const std::string& path);

  std::vector<std::string> paths_;
  std::vector<State> states_;
  uint64_t num_bytes_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_CHECKED_FILES_H_
