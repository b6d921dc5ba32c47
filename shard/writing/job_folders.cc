#include "shard/writing/job_folders.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/folder.h"
#include "io/output_file.h"
#include "io/removal.h"
#include "shard/names/names.h"
#include "shard/spec/folder_listing.h"
#include "shard/writing/write_job.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

// The latest change of a folder or of anything in it; 0 if it does not exist.
absl::StatusOr<std::time_t> LatestChange(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return 0;
    return ErrnoStatus(errno, path, "find the age");
  }
  std::time_t latest = info.st_mtime;
  if (!S_ISDIR(info.st_mode)) return latest;
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(path);
  if (absl::IsNotFound(names.status())) return latest;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    absl::StatusOr<std::time_t> inner = LatestChange(JoinPath(path, name));
    if (!inner.ok()) return inner;
    latest = std::max(latest, *inner);
  }
  return latest;
}

// Removes a hidden folder, unless the task that makes it gives it the name of a job meanwhile. It
// gets another name first: only one of both renames succeeds, so that no job loses its files.
// A process that looked the folder up before may still create something in it.
absl::Status RemoveHidden(const std::string& jobs, const std::string& name) {
  const std::string path = JoinPath(jobs, HiddenJobName(IdOfHidden(name)));
  absl::Status status = MoveFile(JoinPath(jobs, name), path);
  if (absl::IsNotFound(status)) return absl::OkStatus();
  return status.ok() ? RemoveTree(path) : status;
}

}  // namespace

absl::Status CheckIsNoLink(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: expected the folder of jobs, found a symbolic link; remove it", path));
}

absl::Status RemoveJobFolder(const std::string& jobs, const std::string& name) {
  if (IsHiddenJobName(name)) return RemoveHidden(jobs, name);
  absl::Status status = MoveFile(JoinPath(jobs, name), JoinPath(jobs, HiddenJobName(name)));
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  const absl::StatusOr<Folder> listed = ListFolder(jobs);
  if (absl::IsNotFound(listed.status())) return absl::OkStatus();
  if (!listed.ok()) return listed.status();
  for (const std::string& folder : listed->folders) {
    if (!IsHiddenNameOf(folder, name)) continue;
    if (status = RemoveHidden(jobs, folder); !status.ok()) return status;
  }
  return absl::OkStatus();
}

namespace {

// Whether a folder among the jobs is one: no other folder is removed.
bool IsJob(const std::string& path, std::string_view name) {
  if (IsHiddenJobName(name)) return true;
  if (!WriteJob::IsId(name)) return false;
  std::error_code error;
  return IsRandomJobId(name) || fs::exists(SharedJobPath(path), error) ||
         fs::exists(CommittedPath(path), error);
}

}  // namespace

absl::Status CleanJobs(const std::string& directory, const std::string& stem, std::time_t before,
                       bool dry_run, std::vector<std::string>* removed,
                       std::vector<std::string>* kept) {
  const std::string jobs = JobsPath(directory, stem);
  if (absl::Status status = CheckIsNoLink(jobs); !status.ok()) return status;
  const absl::StatusOr<Folder> listed = ListFolder(jobs);
  if (absl::IsNotFound(listed.status())) return absl::OkStatus();
  if (!listed.ok()) return listed.status();
  for (const std::string& id : listed->folders) {
    const std::string path = JoinPath(jobs, id);
    if (!IsJob(path, id)) continue;  // not ours
    const absl::StatusOr<std::time_t> changed = LatestChange(path);
    if (!changed.ok()) return changed.status();
    if (*changed >= before) {
      // What remains of a job that was committed is nothing unfinished.
      std::error_code error;
      if (!fs::exists(CommittedPath(path), error)) kept->push_back(path);
      continue;
    }
    removed->push_back(path);
    if (dry_run) continue;
    if (absl::Status status = RemoveJobFolder(jobs, id); !status.ok()) return status;
  }
  if (!dry_run) {
    ::rmdir(jobs.c_str());
    ::rmdir(SidecarPath(directory).c_str());
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
