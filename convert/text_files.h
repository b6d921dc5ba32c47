// The text files that a source reads, which must stay the same from its first pass to the last.

#ifndef SHARDFEED_CONVERT_TEXT_FILES_H_
#define SHARDFEED_CONVERT_TEXT_FILES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "convert/text_reader.h"

namespace shardfeed {

// The calls come in the order Stat, OpenFirst for each file, then any number of OpenAgain. Those
// that are const are thread safe.
class TextFiles {
 public:
  explicit TextFiles(std::vector<std::string> paths) : paths_(std::move(paths)) {}

  size_t size() const { return paths_.size(); }
  const std::string& path(size_t i) const { return paths_[i]; }
  // The sum of the sizes, known after Stat.
  uint64_t num_bytes() const { return num_bytes_; }

  // Notes size and time of each file. NotFound and the like: a file is missing, or is not a regular
  // one (each is read twice).
  absl::Status Stat();

  // Opens file `i` for the first pass, which checks the text. Reading fails with Cancelled once
  // `stop` is asked for, and calls `progress` with the bytes read so far, those of the files before
  // `i` included. `progress` must outlive the reader.
  absl::StatusOr<std::unique_ptr<TextReader>> OpenFirst(
      size_t i, std::stop_token stop, const std::function<void(uint64_t bytes)>& progress) const;

  // Opens file `i` for a later pass.
  absl::StatusOr<std::unique_ptr<TextReader>> OpenAgain(size_t i) const;

  // To be called after a later pass. FailedPrecondition: file `i` is not what it was at Stat.
  absl::Status CheckUnchanged(size_t i) const;
  // What CheckUnchanged fails with.
  absl::Status Changed(size_t i) const;

  // "FILE:LINE: WHAT" as DataLoss; "FILE: WHAT" where `line` is 0.
  absl::Status ErrorAt(size_t i, uint64_t line, std::string_view what) const;

 private:
  struct State {
    uint64_t size = 0;
    int64_t seconds = 0;
    int64_t nanoseconds = 0;
    bool operator==(const State&) const = default;
  };
  static absl::StatusOr<State> StateOf(const std::string& path);

  std::vector<std::string> paths_;
  std::vector<State> states_;
  uint64_t num_bytes_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_TEXT_FILES_H_
