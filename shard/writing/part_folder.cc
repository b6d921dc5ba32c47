#include "shard/writing/part_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/random_digits.h"
#include "fmt/format.h"
#include "io/bounded_json.h"
#include "io/errno_status.h"
#include "io/file.h"
#include "io/output_file.h"
#include "io/removal.h"
#include "net/open.h"
#include "nlohmann/json.hpp"
#include "shard/commit/store_record.h"
#include "shard/index/index.h"
#include "shard/names/names.h"
#include "shard/statistics/value_statistics.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

constexpr size_t kMaxNameBytes = 64;
constexpr size_t kNumberDigits = 5;
constexpr size_t kRandomDigits = 16;
// Every sketch of as many features as there can be is smaller.
constexpr uint64_t kMaxStatisticsBytes = uint64_t{1} << 30;
// No job has such a name (WriteJob::IsId).
constexpr std::string_view kHiddenJobBeginning = ".hidden-";
// No random id begins so.
constexpr std::string_view kStreamJobBeginning = "0000000000000000";
constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

bool HasNameCharacters(std::string_view text) {
  return text.find_first_not_of(kNameCharacters) == text.npos;
}

std::string Dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Checks that `path` is a regular file of this size.
absl::Status CheckSize(const std::string& path, uint64_t bytes) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return ErrnoStatus(errno, path, "look up");
    return absl::DataLossError(
        fmt::format("{}: the file of a finished part is gone; write the part again", path));
  }
  if (S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) == bytes) {
    return absl::OkStatus();
  }
  return absl::DataLossError(fmt::format(
      "{}: expected the file of a finished part with {} bytes, found {}; write the part again",
      path, bytes, S_ISREG(info.st_mode) ? fmt::format("{} bytes", info.st_size) : "no file"));
}

}  // namespace

absl::Status JobIsGone(const std::string& job_folder) {
  return absl::FailedPreconditionError(
      fmt::format("{}: the folder of the job does not exist: the job has been committed, aborted "
                  "or cleaned, or this machine does not share the folder with the one that "
                  "created the job",
                  job_folder));
}

std::string FormatMessage(const PartMessage& message) {
  nlohmann::json json = {{"job", message.job},
                         {"part", message.part},
                         {"folder", message.folder},
                         {"index_bytes", message.index_bytes},
                         {"statistics", message.has_statistics},
                         {"shard", FinishedToJson(message.shard)}};
  if (message.object) {
    json["object"] = PendingToJson(*message.object);
    json["object"]["name"] = absl::CHexEscape(message.object->path);
    json["object"]["writer"] = message.object->writer;
  }
  if (!message.notes.empty()) json["notes"] = message.notes;
  std::string text = Dump(json);
  json["crc32c"] = fmt::format("{:08x}", Crc32c(text));
  return Dump(json);
}

absl::StatusOr<PartMessage> ParseMessage(std::string_view text) {
  nlohmann::json json;
  if (absl::Status parsed = ParseBoundedJson(text, &json); !parsed.ok()) {
    return absl::InvalidArgumentError(parsed.message());
  }
  JsonMembers members;
  const std::string crc = members.Text(json, "crc32c");
  if (members.status().ok()) {
    nlohmann::json rest = json;
    rest.erase("crc32c");
    if (crc != fmt::format("{:08x}", Crc32c(Dump(rest)))) {
      return absl::InvalidArgumentError("its checksum does not match it");
    }
  }
  PartMessage message;
  message.job = members.Text(json, "job");
  message.part = members.Number(json, "part");
  message.folder = members.Text(json, "folder");
  message.index_bytes = members.Number(json, "index_bytes");
  // An earlier version wrote none.
  if (json.contains("statistics")) message.has_statistics = members.Flag(json, "statistics");
  if (json.contains("notes")) message.notes = members.Texts(json, "notes");
  const nlohmann::json& shard = members.Object(json, "shard");
  bool escaped = true;
  if (json.contains("object")) {
    const nlohmann::json& object = members.Object(json, "object");
    message.object = PendingFromJson(members, object);
    message.object->writer = members.Text(object, "writer");
    escaped = absl::CUnescape(members.Text(object, "name"), &message.object->path);
  }
  if (!members.status().ok()) return absl::InvalidArgumentError(members.status().message());
  if (!escaped) return absl::InvalidArgumentError("the name of its shard is not escaped");
  if (!IsPartFolderName(message.folder)) {
    return absl::InvalidArgumentError("its folder is not that of an attempt");
  }
  std::optional<FinishedShard> finished = FinishedFromJson(shard);
  if (!finished) return absl::InvalidArgumentError("its totals are not those of a shard");
  message.shard = *std::move(finished);
  return message;
}

