#include "shard/commit/staging.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include "absl/strings/escaping.h"
#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/file.h"
#include "io/folder.h"
#include "io/output_file.h"
#include "io/parallel.h"
#include "io/remedy.h"
#include "io/removal.h"
#include "io/thread.h"
#include "net/open.h"
#include "shard/commit/store_staging.h"
#include "shard/index/index_pack.h"
#include "shard/names/names.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

// A commit record has one line per shard.
constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;
constexpr char kRecordHead[] = "shardfeed commit 1";
constexpr char kManifest[] = "/manifest";
constexpr char kIndexPack[] = "/indexes";
constexpr size_t kCrcLineBytes = 16;  // "crc32c 01234567\n"
constexpr auto kPatience = std::chrono::seconds(60);

std::string FormatRecord(const CommitPlan& plan) {
  std::string text = fmt::format("{}\nsuffix {}\nshards {}\n", kRecordHead,
                                 absl::CHexEscape(plan.suffix), plan.shard_bytes.size());
  for (uint64_t bytes : plan.shard_bytes) text += fmt::format("{}\n", bytes);
  text += fmt::format("old {}\n", plan.old_shards.size());
  for (const std::string& name : plan.old_shards) {
    text += fmt::format("{}\n", std::string(absl::CHexEscape(name)));
  }
  text += fmt::format("crc32c {:08x}\n", Crc32c(text));
  return text;
}

