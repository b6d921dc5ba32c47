#include "shard/write_job.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
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
#include "net/open.h"
#include "nlohmann/json.hpp"
#include "shard/finished_shards.h"
#include "shard/folder_listing.h"
#include "shard/names.h"
#include "shard/staging.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

constexpr char kJobFormat[] = "shardfeed job 1";
constexpr size_t kMaxAttemptBytes = 64;
constexpr size_t kIdDigits = 32;
constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 32;
constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

std::string Dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool IsId(std::string_view text) {
  return text.size() == kIdDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// Identifies the manifest of a dataset by its content; empty if there is none.
absl::StatusOr<std::string> ManifestIdentity(const std::string& directory,
                                             const std::string& stem) {
  const absl::StatusOr<std::string> text =
      ReadFile(ManifestPath(directory, stem), kMaxManifestBytes);
  if (absl::IsNotFound(text.status())) return "";
  if (!text.ok()) return text.status();
  return fmt::format("{} {:08x}", text->size(), Crc32c(*text));
}

// The files of one attempt at a part, which a commit takes.
class PartFolder : public Staging {
 public:
  explicit PartFolder(std::string path) : Staging(std::move(path)) {}
  ~PartFolder() override {
    std::error_code ignored;
    if (!keep_) fs::remove_all(path_, ignored);
  }

  void Keep(bool keep) override { keep_ = keep; }
  absl::StatusOr<std::unique_ptr<StagedShard>> Create(size_t number,
                                                      const std::string& /*name*/) override {
    return StageInFile(fmt::format("{}/{:05}.shard", path_, number));
  }
  absl::Status Commit(const CommitPlan& /*plan*/, std::string_view /*manifest*/, bool /*sync*/,
                      const std::stop_token& /*stop*/) override {
    return absl::InternalError(fmt::format("{}: a part is committed by its job", path_));
  }

 private:
  bool keep_ = false;
};

// What a message says.
struct Part {
  std::string folder;
  uint64_t index_bytes = 0;
  FinishedShard shard;
};

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

// A second name for a file: the job keeps its own until the dataset is committed. File systems
// without hard links get a copy.
absl::Status LinkOrCopy(const std::string& from, const std::string& to, bool sync) {
  if (::link(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  if (errno == ENOSPC || errno == EDQUOT || errno == EIO || errno == EROFS || errno == EACCES) {
    return ErrnoStatus(errno, to, "create");
  }
  absl::StatusOr<std::shared_ptr<File>> file = File::Open(from);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::unique_ptr<OutputFile>> copy = OutputFile::Create(to);
  if (!copy.ok()) return copy.status();
  absl::Status status = (*copy)->AppendFrom(**file, 0, (*file)->size());
  if (status.ok() && sync) status = (*copy)->Sync();
  return status.ok() ? (*copy)->Close() : status;
}

// The latest change of a folder or of anything in it.
std::time_t LatestChange(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) return 0;
  std::time_t latest = info.st_mtime;
  if (!S_ISDIR(info.st_mode)) return latest;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    latest = std::max(latest, LatestChange(it->path().string()));
  }
  return latest;
}

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? ErrnoStatus(error.value(), path, "remove") : absl::OkStatus();
}

}  // namespace

absl::StatusOr<WriteJob> WriteJob::Create(const OutputSpec& spec, const WriteJobOptions& options) {
  if (!spec.count) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a job needs the number of shards; name the dataset as stem@N",
                    FormatSpec(spec.directory, spec.stem, std::nullopt, spec.suffix)));
  }
  if (IsRemote(spec.directory)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: jobs of several processes write to a folder that all of them reach, not to a store",
        FormatSpec(spec.directory, spec.stem, spec.count, spec.suffix)));
  }
  absl::Status status = DatasetWriter::CheckOptions(spec, options.encode);
  if (!status.ok()) return status;
  WriteJob job;
  job.id_ = RandomDigits(kIdDigits);
  job.spec_ = spec;
  std::error_code error;
  // Tasks may run in other folders.
  job.spec_.directory = fs::absolute(spec.directory.empty() ? "." : spec.directory, error)
                            .lexically_normal()
                            .string();
  if (error) return ErrnoStatus(error.value(), spec.directory, "find the folder");
  if (job.spec_.directory.size() > 1 && job.spec_.directory.ends_with('/')) {
    job.spec_.directory.pop_back();
  }
  job.options_ = options;
  status = FinishCommit(job.spec_.directory, spec.stem);
  // The dataset's own folder may be new as well.
  if (status.ok()) status = CreateFolders(job.Folder());
  if (status.ok() && !options.overwrite) status = DatasetWriter::CheckNameIsFree(job.spec_);
  absl::StatusOr<std::string> before = ManifestIdentity(job.spec_.directory, spec.stem);
  if (status.ok()) status = before.status();
  if (!status.ok()) {
    job.Abort().IgnoreError();
    return status;
  }
  job.before_ = *std::move(before);
  return job;
}