bool NamesUpload(const PartMessage& message) {
  const std::optional<PendingObject>& object = message.object;
  return object && object->bytes == message.shard.bytes &&
         (object->bytes == 0 || (!object->upload.empty() && !object->parts.empty()));
}

std::optional<uint64_t> PartOfMessage(std::string_view name) {
  if (!name.ends_with(kMessageEnding)) return std::nullopt;
  return ParseNumber(name.substr(0, name.size() - kMessageEnding.size()));
}

std::string PartBase(const std::string& folder, uint64_t part) {
  return fmt::format("{}/{:05}", folder, part);
}

absl::Status CheckPartFiles(const std::string& job_folder, const PartMessage& message) {
  std::error_code error;
  if (!std::filesystem::exists(job_folder, error)) return JobIsGone(job_folder);
  const std::string base = PartBase(JoinPath(job_folder, message.folder), message.part);
  absl::Status status = CheckSize(base + ".shard", message.shard.bytes);
  if (status.ok()) status = CheckSize(base + ".index", message.index_bytes);
  if (!status.ok()) return status;
  return CheckPartIndex(base + ".index", base + ".index", message);
}

absl::Status CheckPartIndex(const std::string& file, const std::string& path,
                            const PartMessage& message) {
  const absl::StatusOr<std::shared_ptr<const ShardIndex>> index = ShardIndex::Open(file);
  if (!index.ok() && !absl::IsDataLoss(index.status())) return index.status();
  if (index.ok() && (*index)->summary().shard_bytes == message.shard.bytes &&
      (*index)->records() == message.shard.records &&
      (*index)->summary().records_digest == message.shard.records_digest) {
    return absl::OkStatus();
  }
  return absl::DataLossError(fmt::format(
      "{}: {}; write the part again", path,
      index.ok() ? "not the index of the shard that its message describes" : "it is damaged"));
}

absl::Status ReadPartStatistics(const std::string& job_folder, PartMessage* message) {
  if (!message->has_statistics) return absl::OkStatus();
  const std::string path = PartBase(JoinPath(job_folder, message->folder), message->part) +
                           std::string(kStatisticsEnding);
  const absl::StatusOr<std::string> code = ReadWhole(path, kMaxStatisticsBytes);
  if (!code.ok() && !absl::IsNotFound(code.status())) return code.status();
  if (code.ok()) {
    std::optional<ValueStatistics> values = ValueStatistics::Parse(*code, message->shard.records);
    if (values) {
      message->shard.values = std::make_shared<const ValueStatistics>(*std::move(values));
      return absl::OkStatus();
    }
  }
  return absl::DataLossError(fmt::format("{}: {}; write the part again", path,
                                         code.ok() ? "it is damaged" : "it is gone"));
}

bool IsRandomJobId(std::string_view name) {
  return name.size() == kJobIdDigits && name.find_first_not_of("0123456789abcdef") == name.npos;
}

bool IsStreamJobId(std::string_view name) {
  return IsRandomJobId(name) && name.starts_with(kStreamJobBeginning);
}

absl::StatusOr<std::string> NewPartFolderName(uint64_t first, std::string_view attempt) {
  if (!IsPlainName(attempt)) {
    return absl::InvalidArgumentError(fmt::format(
        "expected an attempt of at most {} letters, digits, '.', '_' and '-', got '{}'",
        kMaxNameBytes, std::string(absl::CHexEscape({attempt.data(), attempt.size()}))));
  }
  // Not only this attempt may have that name: engines repeat tasks whose results they lost.
  return fmt::format("{:05}-{}{}{}", first, attempt, attempt.empty() ? "" : "-",
                     RandomDigits(kRandomDigits));
}

bool IsPlainName(std::string_view text) {
  return text.size() <= kMaxNameBytes && HasNameCharacters(text);
}

bool IsPartFolderName(std::string_view name) {
  const size_t digits = LeadingDigits(name);
  return digits >= kNumberDigits && digits < name.size() && name[digits] == '-' &&
         HasNameCharacters(name);
}

std::string HiddenJobName(std::string_view id) {
  return fmt::format("{}{}-{}", kHiddenJobBeginning, id, RandomDigits(kRandomDigits));
}