// Takes lines from the beginning of a text.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  // Returns the text after `label` in the next line. Nullopt: the next line lacks the label, or
  // there is none.
  std::optional<std::string_view> Next(std::string_view label) {
    const size_t end = rest_.find('\n');
    if (end == rest_.npos || !rest_.starts_with(label)) return std::nullopt;
    const std::string_view value = rest_.substr(label.size(), end - label.size());
    rest_.remove_prefix(end + 1);
    return value;
  }
  std::optional<uint64_t> NextNumber(std::string_view label) {
    const std::optional<std::string_view> value = Next(label);
    return value ? ParseNumber(*value) : std::nullopt;
  }
  std::optional<std::string> NextText(std::string_view label) {
    const std::optional<std::string_view> value = Next(label);
    std::string text;
    if (!value || !absl::CUnescape({value->data(), value->size()}, &text)) return std::nullopt;
    return text;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

absl::StatusOr<CommitPlan> ParseRecord(std::string_view text, const std::string& path,
                                       const std::string& stem) {
  const auto broken = [&path](std::string_view what) {
    return absl::DataLossError(fmt::format(
        "{}: invalid commit record: {}; the new dataset is in the folder beside it whose name ends "
        "in .incomplete",
        path, what));
  };
  if (text.size() < kCrcLineBytes ||
      text.substr(text.size() - kCrcLineBytes) !=
          fmt::format("crc32c {:08x}\n", Crc32c(text.substr(0, text.size() - kCrcLineBytes)))) {
    return broken("its CRC does not match its content");
  }
  text.remove_suffix(kCrcLineBytes);
  // Even though the CRC is correct, a name is used only after checking that it belongs to this
  // dataset.
  Lines lines(text);
  CommitPlan plan;
  if (lines.Next(kRecordHead) != "") return broken("unknown format");
  const std::optional<std::string> suffix = lines.NextText("suffix ");
  if (!suffix) return broken("it has no suffix");
  plan.suffix = *suffix;
  const uint64_t shards = lines.NextNumber("shards ").value_or(0);
  for (uint64_t i = 0; i < shards; ++i) {
    const std::optional<uint64_t> bytes = lines.NextNumber("");
    if (!bytes) return broken(fmt::format("the size of shard {} is missing", i));
    plan.shard_bytes.push_back(*bytes);
  }
  const std::string first = ShardName(stem, 0, shards, plan.suffix);
  const std::optional<ShardNameView> parsed = ViewShardName(first);
  if (shards == 0 || !parsed || parsed->stem != stem || parsed->suffix != plan.suffix ||
      first.find('/') != first.npos) {
    return broken("its shards would have invalid names");
  }
  const uint64_t old = lines.NextNumber("old ").value_or(0);
  for (uint64_t i = 0; i < old; ++i) {
    std::optional<std::string> name = lines.NextText("");
    if (!name) return broken("the name of an old shard is missing");
    const std::optional<ShardNameView> shard = ViewShardName(*name);
    if (!shard || shard->stem != stem || name->find('/') != name->npos ||
        (shard->index < shards && *name == ShardName(stem, shard->index, shards, plan.suffix))) {
      return broken(fmt::format("'{}' is not the name of an old shard", absl::CHexEscape(*name)));
    }
    plan.old_shards.push_back(*std::move(name));
  }
  if (!lines.at_end()) return broken("data follows its end");
  return plan;
}

// The staging folder of a dataset, locked against other processes.
class StagingFolder : public Staging {
 public:
  // The same as Open, but does not finish an earlier commit. Null: another process has the lock.
  static absl::StatusOr<std::unique_ptr<StagingFolder>> Lock(const std::string& directory,
                                                             const std::string& stem);
  ~StagingFolder() override;

  absl::Status Discard() override {
    keep_ = false;
    return Empty();
  }
  void Keep(bool keep) override { keep_ = keep; }
  absl::StatusOr<std::unique_ptr<StagedShard>> Create(size_t number,
                                                      const std::string& name) override;
  absl::Status Commit(const CommitPlan& plan, std::string_view manifest, bool sync,
                      const std::stop_token& stop) override;

  // Finishes the commit of an earlier writer.
  absl::Status FinishEarlier();
  // After FinishEarlier has failed: the old dataset and the failed one are to be replaced.
  void ForgetEarlier() { keep_ = committed_ = false; }

 private:
  StagingFolder(std::string directory, std::string stem, int lock_fd);
  // Removes the files of a dataset that is not to be kept, and the folder if nothing is in it.
  absl::Status Empty();
  absl::Status StagePack(const CommitPlan& plan, bool sync);
  absl::Status RollForward(const CommitPlan& plan, bool sync);

  const std::string directory_;
  const std::string stem_;
  const int lock_fd_;
  bool keep_ = false;
  bool emptied_ = false;  // the folder may be another process's
};

class ShardFile : public StagedShard {
 public:
  explicit ShardFile(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}

  absl::Status Append(std::string_view bytes) override { return file_->Append(bytes); }
  uint64_t size() const override { return file_->size(); }
  absl::Status Close(bool sync) override {
    const absl::Status status = sync ? file_->Sync() : absl::OkStatus();
    return status.ok() ? file_->Close() : status;
  }

 private:
  const std::unique_ptr<OutputFile> file_;
};

// Reads a commit record. Nullopt: there is none.
absl::StatusOr<std::optional<CommitPlan>> ReadRecord(const std::string& path,
                                                     const std::string& stem) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return ErrnoStatus(errno, path, "look up");
  }
  if (S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        fmt::format("{}: expected a commit record, found a folder; move it away", path));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::DataLossError(
        fmt::format("{}: not a commit record, but a link or a special file; remove it", path));
  }
  absl::StatusOr<std::string> text = ReadFile(path, kMaxRecordBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  absl::StatusOr<CommitPlan> plan = ParseRecord(*text, path, stem);
  if (!plan.ok()) return plan.status();
  return *std::move(plan);
}

// Returns the size of the file. Nullopt: there is none.
absl::StatusOr<std::optional<uint64_t>> SizeOf(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) == 0) return static_cast<uint64_t>(info.st_size);
  if (errno == ENOENT) return std::nullopt;
  return ErrnoStatus(errno, path, "look up");
}

// Moves a file; OK if it does not exist, since an earlier call may have moved it.
absl::Status MoveIfThere(const std::string& from, const std::string& to) {
  absl::Status status = MoveFile(from, to);
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status RemoveIfThere(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return ErrnoStatus(errno, path, "remove the old file");
}

absl::Status CheckIsNoFolder(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, path, "look up");
  }
  if (!S_ISDIR(info.st_mode)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: expected a file of the dataset, found a folder; move it away", path));
}