std::string WriteJob::Text() const {
  return Dump({{"format", kJobFormat},
               {"id", id_},
               {"directory", absl::CHexEscape(spec_.directory)},
               {"stem", absl::CHexEscape(spec_.stem)},
               {"suffix", absl::CHexEscape(spec_.suffix)},
               {"shards", *spec_.count},
               {"compression", CompressionName(options_.encode.compression)},
               {"level", options_.encode.compression_level},
               {"member_bytes", options_.encode.member_bytes},
               {"overwrite", options_.overwrite},
               {"sync", options_.sync},
               {"before", before_}});
}

absl::StatusOr<WriteJob> WriteJob::FromText(std::string_view text) {
  const auto broken = [](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("not the text of a job: {}", what));
  };
  nlohmann::json json;
  if (absl::Status parsed = ParseBoundedJson(text, &json); !parsed.ok()) {
    return broken(std::string(parsed.message()));
  }
  JsonMembers members;
  WriteJob job;
  if (members.Text(json, "format") != kJobFormat) return broken("unknown format");
  job.id_ = members.Text(json, "id");
  const bool escaped = absl::CUnescape(members.Text(json, "directory"), &job.spec_.directory) &&
                       absl::CUnescape(members.Text(json, "stem"), &job.spec_.stem) &&
                       absl::CUnescape(members.Text(json, "suffix"), &job.spec_.suffix);
  job.spec_.count = members.Number(json, "shards", kMaxShards);
  const std::optional<Compression> compression =
      ParseCompression(members.Text(json, "compression"));
  job.options_.encode.compression_level = static_cast<int>(members.Number(json, "level", 9));
  job.options_.encode.member_bytes = members.Number(json, "member_bytes");
  job.options_.overwrite = members.Flag(json, "overwrite");
  job.options_.sync = members.Flag(json, "sync");
  job.before_ = members.Text(json, "before");
  if (!members.status().ok()) return broken(std::string(members.status().message()));
  if (!escaped || !compression || !IsId(job.id_)) return broken("a member has a wrong value");
  job.options_.encode.compression = *compression;
  const OutputSpec& spec = job.spec_;
  const absl::StatusOr<OutputSpec> parsed =
      ParseOutputSpec(FormatSpec(spec.directory, spec.stem, spec.count, spec.suffix));
  if (!parsed.ok()) return broken(std::string(parsed.status().message()));
  if (parsed->directory != spec.directory || parsed->stem != spec.stem ||
      parsed->suffix != spec.suffix || parsed->count != spec.count ||
      !spec.directory.starts_with('/')) {
    return broken("its name is not that of a dataset");
  }
  absl::Status status = DatasetWriter::CheckOptions(spec, job.options_.encode);
  if (!status.ok()) return broken(std::string(status.message()));
  return job;
}

std::string WriteJob::Folder() const {
  return JoinPath(JobsPath(spec_.directory, spec_.stem), id_);
}

std::string WriteJob::NumberOf(uint64_t part) const { return fmt::format("{:05}", part); }

absl::StatusOr<std::unique_ptr<PartWriter>> WriteJob::Open(uint64_t part, std::string_view attempt,
                                                           int threads) const {
  if (part >= num_parts()) {
    return absl::OutOfRangeError(
        fmt::format("part {} does not exist: the job has {} parts", part, num_parts()));
  }
  if (attempt.size() > kMaxAttemptBytes ||
      attempt.find_first_not_of(kNameCharacters) != attempt.npos) {
    return absl::InvalidArgumentError(fmt::format(
        "expected an attempt of at most {} letters, digits, '.', '_' and '-', got '{}'",
        kMaxAttemptBytes, std::string(absl::CHexEscape({attempt.data(), attempt.size()}))));
  }
  // Not only this attempt may have that name: engines repeat tasks whose results they lost.
  const std::string folder = fmt::format("{}-{}{}{}", NumberOf(part), attempt,
                                         attempt.empty() ? "" : "-", RandomDigits(16));
  const std::string path = JoinPath(Folder(), folder);
  // The job's folder is not created again: without it, nobody would commit this attempt.
  if (::mkdir(path.c_str(), 0777) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return ErrnoStatus(errno, path, "create the folder");
    return absl::FailedPreconditionError(
        fmt::format("{}: the folder of the job does not exist: the job has been committed, aborted "
                    "or cleaned, or this machine does not share the folder with the one that "
                    "created the job",
                    Folder()));
  }
  DatasetWriterOptions options;
  options.encode = options_.encode;
  options.threads = threads;
  options.sync = options_.sync;
  options.only_shard = part;
  absl::StatusOr<std::unique_ptr<DatasetWriter>> writer =
      DatasetWriter::Create(spec_, options, std::make_unique<PartFolder>(path));
  if (!writer.ok()) return writer.status();
  return std::unique_ptr<PartWriter>(new PartWriter(id_, part, folder, *std::move(writer)));
}

