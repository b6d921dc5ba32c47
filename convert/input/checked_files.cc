#include "convert/input/checked_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "convert/input/fingerprint.h"
#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/parallel.h"
#include "net/open.h"
#include "net/store.h"

namespace shardfeed {
namespace {

constexpr int kLookedUpAtOnce = 32;  // objects in stores

}  // namespace

absl::StatusOr<InputFiles::State> InputFiles::StateOf(const std::string& path) {
  if (IsRemote(path)) {
    absl::StatusOr<ObjectInfo> info = StatObject(path);
    if (!info.ok()) return info.status();
    State state;
    state.size = info->size;
    state.version = std::move(info->version);
    return state;
  }
  struct stat stat;
  if (::stat(path.c_str(), &stat) != 0) return ErrnoStatus(errno, path, "open");
  if (S_ISDIR(stat.st_mode)) {
    return absl::FailedPreconditionError(
        fmt::format("{0}: it is a folder; name the files in it, as in '{0}{1}*'", path,
                    path.ends_with('/') ? "" : "/"));
  }
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

std::string InputFiles::InputFingerprint() const {
  Fingerprint all;
  for (size_t i = 0; i < paths_.size(); ++i) {
    all.Add(paths_[i]);
    all.Add(states_[i].size);
    all.Add(static_cast<uint64_t>(states_[i].seconds));
    all.Add(static_cast<uint64_t>(states_[i].nanoseconds));
    if (!states_[i].version.empty()) all.Add(states_[i].version);
  }
  return all.Hex();
}

uint64_t InputFiles::bytes_before(size_t i) const {
  uint64_t before = 0;
  for (size_t earlier = 0; earlier < i; ++earlier) before += states_[earlier].size;
  return before;
}

absl::Status InputFiles::Stat() {
  states_.assign(paths_.size(), State());
  num_bytes_ = 0;
  const bool remote = std::any_of(paths_.begin(), paths_.end(), IsRemote);
  absl::Status status = ParallelFor(paths_.size(), remote ? kLookedUpAtOnce : 1, {},
                                    [this](size_t i) -> absl::Status {
                                      absl::StatusOr<State> state = StateOf(paths_[i]);
                                      if (!state.ok()) return state.status();
                                      states_[i] = *std::move(state);
                                      return absl::OkStatus();
                                    });
  for (const State& state : states_) num_bytes_ += state.size;
  return status;
}

absl::Status InputFiles::CheckUnchanged(size_t i) const {
  absl::StatusOr<State> state = StateOf(paths_[i]);
  if (!state.ok()) return state.status();
  return *state == states_[i] ? absl::OkStatus() : Changed(i);
}

absl::Status InputFiles::Changed(size_t i) const {
  return absl::FailedPreconditionError(
      fmt::format("{}: changed while it was being read; run again once it is complete", paths_[i]));
}

absl::Status InputFiles::ErrorAt(size_t i, uint64_t line, std::string_view what) const {
  return absl::DataLossError(line == 0 ? fmt::format("{}: {}", paths_[i], what)
                                       : fmt::format("{}:{}: {}", paths_[i], line, what));
}

}  // namespace shardfeed
