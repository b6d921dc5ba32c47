// Standard input as a file that can be read more than once.

#ifndef SHARDFEED_CLI_STANDARD_INPUT_H_
#define SHARDFEED_CLI_STANDARD_INPUT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

// Conversions read their input twice. If standard input is a file, it is used in place; a pipe is
// copied to a file without a name, which disappears with the process.
class StandardInput {
 public:
  // The copy is made in `directory`, which is created if it does not exist. `bytes_copied` grows
  // meanwhile.
  //
  // InvalidArgument: standard input is a terminal. Cancelled: `stop` was requested. Others: see
  // ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<StandardInput>> Open(const std::string& directory,
                                                             std::stop_token stop,
                                                             std::atomic<uint64_t>& bytes_copied);
  ~StandardInput();
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

  // Valid as long as this object. Users do not know this path: see WithName.
  const std::string& path() const { return path_; }
  // Returns `text` with the path replaced by "standard input".
  std::string WithName(std::string text) const;

 private:
  explicit StandardInput(int fd);

  int fd_;
  std::string path_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_STANDARD_INPUT_H_