bool IsHiddenJobName(std::string_view name) {
  return name.starts_with(kHiddenJobBeginning) && HasNameCharacters(name);
}

std::string_view IdOfHidden(std::string_view name) {
  const size_t around = kHiddenJobBeginning.size() + 1 + kRandomDigits;
  if (!IsHiddenJobName(name) || name.size() < around) return "";
  const std::string_view id = name.substr(kHiddenJobBeginning.size(), name.size() - around);
  return name[kHiddenJobBeginning.size() + id.size()] == '-' ? id : "";
}

bool IsHiddenNameOf(std::string_view name, std::string_view id) {
  return !id.empty() && IdOfHidden(name) == id;
}

std::string SharedJobPath(std::string_view job_folder) { return JoinPath(job_folder, "job"); }

std::string CommittedPath(std::string_view job_folder) { return JoinPath(job_folder, "committed"); }

PartFolder::PartFolder(std::string path, std::string job, bool leaves_messages,
                       std::function<absl::Status()> check)
    : PartStaging(std::move(path)),
      job_(std::move(job)),
      leaves_messages_(leaves_messages),
      check_(std::move(check)) {}

absl::StatusOr<std::unique_ptr<PartFolder>> PartFolder::Create(
    const std::string& job_folder, const std::string& job, uint64_t first, std::string_view attempt,
    bool leaves_messages, std::function<absl::Status()> check) {
  const absl::StatusOr<std::string> name = NewPartFolderName(first, attempt);
  if (!name.ok()) return name.status();
  const std::string path = JoinPath(job_folder, *name);
  // The job's folder is not created again: without it, nobody would commit this attempt.
  if (::mkdir(path.c_str(), 0777) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return ErrnoStatus(errno, path, "create the folder");
    return JobIsGone(job_folder);
  }
  return std::unique_ptr<PartFolder>(new PartFolder(path, job, leaves_messages, std::move(check)));
}

PartFolder::~PartFolder() {
  if (!keep_) RemoveTree(path_).IgnoreError();
}

absl::StatusOr<std::unique_ptr<StagedShard>> PartFolder::Create(size_t number,
                                                                const std::string& /*name*/) {
  absl::StatusOr<std::unique_ptr<StagedShard>> shard =
      StageInFile(PartBase(path_, number) + ".shard");
  if (absl::IsNotFound(shard.status())) return JobIsGone(std::string(SplitPath(path_).directory));
  return shard;
}

absl::Status PartFolder::ShardFinished(size_t number, const FinishedShard& shard, bool sync) {
  if (check_) {
    if (absl::Status status = check_(); !status.ok()) return status;
  }
  const std::string base = PartBase(path_, number);
  const std::string index = base + ".index";
  struct stat info;
  if (::lstat(index.c_str(), &info) != 0) {
    return errno == ENOENT ? JobIsGone(std::string(SplitPath(path_).directory))
                           : ErrnoStatus(errno, index, "look up");
  }
  std::string text = FormatMessage({.job = job_,
                                    .part = number,
                                    .folder = attempt(),
                                    .index_bytes = static_cast<uint64_t>(info.st_size),
                                    .has_statistics = shard.values != nullptr,
                                    .shard = shard});
  absl::Status status;
  if (shard.values != nullptr) {
    status = WriteFile(base + std::string(kStatisticsEnding), shard.values->Format(/*whole=*/true),
                       sync);
  }
  if (status.ok() && leaves_messages_) {
    status = ReplaceFile(base + std::string(kMessageEnding), text, sync);
  }
  if (status.ok() && sync) {
    status = SyncDirectory(path_);
    if (status.ok()) status = SyncDirectory(std::string(SplitPath(path_).directory));
  }
  if (absl::IsNotFound(status)) return JobIsGone(std::string(SplitPath(path_).directory));
  if (!status.ok()) return status;
  MutexLock lock(mutex_);
  messages_[number] = std::move(text);
  return absl::OkStatus();
}

absl::Status PartStaging::Commit(const CommitPlan& /*plan*/, std::string_view /*manifest*/,
                                 bool /*sync*/, const std::stop_token& /*stop*/) {
  return absl::InternalError(fmt::format("{}: a part is committed by its job", path_));
}

std::string PartFolder::attempt() const { return std::string(SplitPath(path_).name); }

std::string PartFolder::MessageOf(uint64_t part) const {
  MutexLock lock(mutex_);
  const auto found = messages_.find(part);
  return found == messages_.end() ? "" : found->second;
}

}  // namespace shardfeed
