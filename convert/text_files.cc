#include "convert/text_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "io/errno_status.h"

namespace shardfeed {

absl::StatusOr<TextFiles::State> TextFiles::StateOf(const std::string& path) {
  struct stat stat;
  if (::stat(path.c_str(), &stat) != 0) return ErrnoStatus(errno, path, "open");
  if (S_ISDIR(stat.st_mode)) return ErrnoStatus(EISDIR, path, "read");
  if (!S_ISREG(stat.st_mode)) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: not a regular file; it is read twice, so write the data to a file first", path));
  }
  State state;
  state.size = stat.st_size;
  state.seconds = stat.st_mtim.tv_sec;
  state.nanoseconds = stat.st_mtim.tv_nsec;
  return state;
}

absl::Status TextFiles::Stat() {
  states_.clear();
  num_bytes_ = 0;
  for (const std::string& path : paths_) {
    absl::StatusOr<State> state = StateOf(path);
    if (!state.ok()) return state.status();
    num_bytes_ += state->size;
    states_.push_back(*state);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TextReader>> TextFiles::OpenFirst(
    size_t i, std::stop_token stop, const std::function<void(uint64_t bytes)>& progress) const {
  uint64_t before = 0;
  for (size_t earlier = 0; earlier < i; ++earlier) before += states_[earlier].size;
  TextReaderOptions options;
  options.on_read = [stop = std::move(stop), &progress, before](uint64_t offset) -> absl::Status {
    if (stop.stop_requested()) return absl::CancelledError("interrupted");
    if (progress) progress(before + offset);
    return absl::OkStatus();
  };
  return TextReader::Open(paths_[i], std::move(options));
}

absl::StatusOr<std::unique_ptr<TextReader>> TextFiles::OpenAgain(size_t i) const {
  TextReaderOptions options;
  options.check_text = false;
  return TextReader::Open(paths_[i], std::move(options));
}

absl::Status TextFiles::CheckUnchanged(size_t i) const {
  absl::StatusOr<State> state = StateOf(paths_[i]);
  if (!state.ok()) return state.status();
  return *state == states_[i] ? absl::OkStatus() : Changed(i);
}

absl::Status TextFiles::Changed(size_t i) const {
  return absl::FailedPreconditionError(
      fmt::format("{}: changed while it was being read; run again once it is complete", paths_[i]));
}

absl::Status TextFiles::ErrorAt(size_t i, uint64_t line, std::string_view what) const {
  return absl::DataLossError(line == 0 ? fmt::format("{}: {}", paths_[i], what)
                                       : fmt::format("{}:{}: {}", paths_[i], line, what));
}

}  // namespace shardfeed