// Checks that `path` is free or a folder; with `follow`, it may also be a link to one.
absl::Status CheckMayBeFolder(const std::string& path, bool follow) {
  struct stat info;
  if ((follow ? ::stat(path.c_str(), &info) : ::lstat(path.c_str(), &info)) != 0 ||
      S_ISDIR(info.st_mode)) {
    return absl::OkStatus();  // If stat fails, creating the folder will report the error.
  }
  return absl::FailedPreconditionError(
      fmt::format("{}: expected the folder for {}, found {}; {}", path,
                  follow ? "indexes and manifests" : "unfinished shards",
                  S_ISLNK(info.st_mode)   ? "a symbolic link"
                  : S_ISREG(info.st_mode) ? "a file"
                                          : "a special file",
                  S_ISLNK(info.st_mode) ? "remove it" : "move it away"));
}

StagingFolder::StagingFolder(std::string directory, std::string stem, int lock_fd)
    : Staging(StagingPath(directory, stem)),
      directory_(std::move(directory)),
      stem_(std::move(stem)),
      lock_fd_(lock_fd) {}

absl::StatusOr<std::unique_ptr<StagingFolder>> StagingFolder::Lock(const std::string& directory,
                                                                   const std::string& stem) {
  const std::string path = StagingPath(directory, stem);
  const std::string lock = path + "/" + kLock;
  // Another process may remove the folder when it is done; in this case, create it again.
  while (true) {
    absl::Status status = CheckMayBeFolder(SidecarPath(directory), /*follow=*/true);
    if (status.ok()) status = CheckMayBeFolder(path, /*follow=*/false);
    if (status.ok()) status = CreateFolders(path);
    if (!status.ok()) return status;
    struct stat info;
    if (::lstat(lock.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
      return absl::FailedPreconditionError(fmt::format("{}: not a file, but {}; remove it", lock,
                                                       S_ISDIR(info.st_mode)   ? "a folder"
                                                       : S_ISLNK(info.st_mode) ? "a symbolic link"
                                                                               : "something else"));
    }
    const int fd =
        ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0 && errno == ENOENT) continue;
    if (fd < 0) return ErrnoStatus(errno, lock, "create");
    int result;
    do {
      result = ::flock(fd, LOCK_EX | LOCK_NB);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
      const int error = errno;
      ::close(fd);
      if (error != EWOULDBLOCK) return ErrnoStatus(error, lock, "lock");
      return nullptr;
    }
    // The lock excludes other processes only if the locked file still has this name.
    struct stat named;
    if (::fstat(fd, &info) == 0 && ::lstat(lock.c_str(), &named) == 0 &&
        info.st_dev == named.st_dev && info.st_ino == named.st_ino) {
      return std::unique_ptr<StagingFolder>(new StagingFolder(directory, stem, fd));
    }
    ::close(fd);
  }
}

StagingFolder::~StagingFolder() {
  // What cannot be removed because memory ran out is left, as by a process that was killed.
  CatchAll([this] { return Empty(); }).IgnoreError();
  ::close(lock_fd_);
}

absl::Status StagingFolder::Empty() {
  if (emptied_) return absl::OkStatus();
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(path_);
  if (!names.ok()) return names.status();
  std::vector<std::string> files;
  for (const std::string& name : *names) {
    if (name != kLock) files.push_back(fmt::format("{}/{}", path_, name));
  }
  // An empty folder need not be kept.
  if (keep_ && !files.empty()) return absl::OkStatus();
  absl::Status status = RemoveAll(files);
  // Remove the lock last, so that the next holder finds the folder empty or gone.
  const std::string lock = fmt::format("{}/{}", path_, kLock);
  emptied_ = true;
  if (::unlink(lock.c_str()) != 0 && errno != ENOENT) {
    status.Update(ErrnoStatus(errno, lock, "remove"));
  }
  // Another process may put its own files there, now that the lock is gone.
  if (::rmdir(path_.c_str()) != 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST) {
    status.Update(ErrnoStatus(errno, path_, "remove"));
  }
  // Leave nothing behind if a first dataset was not finished; rmdir only removes an empty folder.
  ::rmdir(SidecarPath(directory_).c_str());
  return status;
}

absl::StatusOr<std::unique_ptr<StagedShard>> StagingFolder::Create(size_t number,
                                                                   const std::string& /*name*/) {
  return StageInFile(fmt::format("{}/{:05}.shard", path_, number));
}