PartWriter::~PartWriter() = default;

absl::Status PartWriter::Write(std::string_view record) { return writer_->Write(record); }

absl::StatusOr<std::string> PartWriter::Close() {
  if (std::exchange(closed_, true)) {
    return absl::FailedPreconditionError("the part is closed already");
  }
  absl::StatusOr<FinishedShard> shard = writer_->FinishShard();
  if (!shard.ok()) return shard.status();
  const std::string& path = writer_->staging_directory();
  const std::string index = fmt::format("{}/{:05}.index", path, part_);
  struct stat info;
  absl::Status status =
      ::lstat(index.c_str(), &info) == 0 ? absl::OkStatus() : ErrnoStatus(errno, index, "look up");
  if (status.ok() && writer_->sync()) {
    status = SyncDirectory(path);
    if (status.ok()) status = SyncDirectory(std::string(SplitPath(path).directory));
  }
  if (!status.ok()) {
    RemoveAll(path).IgnoreError();
    return status;
  }
  return Dump({{"job", job_},
               {"part", part_},
               {"folder", folder_},
               {"index_bytes", static_cast<uint64_t>(info.st_size)},
               {"shard", FinishedToJson(*shard)}});
}

namespace {

// Returns the parts of a job's messages, in order.
absl::StatusOr<std::vector<Part>> ParseMessages(const WriteJob& job,
                                                absl::Span<const std::string> messages) {
  std::vector<std::optional<Part>> found(job.num_parts());
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto broken = [i](std::string_view what) {
      return absl::InvalidArgumentError(
          fmt::format("message {} is not that of a finished part: {}", i, what));
    };
    nlohmann::json json;
    if (absl::Status parsed = ParseBoundedJson(messages[i], &json); !parsed.ok()) {
      return broken(std::string(parsed.message()));
    }
    JsonMembers members;
    const std::string id = members.Text(json, "job");
    const uint64_t number = members.Number(json, "part");
    Part part;
    part.folder = members.Text(json, "folder");
    part.index_bytes = members.Number(json, "index_bytes");
    const nlohmann::json& shard = members.Object(json, "shard");
    if (!members.status().ok()) return broken(std::string(members.status().message()));
    if (id != job.id()) return broken("it is of another job");
    if (number >= job.num_parts()) {
      return broken(fmt::format("the job has {} parts, and no part {}", job.num_parts(), number));
    }
    if (!part.folder.starts_with(fmt::format("{:05}-", number)) ||
        part.folder.find_first_not_of(kNameCharacters) != part.folder.npos) {
      return broken("its folder is not that of an attempt");
    }
    std::optional<FinishedShard> finished = FinishedFromJson(shard);
    if (!finished) return broken("its totals are not those of a shard");
    part.shard = *std::move(finished);
    if (!found[number]) found[number] = std::move(part);
  }
  std::string missing;
  size_t num_missing = 0;
  std::vector<Part> parts;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i]) {
      parts.push_back(*std::move(found[i]));
    } else if (++num_missing <= 10) {
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", i);
    }
  }
  if (num_missing == 0) return parts;
  return absl::InvalidArgumentError(
      fmt::format("{} of {} parts have no message: {}{}; a dataset is committed whole", num_missing,
                  found.size(), missing, num_missing > 10 ? ", ..." : ""));
}

// Removes the staging folder, if it is empty, of a process that was killed when its commit was done.
void RemoveEmptyStaging(const OutputSpec& spec) {
  std::error_code error;
  if (!fs::exists(StagingPath(spec.directory, spec.stem), error)) return;
  const absl::StatusOr<std::unique_ptr<Staging>> staging = Staging::Open(spec.directory, spec.stem);
  if (staging.ok()) (*staging)->Keep(true);  // what another writer may resume
}

