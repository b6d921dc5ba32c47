#include "cli/terminal/standard_input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "convert/input/path_kind.h"
#include "fmt/format.h"
#include "io/errno_status.h"

namespace shardfeed {
namespace {

constexpr size_t kCopyBytes = 1 << 20;

// Creates a file in `directory` and removes its name.
absl::StatusOr<int> NamelessFile(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return ErrnoStatus(error.value(), directory, "create the folder");
  std::string path = directory + "/.standard-input.XXXXXX";
  const int fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, path, "create");
  ::unlink(path.c_str());
  return fd;
}

absl::Status CopyPipe(int from, const std::string& name, int to, std::stop_token stop,
                      std::atomic<uint64_t>& bytes_copied) {
  std::vector<char> buffer(kCopyBytes);
  while (true) {
    // The pipe may be silent for long; an interrupt should not wait for it.
    pollfd ready{from, POLLIN, 0};
    const int polled = ::poll(&ready, 1, 200);
    if (stop.stop_requested()) return absl::CancelledError("interrupted; nothing was kept");
    if (polled == 0 || (polled < 0 && errno == EINTR)) continue;
    const ssize_t n = ::read(from, buffer.data(), buffer.size());
    if (n == 0) return absl::OkStatus();
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return ErrnoStatus(errno, name, "read");
    for (ssize_t done = 0; done < n;) {
      const ssize_t written = ::write(to, buffer.data() + done, n - done);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoStatus(errno, name, "copy it to a temporary file");
      done += written;
    }
    bytes_copied += n;
  }
}

}  // namespace

StandardInput::StandardInput(int fd, std::string name)
    : fd_(fd), name_(std::move(name)), path_(fmt::format("/proc/self/fd/{}", fd)) {}

bool StandardInput::Is(const std::string& source) { return source == "-" || IsPipe(source); }

absl::StatusOr<std::unique_ptr<StandardInput>> StandardInput::Open(
    const std::string& source, const std::string& directory, std::stop_token stop,
    std::atomic<uint64_t>& bytes_copied) {
  const bool is_pipe = source != "-";
  const std::string name = is_pipe ? source : "standard input";
  int from = STDIN_FILENO;
  if (is_pipe) {
    // Opened without waiting for a writer: that is left to poll, which can be interrupted.
    from = ::open(source.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (from < 0) return ErrnoStatus(errno, name, "open");
  } else if (::isatty(STDIN_FILENO) != 0) {
    return absl::InvalidArgumentError(
        "standard input is a terminal; pipe the data in, or name a file");
  }
  const absl::Cleanup close_pipe = [&] {
    if (is_pipe) ::close(from);
  };
  struct stat stat;
  if (!is_pipe && ::fstat(STDIN_FILENO, &stat) == 0 && S_ISREG(stat.st_mode) &&
      ::lseek(STDIN_FILENO, 0, SEEK_CUR) == 0) {
    return std::unique_ptr<StandardInput>(new StandardInput(::dup(STDIN_FILENO), name));
  }
  absl::StatusOr<int> copy = NamelessFile(directory.empty() ? "." : directory);
  if (!copy.ok()) return copy.status();
  std::unique_ptr<StandardInput> input(new StandardInput(*copy, name));
  absl::Status status = CopyPipe(from, name, *copy, stop, bytes_copied);
  if (!status.ok()) return status;
  return input;
}

StandardInput::~StandardInput() { ::close(fd_); }

std::string StandardInput::WithName(std::string text) const {
  for (size_t at = 0; (at = text.find(path_, at)) != text.npos;) {
    const size_t end = at + path_.size();
    // Another descriptor may begin with the same digits.
    const bool is_other = end < text.size() && text[end] >= '0' && text[end] <= '9';
    if (!is_other) text.replace(at, path_.size(), name_);
    at += is_other ? path_.size() : name_.size();
  }
  return text;
}

}  // namespace shardfeed