absl::Status StagingFolder::StagePack(const CommitPlan& plan, bool sync) {
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path_ + kIndexPack);
  if (!file.ok()) return file.status();
  absl::Status status =
      PackIndexes(file->get(), plan.shard_bytes.size(), plan.suffix,
                  [this](size_t i) { return fmt::format("{}/{:05}.index", path_, i); });
  if (status.ok() && sync) status = (*file)->Sync();
  if (status.ok()) status = (*file)->Close();
  return status;
}

absl::Status StagingFolder::Commit(const CommitPlan& plan, std::string_view manifest, bool sync,
                                   const std::stop_token& /*stop*/) {
  const std::string sidecars = SidecarPath(directory_);
  const std::string record = CommitPath(directory_, stem_);
  absl::Status status = CheckIsNoFolder(ManifestPath(directory_, stem_));
  for (size_t i = 0; status.ok() && i < plan.shard_bytes.size(); ++i) {
    const std::string path =
        JoinPath(directory_, ShardName(stem_, i, plan.shard_bytes.size(), plan.suffix));
    status = CheckIsNoFolder(path);
    if (status.ok()) status = CheckIsNoFolder(IndexPath(path));
  }
  if (status.ok()) status = CheckIsNoFolder(IndexPackPath(directory_, stem_));
  if (status.ok()) status = StagePack(plan, sync);
  if (status.ok()) status = WriteFile(path_ + kManifest, manifest, sync);
  if (!status.ok()) return status;
  const std::string staged_record = path_ + "/commit";
  status = WriteFile(staged_record, FormatRecord(plan), sync);
  if (status.ok() && sync) status = SyncDirectory(path_);
  if (status.ok()) status = MoveFile(staged_record, record);
  if (!status.ok()) return status;
  committed_ = keep_ = true;
  if (sync) status = SyncDirectory(sidecars);
  if (!status.ok()) {
    // No old file has been touched yet; without the record, the old dataset stays.
    if (::unlink(record.c_str()) == 0) committed_ = keep_ = false;
    return status;
  }
  status = RollForward(plan, sync);
  if (status.ok()) return status;
  return WithMessage(
      status,
      fmt::format("{}; the new dataset is complete, and the next command that uses {} moves the "
                  "rest of it into place",
                  std::string(status.message()),
                  FormatSpec(directory_, stem_, std::nullopt, plan.suffix)));
}

// Every step may already have been done by an earlier call.
absl::Status StagingFolder::RollForward(const CommitPlan& plan, bool sync) {
  committed_ = keep_ = true;
  const std::string sidecars = SidecarPath(directory_);
  const size_t count = plan.shard_bytes.size();
  const auto staged = [this](size_t i) { return fmt::format("{}/{:05}", path_, i); };
  const auto in_place = [&](size_t i) {
    return JoinPath(directory_, ShardName(stem_, i, count, plan.suffix));
  };
  // Check that all new shards exist before touching any old file.
  for (size_t i = 0; i < count; ++i) {
    absl::StatusOr<std::optional<uint64_t>> size = SizeOf(staged(i) + ".shard");
    if (size.ok() && !size->has_value()) size = SizeOf(in_place(i));
    if (!size.ok()) return size.status();
    if (*size == plan.shard_bytes[i]) continue;
    return WithRemedy(
        absl::DataLossError(fmt::format("{}: shard {} of the new dataset was lost: expected {} "
                                        "bytes, found {}; remove this file "
                                        "to go back to the shards that are in place",
                                        CommitPath(directory_, stem_), i, plan.shard_bytes[i],
                                        size->has_value() ? fmt::format("{}", **size) : "no file")),
        {"overwrite", "", "write the dataset again instead"});
  }
  const std::string staged_manifest = path_ + kManifest;
  const std::string manifest = ManifestPath(directory_, stem_);
  absl::Status status;
  for (size_t i = 0; status.ok() && i < count; ++i) {
    status = MoveIfThere(staged(i) + ".index", IndexPath(in_place(i)));
    if (status.ok()) status = MoveIfThere(staged(i) + ".shard", in_place(i));
  }
  // A pack that is in place without a staged one is this dataset's, unless the writer was of a
  // version that made none: then it is another's, which readers notice.
  if (status.ok()) status = MoveIfThere(path_ + kIndexPack, IndexPackPath(directory_, stem_));
  if (status.ok() && sync) status = SyncDirectory(directory_);
  if (status.ok() && sync) status = SyncDirectory(sidecars);
  if (status.ok()) status = MoveIfThere(staged_manifest, manifest);
  if (status.ok() && sync) status = SyncDirectory(sidecars);
  if (status.ok()) {
    status = ParallelFor(plan.old_shards.size(), RemovalThreads(plan.old_shards.size()), {},
                         [&](size_t i) -> absl::Status {
                           const std::string old = JoinPath(directory_, plan.old_shards[i]);
                           absl::Status removed = RemoveIfThere(IndexPath(old));
                           return removed.ok() ? RemoveIfThere(old) : removed;
                         });
  }
  if (status.ok() && sync && !plan.old_shards.empty()) status = SyncDirectory(directory_);
  // Remove the record after the old shards, which would otherwise stay forever after a crash.
  if (status.ok()) status = RemoveIfThere(CommitPath(directory_, stem_));
  if (status.ok() && sync) status = SyncDirectory(sidecars);
  if (!status.ok()) return status;
  committed_ = keep_ = false;
  return absl::OkStatus();
}