// Whether the dataset is the one that a job made of these parts.
bool HasParts(const Manifest& manifest, const OutputSpec& spec, const std::vector<Part>& parts) {
  if (manifest.suffix != spec.suffix || manifest.shards.size() != parts.size()) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ManifestShard& listed = manifest.shards[i];
    const FinishedShard& shard = parts[i].shard;
    if (listed.bytes != shard.bytes || listed.records != shard.records ||
        listed.records_digest != shard.records_digest) {
      return false;
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<Manifest> WriteJob::Commit(absl::Span<const std::string> messages, Manifest manifest,
                                          const std::stop_token& stop) const {
  absl::StatusOr<std::vector<Part>> parts = ParseMessages(*this, messages);
  if (!parts.ok()) return parts.status();
  // An earlier call may have been interrupted after its commit.
  absl::Status status = FinishCommit(spec_.directory, spec_.stem);
  if (!status.ok()) return status;
  const std::string path = ManifestPath(spec_.directory, spec_.stem);
  const absl::StatusOr<std::string> now = ManifestIdentity(spec_.directory, spec_.stem);
  if (!now.ok()) return now.status();
  std::error_code error;
  if (*now != before_ || !fs::exists(Folder(), error)) {
    absl::StatusOr<Manifest> there = ReadManifest(path);
    if (there.ok() && HasParts(*there, spec_, *parts)) {
      Abort().IgnoreError();  // what may be left of the job does no harm
      RemoveEmptyStaging(spec_);
      return there;
    }
  }
  if (*now != before_) {
    return absl::FailedPreconditionError(
        fmt::format("{}: another dataset of this name has been written since the job was created; "
                    "it stays. Abort the job, or move that dataset away",
                    path));
  }
  DatasetWriterOptions options;
  options.encode = options_.encode;
  options.threads = 1;
  options.overwrite = options_.overwrite;
  options.sync = options_.sync;
  options.stop = stop;
  absl::StatusOr<std::unique_ptr<DatasetWriter>> writer = DatasetWriter::Create(spec_, options);
  if (!writer.ok()) return writer.status();
  for (size_t i = 0; i < parts->size(); ++i) {
    const Part& part = (*parts)[i];
    const std::string from = fmt::format("{}/{}/{}", Folder(), part.folder, NumberOf(i));
    const std::string to = fmt::format("{}/{}", (*writer)->staging_directory(), NumberOf(i));
    status = CheckSize(from + ".shard", part.shard.bytes);
    if (status.ok()) status = CheckSize(from + ".index", part.index_bytes);
    if (status.ok()) status = LinkOrCopy(from + ".shard", to + ".shard", options_.sync);
    if (status.ok()) status = LinkOrCopy(from + ".index", to + ".index", options_.sync);
    if (!status.ok()) return status;
    (*writer)->Adopt(i, part.shard);
  }
  absl::StatusOr<Manifest> finished = (*writer)->Finish(std::move(manifest));
  if (!finished.ok()) return finished;
  Abort().IgnoreError();
  return finished;
}

absl::Status WriteJob::Abort() const {
  absl::Status status = RemoveAll(Folder());
  ::rmdir(JobsPath(spec_.directory, spec_.stem).c_str());  // unless there are other jobs
  ::rmdir(SidecarPath(spec_.directory).c_str());           // unless there are other sidecars
  return status;
}

absl::Status CleanJobs(const std::string& directory, const std::string& stem, std::time_t before,
                       bool dry_run, std::vector<std::string>* removed,
                       std::vector<std::string>* kept) {
  const std::string jobs = JobsPath(directory, stem);
  const absl::StatusOr<Folder> listed = ListFolder(jobs);
  if (absl::IsNotFound(listed.status())) return absl::OkStatus();
  if (!listed.ok()) return listed.status();
  for (const std::string& id : listed->folders) {
    const std::string path = JoinPath(jobs, id);
    if (!IsId(id)) continue;  // not ours
    if (LatestChange(path) >= before) {
      kept->push_back(path);
      continue;
    }
    removed->push_back(path);
    if (dry_run) continue;
    if (absl::Status status = RemoveAll(path); !status.ok()) return status;
  }
  if (!dry_run) {
    ::rmdir(jobs.c_str());
    ::rmdir(SidecarPath(directory).c_str());
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
