#include "shard/commit/store_staging.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/random_digits.h"
#include "base/work_stop.h"
#include "fmt/format.h"
#include "io/file.h"
#include "io/output_file.h"
#include "io/parallel.h"
#include "io/removal.h"
#include "net/store.h"
#include "net/transfers.h"
#include "net/upload.h"
#include "shard/commit/store_record.h"
#include "shard/index/index_pack.h"
#include "shard/names/names.h"

namespace shardfeed {
namespace {

constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 32;
constexpr char kRecordHead[] = R"({"format":"shardfeed store commit 1",)";
// The beginning of the object that takes the place of the record in WhileNothingIsCommitted.
constexpr char kLockHead[] = R"({"format":"shardfeed store lock 1",)";
constexpr std::chrono::milliseconds kLockPoll(250);
constexpr int kMaxLocks = 100;
// Bytes of the index pack that are read at a time.
constexpr uint64_t kCopyBytes = 8 << 20;

// Nullopt: there is no commit record, or a lock in its place, which `lock` gets. DataLoss: there is
// something else.
absl::StatusOr<std::optional<std::string>> ReadRecord(const std::string& path,
                                                      std::string* lock = nullptr) {
  absl::StatusOr<std::string> text = ReadObject(path, kMaxRecordBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  if (text->starts_with(kRecordHead)) return *std::move(text);
  if (text->starts_with(kLockHead)) {
    if (lock != nullptr) *lock = *std::move(text);
    return std::nullopt;
  }
  return absl::DataLossError(
      fmt::format("{}: not a commit record; remove it, and write the dataset again if it is not "
                  "complete",
                  path));
}

// Removes a lock unless there is something else in its place by now.
absl::Status RemoveLock(const std::string& path, const std::string& lock) {
  const WorkStop whole{std::stop_token()};
  std::string there;
  const absl::StatusOr<std::optional<std::string>> record = ReadRecord(path, &there);
  if (!record.ok()) return record.status();
  return there == lock ? RemoveObject(path) : absl::OkStatus();
}

// Waits until there is no lock in the place of the record. One that stays for longer than its
// holder would try to remove it is that of a process that was killed.
absl::Status WaitForLock(const std::string& path) {
  std::string first;
  const auto deadline = std::chrono::steady_clock::now() + NetPatience();
  while (true) {
    std::string lock;
    const absl::StatusOr<std::optional<std::string>> record = ReadRecord(path, &lock);
    if (!record.ok()) return record.status();
    if (first.empty()) first = lock;
    if (lock.empty() || lock != first) return absl::OkStatus();
    if (std::chrono::steady_clock::now() >= deadline) return RemoveLock(path, lock);
    std::this_thread::sleep_for(kLockPoll);
  }
}

std::string VersionOf(const ObjectInfo& info) {
  return fmt::format("{} {}", info.size, info.version);
}

// The version of the dataset's manifest; empty if there is none.
absl::StatusOr<std::string> ManifestVersion(const std::string& directory, const std::string& stem) {
  const absl::StatusOr<ObjectInfo> info = StatObject(ManifestPath(directory, stem));
  if (absl::IsNotFound(info.status())) return "";
  if (!info.ok()) return info.status();
  return VersionOf(*info);
}

absl::Status Busy(const std::string& directory, const std::string& stem) {
  return absl::FailedPreconditionError(fmt::format(
      "{}: another process is putting a dataset of this name into place; if it was killed, "
      "'shardfeed clean {}' finishes that",
      CommitPath(directory, stem), JoinPath(directory, stem)));
}

// Every step may already have been done, by this process or another one.
absl::Status RollForward(const StoreCommit& commit, const std::string& directory,
                         const std::string& stem) {
  const WorkStop whole{std::stop_token()};
  // A reader takes a dataset without a manifest for an incomplete one while there is a record.
  // Another process may have put the new one into place by now, which may have the same bytes.
  const std::string manifest = ManifestPath(directory, stem);
  const absl::StatusOr<ObjectInfo> there = StatObject(manifest);
  if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
  const bool is_old =
      there.ok() && VersionOf(*there) == commit.before && there->writer != commit.writer;
  absl::Status status = is_old ? RemoveObject(manifest) : absl::OkStatus();
  if (!status.ok()) return status;
  status = ParallelFor(commit.objects.size(), kStoreRequests, {},
                       [&](size_t i) { return Publish(commit.objects[i]).status(); });
  // A writer of an earlier version made no pack, so a pack that exists belongs to another dataset.
  if (status.ok() && commit.objects.size() % 2 == 0) {
    status = RemoveObject(IndexPackPath(directory, stem));
  }
  if (!status.ok()) return status;
  status = ParallelFor(commit.old.size(), kStoreRequests, {}, [&](size_t i) {
    const std::string old = JoinPath(directory, commit.old[i]);
    absl::Status removed = RemoveObject(IndexPath(old));
    return removed.ok() ? RemoveObject(old) : removed;
  });
  if (status.ok()) status = PutObject(manifest, commit.manifest, commit.writer);
  if (status.ok()) status = RemoveObject(CommitPath(directory, stem));
  return status;
}

// Checks that every object of the commit is published or can be.
absl::Status CheckParts(const StoreCommit& commit) {
  const absl::StatusOr<std::vector<size_t>> lost = LostObjects(commit.objects);
  if (!lost.ok()) return lost.status();
  if (lost->empty()) return absl::OkStatus();
  return absl::DataLossError(fmt::format("{}: its uploaded parts were removed from the store",
                                         commit.objects[lost->front()].path));
}

// FailedPrecondition: the job of the commit is gone. Nobody removes it while there is a record, so
// whoever asks gets the same answer.
absl::Status CheckJob(const StoreCommit& commit, const std::string& directory,
                      const std::string& stem) {
  if (commit.job.empty()) return absl::OkStatus();
  const std::string path = JoinPath(JobsPath(directory, stem), commit.job);
  const absl::StatusOr<bool> exists = ObjectExists(path);
  if (!exists.ok()) return exists.status();
  if (*exists) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: the object is gone: the job has been committed, aborted or cleaned", path));
}

class StoreStaging : public Staging {
 public:
  StoreStaging(std::string folder, std::string directory, std::string stem,
               std::unique_ptr<UploadGroup> group, std::string before, UploadedShards uploaded)
      : Staging(std::move(folder)),
        directory_(std::move(directory)),
        stem_(std::move(stem)),
        group_(std::move(group)),
        before_(std::move(before)),
        uploaded_(std::move(uploaded)) {}
  ~StoreStaging() override {
    shards_.clear();
    pack_.reset();
    group_.reset();  // waits until what was given up is removed
    RemoveTree(path_).IgnoreError();
  }

  absl::StatusOr<std::unique_ptr<StagedShard>> Create(size_t number,
                                                      const std::string& name) override;
  absl::Status Commit(const CommitPlan& plan, std::string_view manifest, bool sync,
                      const std::stop_token& stop) override;

  // Called by shard `number` when it is complete. Thread-safe.
  absl::Status Add(size_t number, const std::string& path, std::unique_ptr<Upload> shard);

 private:
  struct Uploads {
    std::unique_ptr<Upload> shard;  // null: others have uploaded it
    std::unique_ptr<Upload> index;
  };

  absl::StatusOr<StoreCommit> FinishUploads(const CommitPlan& plan, const std::stop_token& stop);
  absl::StatusOr<PendingObject> UploadPack(const CommitPlan& plan, const std::stop_token& stop);
  absl::Status CreateRecord(const std::string& record);
  void KeepUploads();

  const std::string directory_;
  const std::string stem_;
  std::unique_ptr<UploadGroup> group_;
  const std::string before_;  // version of the manifest when the writer began
  const UploadedShards uploaded_;
  Mutex mutex_;
  std::map<size_t, Uploads> shards_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Upload> pack_;
};

class ShardUpload : public StagedShard {
 public:
  ShardUpload(StoreStaging& staging, const UploadGroup& group, size_t number, std::string path)
      : staging_(staging),
        number_(number),
        path_(path),
        upload_(std::make_unique<Upload>(group, std::move(path))) {}

  absl::Status Append(std::string_view bytes) override { return upload_->Append(bytes); }
  uint64_t size() const override { return upload_->size(); }
  absl::Status Close(bool /*sync*/) override {
    const absl::Status status = upload_->Close();
    return status.ok() ? staging_.Add(number_, path_, std::move(upload_)) : status;
  }

 private:
  StoreStaging& staging_;
  const size_t number_;
  const std::string path_;
  std::unique_ptr<Upload> upload_;
};

absl::StatusOr<std::unique_ptr<StagedShard>> StoreStaging::Create(size_t number,
                                                                  const std::string& name) {
  return std::make_unique<ShardUpload>(*this, *group_, number, JoinPath(directory_, name));
}

absl::Status StoreStaging::Add(size_t number, const std::string& path,
                               std::unique_ptr<Upload> shard) {
  const std::string file = fmt::format("{}/{:05}.index", path_, number);
  absl::StatusOr<std::string> bytes = ReadFile(file, kMaxIndexBytes);
  if (!bytes.ok()) return bytes.status();
  auto index = std::make_unique<Upload>(*group_, IndexPath(path));
  absl::Status status = index->Append(*bytes);
  if (status.ok()) status = index->Close();
  if (!status.ok()) return status;
  MutexLock lock(mutex_);
  shards_[number] = {std::move(shard), std::move(index)};
  return absl::OkStatus();
}

absl::StatusOr<StoreCommit> StoreStaging::FinishUploads(const CommitPlan& plan,
                                                        const std::stop_token& stop) {
  StoreCommit commit;
  commit.writer = group_->id();
  commit.before = before_;
  commit.old = plan.old_shards;
  for (size_t i = 0; i < uploaded_.objects.size(); ++i) {
    absl::Status status = Add(i, uploaded_.objects[i].path, nullptr);
    if (!status.ok()) return status;
  }
  MutexLock lock(mutex_);
  for (size_t i = 0; i < plan.shard_bytes.size(); ++i) {
    const auto it = shards_.find(i);
    const bool is_staged =
        it != shards_.end() &&
        plan.shard_bytes[i] ==
            (it->second.shard == nullptr ? uploaded_.objects[i].bytes : it->second.shard->size());
    if (!is_staged) {
      return absl::InternalError(fmt::format("{}: shard {} was not staged", directory_, i));
    }
    for (Upload* const upload : {it->second.shard.get(), it->second.index.get()}) {
      absl::StatusOr<PendingObject> object =
          upload == nullptr ? uploaded_.objects[i] : upload->Finish(stop);
      if (!object.ok()) return object.status();
      commit.objects.push_back(*std::move(object));
    }
  }
  absl::StatusOr<PendingObject> pack = UploadPack(plan, stop);
  if (!pack.ok()) return pack.status();
  commit.objects.push_back(*std::move(pack));
  return commit;
}

// The indexes of all shards are in files until here.
absl::StatusOr<PendingObject> StoreStaging::UploadPack(const CommitPlan& plan,
                                                       const std::stop_token& stop) {
  pack_ = std::make_unique<Upload>(*group_, IndexPackPath(directory_, stem_));
  const std::string path = path_ + "/indexes";
  absl::StatusOr<std::unique_ptr<OutputFile>> packed = OutputFile::Create(path);
  if (!packed.ok()) return packed.status();
  absl::Status status =
      PackIndexes(packed->get(), plan.shard_bytes.size(), plan.suffix,
                  [this](size_t i) { return fmt::format("{}/{:05}.index", path_, i); });
  if (status.ok()) status = (*packed)->Close();
  if (!status.ok()) return status;
  const absl::StatusOr<std::shared_ptr<File>> file = File::Open(path);
  if (!file.ok()) return file.status();
  std::string piece;
  for (uint64_t at = 0; at < (*file)->size(); at += piece.size()) {
    piece.resize(std::min(kCopyBytes, (*file)->size() - at));
    status = (*file)->ReadExactlyAt(at, absl::MakeSpan(piece));
    if (status.ok()) status = pack_->Append(piece);
    if (!status.ok()) return status;
  }
  return pack_->Finish(stop);
}

void StoreStaging::KeepUploads() {
  MutexLock lock(mutex_);
  for (auto& [number, uploads] : shards_) {
    if (uploads.shard != nullptr) uploads.shard->Keep();
    uploads.index->Keep();
  }
  pack_->Keep();
}

absl::Status StoreStaging::CreateRecord(const std::string& record) {
  const std::string path = CommitPath(directory_, stem_);
  absl::Status status = CreateObject(path, record);
  for (int i = 0; absl::IsAlreadyExists(status) && i < kMaxLocks; ++i) {
    std::string lock;
    const absl::StatusOr<std::optional<std::string>> there = ReadRecord(path, &lock);
    if (!there.ok() || there->has_value()) break;
    if (absl::Status waited = WaitForLock(path); !waited.ok()) return waited;
    status = CreateObject(path, record);
  }
  if (status.ok() || absl::IsUnimplemented(status)) return status;
  if (absl::IsAlreadyExists(status)) return Busy(directory_, stem_);
  // The error does not say whether the record was created.
  absl::StatusOr<std::string> there = ReadObject(path, kMaxRecordBytes);
  if (there.ok()) return *there == record ? absl::OkStatus() : Busy(directory_, stem_);
  if (absl::IsNotFound(there.status())) return status;
  KeepUploads();
  return absl::Status(
      status.code(),
      fmt::format("{}; it is not known whether the new dataset was committed: 'shardfeed clean "
                  "{}' finishes it if it was, and otherwise removes its parts in time",
                  std::string(status.message()), JoinPath(directory_, stem_)));
}

absl::Status StoreStaging::Commit(const CommitPlan& plan, std::string_view manifest, bool /*sync*/,
                                  const std::stop_token& stop) {
  absl::StatusOr<StoreCommit> commit = FinishUploads(plan, stop);
  if (!commit.ok()) return commit.status();
  commit->manifest = manifest;
  commit->job = uploaded_.job;
  // The old dataset stays if something has removed what others have uploaded.
  absl::Status status = uploaded_.objects.empty() ? absl::OkStatus() : CheckParts(*commit);
  const WorkStop whole{std::stop_token()};  // what follows is done to its end
  if (status.ok()) status = CreateRecord(FormatStoreCommit(*commit, plan.suffix));
  if (!status.ok()) return status;
  // From here on, no other process commits a dataset of this name. One may have done so before.
  const absl::StatusOr<std::string> now = ManifestVersion(directory_, stem_);
  status = now.status();
  if (now.ok() && *now != before_) {
    status = absl::FailedPreconditionError(
        fmt::format("{}: another process has written a dataset of this name in the meantime; it "
                    "stays, and nothing of this one was kept",
                    ManifestPath(directory_, stem_)));
  }
  if (status.ok()) status = CheckJob(*commit, directory_, stem_);
  // The old dataset stays if a cleaner has removed parts before there was a record, which it heeds.
  if (status.ok()) {
    const absl::Status parts = CheckParts(*commit);
    // Not everyone may list uploads.
    if (absl::IsDataLoss(parts)) status = parts;
  }
  if (!status.ok()) {
    const absl::Status removed = RemoveObject(CommitPath(directory_, stem_));
    if (removed.ok()) return status;
    // Whoever finds the record finishes the commit, unless another process was quicker.
    KeepUploads();
    return absl::Status(status.code(),
                        fmt::format("{}; the commit record could not be removed, either: "
                                    "'shardfeed clean {}' finishes the commit or removes it",
                                    std::string(status.message()), JoinPath(directory_, stem_)));
  }
  committed_ = true;
  KeepUploads();
  status = RollForward(*commit, directory_, stem_);
  if (status.ok()) return status;
  if (absl::IsDataLoss(status)) {
    return absl::DataLossError(
        fmt::format("{}; the new dataset cannot be completed; write it again, replacing what is "
                    "there",
                    std::string(status.message())));
  }
  return absl::Status(
      status.code(),
      fmt::format("{}; the new dataset is complete, and 'shardfeed clean {}' puts the rest of it "
                  "into place",
                  std::string(status.message()), JoinPath(directory_, stem_)));
}

}  // namespace

absl::StatusOr<std::vector<size_t>> LostObjects(const std::vector<PendingObject>& objects) {
  absl::StatusOr<std::vector<size_t>> missing = WithoutParts(objects);
  if (!missing.ok()) return missing;
  std::sort(missing->begin(), missing->end());
  std::vector<char> published(missing->size());  // not bool, whose elements threads would share
  absl::Status status =
      ParallelFor(missing->size(), kStoreRequests, {}, [&](size_t i) -> absl::Status {
        const PendingObject& object = objects[(*missing)[i]];
        const absl::StatusOr<ObjectInfo> info = StatObject(object.path);
        if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
        published[i] =
            info.ok() && info->writer == object.writer && info->size == object.bytes ? 1 : 0;
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  std::vector<size_t> lost;
  for (size_t i = 0; i < missing->size(); ++i) {
    if (!published[i]) lost.push_back((*missing)[i]);
  }
  return lost;
}

absl::StatusOr<std::unique_ptr<Staging>> OpenStoreStaging(const std::string& directory,
                                                          const std::string& stem,
                                                          UploadedShards uploaded) {
  absl::StatusOr<std::unique_ptr<UploadGroup>> group = UploadGroup::Begin(directory);
  if (!group.ok()) return group.status();
  absl::StatusOr<std::optional<std::string>> record = ReadRecord(CommitPath(directory, stem));
  if (!record.ok()) return record.status();
  if (record->has_value()) return Busy(directory, stem);
  absl::StatusOr<std::string> before = ManifestVersion(directory, stem);
  if (!before.ok()) return before.status();
  absl::StatusOr<std::string> folder = MakeTemporaryFolder();
  if (!folder.ok()) return folder.status();
  return std::make_unique<StoreStaging>(*std::move(folder), directory, stem, *std::move(group),
                                        *std::move(before), std::move(uploaded));
}

absl::Status WaitForStoreCommit(const std::string& directory, const std::string& stem) {
  const std::string path = CommitPath(directory, stem);
  const std::chrono::seconds patience = NetPatience();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    absl::StatusOr<std::optional<std::string>> record = ReadRecord(path);
    // A store in which this process may not look for a record, or that answers something else (an
    // HTTP server's page), counts as one without.
    if (absl::IsPermissionDenied(record.status()) || absl::IsDataLoss(record.status())) break;
    if (!record.ok()) return record.status();
    if (!record->has_value()) break;
    if (std::chrono::steady_clock::now() >= deadline) {
      return absl::UnavailableError(fmt::format(
          "{}: a new dataset was committed, and for {} seconds its objects have not all been in "
          "place; if its writer was killed, 'shardfeed clean {}' finishes that",
          path, patience.count(), JoinPath(directory, stem)));
    }
    if (WorkStop::Requested()) return absl::CancelledError("interrupted");
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  return absl::OkStatus();
}

absl::StatusOr<FoundCommit> FinishStoreCommit(const std::string& directory,
                                              const std::string& stem) {
  const std::string path = CommitPath(directory, stem);
  std::string lock;
  absl::StatusOr<std::optional<std::string>> record = ReadRecord(path, &lock);
  if (!record.ok()) return record.status();
  if (!lock.empty()) {
    if (absl::Status waited = WaitForLock(path); !waited.ok()) return waited;
    record = ReadRecord(path);
    if (!record.ok()) return record.status();
  }
  if (!record->has_value()) return FoundCommit::kNone;
  absl::StatusOr<StoreCommit> commit = ParseStoreCommit(**record, path, directory, stem);
  if (!commit.ok()) return commit.status();
  const std::string manifest = ManifestPath(directory, stem);
  ObjectInfo info;
  const absl::StatusOr<std::string> in_place = ReadObject(manifest, kMaxRecordBytes, &info);
  if (!in_place.ok() && !absl::IsNotFound(in_place.status())) return in_place.status();
  const auto discard = [&] {
    // Shards of a job stay, which may be committed again, until the job is removed.
    for (const PendingObject& object : commit->objects) {
      if (object.writer == commit->writer) Discard(object).IgnoreError();
    }
    return RemoveObject(path);
  };
  if (in_place.ok() && *in_place == commit->manifest) {
    // The manifest is put into place last, but that of the old dataset may be identical.
    const absl::StatusOr<ObjectInfo> first = StatObject(commit->objects[0].path);
    if (!first.ok() && !absl::IsNotFound(first.status())) return first.status();
    if (first.ok() && first->writer == commit->objects[0].writer) {
      absl::Status removed = RemoveObject(path);
      if (!removed.ok()) return removed;
      return FoundCommit::kFinished;
    }
  }
  // The writer ended before it noticed that another one had been quicker.
  if (in_place.ok() && VersionOf(info) != commit->before) {
    absl::Status discarded = discard();
    if (!discarded.ok()) return discarded;
    return FoundCommit::kDiscarded;
  }
  absl::Status status = CheckJob(*commit, directory, stem);
  if (absl::IsFailedPrecondition(status)) {
    if (absl::Status discarded = discard(); !discarded.ok()) return discarded;
    return FoundCommit::kDiscarded;
  }
  if (status.ok()) status = CheckParts(*commit);
  if (absl::IsDataLoss(status)) {
    if (absl::Status discarded = discard(); !discarded.ok()) return discarded;
    return absl::DataLossError(fmt::format(
        "{}; {}", std::string(status.message()),
        in_place.ok() ? "the new dataset was discarded, and the old one stays"
                      : "the new dataset cannot be completed; write it again, replacing what is "
                        "there"));
  }
  if (status.ok()) status = RollForward(*commit, directory, stem);
  if (!status.ok()) return status;
  return FoundCommit::kFinished;
}

absl::Status WhileNothingIsCommitted(const std::string& directory, const std::string& stem,
                                     const std::function<absl::Status()>& work) {
  const std::string path = CommitPath(directory, stem);
  const std::string lock = fmt::format("{}\"holder\":\"{}\"}}\n", kLockHead, RandomDigits(32));
  absl::Status status;
  for (int i = 0; i < kMaxLocks; ++i) {
    status = FinishStoreCommit(directory, stem).status();
    if (status.ok()) status = CreateObject(path, lock);
    if (!absl::IsAlreadyExists(status)) break;
  }
  if (absl::IsAlreadyExists(status)) {
    return absl::UnavailableError(
        fmt::format("{}: other processes keep committing this dataset; try again", path));
  }
  // Nobody can commit to a store without conditional requests.
  if (absl::IsUnimplemented(status)) return work();
  if (!status.ok()) return status;
  status = work();
  const absl::Status removed = RemoveLock(path, lock);
  return status.ok() ? removed : status;
}

}  // namespace shardfeed