absl::Status StagingFolder::FinishEarlier() {
  absl::StatusOr<std::optional<CommitPlan>> plan = ReadRecord(CommitPath(directory_, stem_), stem_);
  if (plan.ok() && !plan->has_value()) return absl::OkStatus();
  keep_ = true;
  return plan.ok() ? RollForward(**plan, /*sync=*/true) : plan.status();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StagedShard>> StageInFile(const std::string& path) {
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  return std::make_unique<ShardFile>(*std::move(file));
}

absl::StatusOr<std::unique_ptr<Staging>> Staging::Open(const std::string& directory,
                                                       const std::string& stem, bool overwrite) {
  if (IsRemote(directory)) return OpenStoreStaging(directory, stem);
  absl::StatusOr<std::unique_ptr<StagingFolder>> staging = StagingFolder::Lock(directory, stem);
  if (!staging.ok()) return staging.status();
  if (*staging == nullptr) {
    return absl::FailedPreconditionError(
        fmt::format("{}: another process is writing this dataset", StagingPath(directory, stem)));
  }
  absl::Status status = (*staging)->FinishEarlier();
  if (absl::IsDataLoss(status) && overwrite) {
    (*staging)->ForgetEarlier();
  } else if (!status.ok()) {
    return status;
  }
  return staging;
}

absl::Status FinishCommit(const std::string& directory, const std::string& stem) {
  if (IsRemote(directory)) return WaitForStoreCommit(directory, stem);
  const std::string record = CommitPath(directory, stem);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  // An invalid record is reported without locking the folder.
  const absl::StatusOr<std::optional<CommitPlan>> plan = ReadRecord(record, stem);
  if (!plan.ok()) return plan.status();
  bool there = plan->has_value();
  while (there) {
    absl::StatusOr<std::unique_ptr<StagingFolder>> staging = StagingFolder::Lock(directory, stem);
    if (staging.ok() && *staging != nullptr) return (*staging)->FinishEarlier();
    if (absl::IsPermissionDenied(staging.status())) {
      return absl::PermissionDeniedError(
          fmt::format("{}: a new dataset was committed, and its files still have to be moved into "
                      "place, which this process may not do ({}); run 'shardfeed verify {}' as a "
                      "user who may write there",
                      record, std::string(staging.status().message()),
                      FormatSpec(directory, stem, std::nullopt, "")));
    }
    if (!staging.ok()) return staging.status();
    if (std::chrono::steady_clock::now() >= deadline) {
      return absl::UnavailableError(fmt::format(
          "{}: another process has been moving a new dataset into place for {} seconds; try again",
          record, kPatience.count()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    absl::StatusOr<std::optional<uint64_t>> size = SizeOf(record);
    if (!size.ok()) return size.status();
    there = size->has_value();
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
