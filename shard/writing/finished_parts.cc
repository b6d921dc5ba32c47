// What tasks of a shared job have finished.

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/parallel.h"
#include "net/open.h"
#include "net/store.h"
#include "net/upload.h"
#include "shard/commit/store_staging.h"
#include "shard/names/names.h"
#include "shard/spec/folder_listing.h"
#include "shard/writing/shared_job.h"
#include "shard/writing/store_part.h"

namespace shardfeed {
namespace {

// Reads what a task has written. Nullopt: it is missing, too large, or no regular file.
absl::StatusOr<std::optional<std::string>> ReadTaskFile(const std::string& path) {
  struct stat info;
  if (!IsRemote(path)) {
    if (::lstat(path.c_str(), &info) != 0) {
      if (errno == ENOENT) return std::nullopt;
      return ErrnoStatus(errno, path, "look up");
    }
    if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) > kMaxJobFileBytes) {
      return std::nullopt;
    }
  }
  absl::StatusOr<std::string> text = ReadWhole(path, kMaxJobFileBytes);
  if (absl::IsNotFound(text.status()) || absl::IsResourceExhausted(text.status())) {
    return std::nullopt;
  }
  if (!text.ok()) return text.status();
  return *std::move(text);
}

}  // namespace

absl::StatusOr<PartMessage> SharedJob::ReadMessage(const std::string& folder,
                                                   const std::string& name, uint64_t part) const {
  const std::string path = JoinPath(JoinPath(job_.Folder(), folder), name);
  const absl::StatusOr<std::optional<std::string>> text = ReadTaskFile(path);
  if (!text.ok()) return text.status();
  if (!text->has_value()) {
    return absl::DataLossError(fmt::format(
        "{}: not the message of this part: it is missing, too large, or no regular file", path));
  }
  absl::StatusOr<PartMessage> message = ParseMessage(**text);
  if (!message.ok()) {
    return absl::DataLossError(fmt::format("{}: not the message of this part: {}; {}", path,
                                           std::string(message.status().message()), kOtherVersion));
  }
  if (message->job != job_.id_ || message->part != part || message->folder != folder) {
    return absl::DataLossError(fmt::format("{}: not the message of this part", path));
  }
  absl::Status status = job_.is_remote() ? CheckPartObjects(job_.Folder(), *message)
                                         : CheckPartFiles(job_.Folder(), *message);
  if (!status.ok()) return status;
  return message;
}

// Leaves out attempts whose uploads the store has removed, unless a commit has published them,
// which it may have done with a manifest like the one that was there before.
absl::Status SharedJob::LeaveOutLost(FinishedParts* found) const {
  const OutputSpec& spec = job_.spec_;
  const absl::StatusOr<bool> committing = ObjectExists(CommitPath(spec.directory, spec.stem));
  if (!committing.ok()) return committing.status();
  const absl::StatusOr<std::string> now = job_.ManifestIdentity();
  if (!now.ok()) return now.status();
  if (*committing || *now != job_.before_) return absl::OkStatus();
  std::vector<PendingObject> objects;
  for (const PartMessage& message : found->parts) {
    objects.push_back(message.object.value_or(PendingObject()));
    objects.back().path =
        JoinPath(spec.directory, ShardName(spec.stem, message.part, job_.num_parts(), spec.suffix));
  }
  const absl::StatusOr<std::vector<size_t>> lost = LostObjects(objects);
  if (!lost.ok()) return lost.status();
  for (auto it = lost->rbegin(); it != lost->rend(); ++it) {
    const size_t i = *it;
    found->unsound.push_back(fmt::format("{}: its uploaded parts were removed", objects[i].path));
    found->parts.erase(found->parts.begin() + static_cast<ptrdiff_t>(i));
  }
  return absl::OkStatus();
}

// Adds what the folder of a task has of these parts.
absl::Status SharedJob::FindIn(const std::string& folder, const std::vector<uint64_t>& parts,
                               FinishedParts* found) const {
  const std::string path = JoinPath(job_.Folder(), folder);
  absl::StatusOr<Folder> listed = ListFolder(path);
  if (absl::IsNotFound(listed.status())) return absl::OkStatus();  // a failed task removed it
  if (!listed.ok()) return listed.status();
  std::erase_if(listed->files, [&](const std::string& name) {
    const std::optional<uint64_t> part = PartOfMessage(name);
    return !part || !std::binary_search(parts.begin(), parts.end(), *part);
  });
  if (listed->files.empty()) return absl::OkStatus();
  std::sort(listed->files.begin(), listed->files.end());
  const absl::StatusOr<std::optional<std::string>> input = ReadTaskFile(InputPath(folder));
  if (!input.ok()) return input.status();
  if (!ParseJobInput(input->value_or("")).ok()) {
    found->unsound.push_back(
        fmt::format("{}: the description of its input is missing or damaged", path));
    return absl::OkStatus();
  }
  for (const std::string& name : listed->files) {
    absl::StatusOr<PartMessage> message = ReadMessage(folder, name, *PartOfMessage(name));
    if (message.ok()) {
      found->parts.push_back(*std::move(message));
    } else if (absl::IsDataLoss(message.status())) {
      found->unsound.emplace_back(message.status().message());
    } else {
      return message.status();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<FinishedParts> SharedJob::Finished(const std::vector<uint64_t>& parts) const {
  absl::StatusOr<std::vector<std::string>> folders = TaskFolders();
  if (!folders.ok()) return folders.status();
  std::erase_if(*folders, [&](const std::string& folder) {
    const uint64_t first = ParseNumber(folder.substr(0, LeadingDigits(folder))).value_or(0);
    return parts.empty() || first > parts.back();
  });
  std::vector<FinishedParts> in_folders(folders->size());
  absl::Status status = ParallelFor(folders->size(), job_.at_once(), {}, [&](size_t i) {
    return FindIn((*folders)[i], parts, &in_folders[i]);
  });
  if (!status.ok()) return status;
  FinishedParts attempts;
  for (FinishedParts& in_folder : in_folders) {
    std::move(in_folder.parts.begin(), in_folder.parts.end(), std::back_inserter(attempts.parts));
    std::move(in_folder.unsound.begin(), in_folder.unsound.end(),
              std::back_inserter(attempts.unsound));
  }
  if (job_.is_remote()) status = LeaveOutLost(&attempts);
  if (!status.ok()) return status;
  std::map<uint64_t, PartMessage> first;
  for (PartMessage& message : attempts.parts) first.try_emplace(message.part, std::move(message));
  FinishedParts result{.parts = {}, .missing = {}, .unsound = std::move(attempts.unsound)};
  for (const uint64_t part : parts) {
    const auto it = first.find(part);
    if (it == first.end()) {
      result.missing.push_back(part);
    } else {
      result.parts.push_back(std::move(it->second));
    }
  }
  return result;
}

absl::StatusOr<FinishedParts> SharedJob::AllFinished() const {
  std::vector<uint64_t> parts(job_.num_parts());
  std::iota(parts.begin(), parts.end(), uint64_t{0});
  return Finished(parts);
}

}  // namespace shardfeed
