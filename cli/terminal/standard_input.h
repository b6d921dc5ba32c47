// Standard input, or a pipe, as a file that can be read more than once.

#ifndef SHARDFEED_CLI_TERMINAL_STANDARD_INPUT_H_
#define SHARDFEED_CLI_TERMINAL_STANDARD_INPUT_H_

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
  // Whether `source` is one of these: "-", or the path of a pipe, such as a shell makes of
  // <(COMMAND).
  static bool Is(const std::string& source);
  // The copy is made in `directory`, which is created if it does not exist. `bytes_copied` grows
  // meanwhile.
  //
  // InvalidArgument: standard input is a terminal. Cancelled: `stop` was requested. Others: see
  // ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<StandardInput>> Open(const std::string& source,
                                                             const std::string& directory,
                                                             std::stop_token stop,
                                                             std::atomic<uint64_t>& bytes_copied);
  ~StandardInput();
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

  // Valid as long as this object. Users do not know this path: see WithName.
  const std::string& path() const { return path_; }
  // Returns `text` with the path replaced by "standard input" or by that of the pipe.
  std::string WithName(std::string text) const;

 private:
  StandardInput(int fd, std::string name);

  int fd_;
  std::string name_;
  std::string path_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_TERMINAL_STANDARD_INPUT_H_
