#include "shard/writing/store_part.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/work_stop.h"
#include "fmt/format.h"
#include "io/bounded_json.h"
#include "io/file.h"
#include "io/output_file.h"
#include "io/parallel.h"
#include "io/removal.h"
#include "net/open.h"
#include "net/store.h"
#include "nlohmann/json.hpp"
#include "shard/commit/store_staging.h"
#include "shard/index/index.h"
#include "shard/names/names.h"
#include "shard/statistics/value_statistics.h"
#include "shard/writing/finished_shards.h"

namespace shardfeed {
namespace {

constexpr char kIndexEnding[] = ".index";
constexpr char kJob[] = "shardfeed job\n";
constexpr char kBegun[] = "begun";
constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 32;
constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 30;

// A shard that belongs to the part once it is closed.
class UploadedShard : public StagedShard {
 public:
  explicit UploadedShard(std::shared_ptr<Upload> upload) : upload_(std::move(upload)) {}

  absl::Status Append(std::string_view bytes) override { return upload_->Append(bytes); }
  uint64_t size() const override { return upload_->size(); }
  absl::Status Close(bool /*sync*/) override { return upload_->Close(); }

 private:
  const std::shared_ptr<Upload> upload_;
};

absl::StatusOr<ObjectListing> List(const std::string& folder) {
  const absl::StatusOr<std::shared_ptr<const Store>> store = Store::Of(folder);
  if (!store.ok()) return store.status();
  return (*store)->List(folder);
}

bool IsOfAttempt(std::string_view name) {
  return name == kBegun || name == kInputName || name.ends_with(kIndexEnding) ||
         name.ends_with(kStatisticsEnding) || name.ends_with(kMessageEnding);
}

// The random id of the job that a shared job's description names; empty: it names none.
std::string IdOfSharedJob(std::string_view text) {
  nlohmann::json json;
  JsonMembers members;
  if (!ParseBoundedJson(text, &json).ok()) return "";
  std::string id = members.Text(members.Object(json, "job"), "id");
  return members.status().ok() && IsRandomJobId(id) ? id : "";
}

// The objects of a job that belong to it.
struct JobObjects {
  std::vector<ObjectInfo> own;       // those in its folder: `job`, `input` and `committed`
  std::vector<ObjectInfo> attempts;  // those of its attempts
  bool committed = false;

  bool empty() const { return own.empty() && attempts.empty(); }
  // Whether one has been written since `time`, or a store does not say when.
  bool AnySince(std::time_t time) const {
    for (const std::vector<ObjectInfo>* objects : {&own, &attempts}) {
      for (const ObjectInfo& object : *objects) {
        if (object.modified == 0 || object.modified >= time) return true;
      }
    }
    return false;
  }
};

absl::StatusOr<JobObjects> ObjectsOf(const std::string& job_folder) {
  absl::StatusOr<ObjectListing> listed = List(job_folder);
  if (!listed.ok()) return listed.status();
  JobObjects all;
  for (ObjectInfo& object : listed->objects) {
    const bool committed = object.path == CommittedPath(job_folder);
    all.committed |= committed;
    if (committed || object.path == SharedJobPath(job_folder) ||
        object.path == JoinPath(job_folder, kInputName)) {
      all.own.push_back(std::move(object));
    }
  }
  std::vector<std::string> folders = std::move(listed->folders);
  std::erase_if(folders, [](const std::string& name) { return !IsPartFolderName(name); });
  std::vector<ObjectListing> attempts(folders.size());
  absl::Status status = ParallelFor(folders.size(), kStoreRequests, {}, [&](size_t i) {
    absl::StatusOr<ObjectListing> attempt = List(JoinPath(job_folder, folders[i]));
    if (!attempt.ok()) return attempt.status();
    attempts[i] = *std::move(attempt);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  for (ObjectListing& attempt : attempts) {
    for (ObjectInfo& object : attempt.objects) {
      if (IsOfAttempt(SplitPath(object.path).name)) all.attempts.push_back(std::move(object));
    }
  }
  return all;
}

absl::Status RemoveObjects(const std::vector<ObjectInfo>& objects) {
  return ParallelFor(objects.size(), kStoreRequests, {},
                     [&](size_t i) { return RemoveObject(objects[i].path); });
}

// The upload that a message names. Nullopt: the message is gone, or is not a message.
absl::StatusOr<std::optional<PendingObject>> UploadOf(const std::string& message_path) {
  const absl::StatusOr<std::string> text = ReadObject(message_path, kMaxMessageBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  absl::StatusOr<PartMessage> message = ParseMessage(*text);
  if (!message.ok()) return std::nullopt;
  return std::move(message->object);
}

// Removes the parts of a shard that was finished and not published.
absl::Status DiscardPart(const std::string& directory, const std::string& stem,
                         const std::string& message_path) {
  absl::StatusOr<std::optional<PendingObject>> upload = UploadOf(message_path);
  if (!upload.ok()) return upload.status();
  if (!upload->has_value()) return absl::OkStatus();
  std::string& path = (*upload)->path;
  const std::optional<ShardNameView> shard = ViewShardName(path);
  if (!shard || shard->stem != stem || path.find('/') != path.npos) return absl::OkStatus();
  path = JoinPath(directory, path);
  return Discard(**upload);
}

// Removes what attempts have left, and the parts of shards that are not published.
absl::Status RemoveAttempts(const std::string& directory, const std::string& stem,
                            const std::vector<ObjectInfo>& objects) {
  std::vector<ObjectInfo> others;
  std::vector<std::string> messages;
  for (const ObjectInfo& object : objects) {
    if (object.path.ends_with(kMessageEnding)) {
      messages.push_back(object.path);
    } else {
      others.push_back(object);
    }
  }
  absl::Status status = ParallelFor(messages.size(), kStoreRequests, {}, [&](size_t i) {
    const absl::Status discarded = DiscardPart(directory, stem, messages[i]);
    // Without its message, nothing finds the upload until its age shows that it can be removed.
    return discarded.ok() ? RemoveObject(messages[i]) : discarded;
  });
  const absl::Status rest = RemoveObjects(others);
  return status.ok() ? rest : status;
}

// Names of uploads. Thread-safe.
class UploadNames {
 public:
  void Add(const std::string& upload) {
    MutexLock lock(mutex_);
    names_.insert(upload);
  }
  void MoveTo(std::set<std::string>* names) {
    MutexLock lock(mutex_);
    names->merge(names_);
  }

 private:
  Mutex mutex_;
  std::set<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

// Adds the uploads that the messages among these objects name.
absl::Status AddUploads(const std::vector<ObjectInfo>& objects, std::set<std::string>* used) {
  UploadNames found;
  absl::Status status =
      ParallelFor(objects.size(), kStoreRequests, {}, [&](size_t i) -> absl::Status {
        if (!objects[i].path.ends_with(kMessageEnding)) return absl::OkStatus();
        const absl::StatusOr<std::optional<PendingObject>> upload = UploadOf(objects[i].path);
        if (!upload.ok()) return upload.status();
        if (upload->has_value()) found.Add((*upload)->upload);
        return absl::OkStatus();
      });
  found.MoveTo(used);
  return status;
}

}  // namespace

StorePart::StorePart(std::string temporary, std::string directory, std::string folder,
                     std::string job, std::function<absl::Status()> check,
                     std::unique_ptr<UploadGroup> group)
    : PartStaging(std::move(temporary)),
      directory_(std::move(directory)),
      folder_(std::move(folder)),
      job_(std::move(job)),
      check_(std::move(check)),
      group_(std::move(group)) {}

absl::StatusOr<std::unique_ptr<StorePart>> StorePart::Create(const std::string& directory,
                                                             const std::string& job_folder,
                                                             const std::string& job, uint64_t first,
                                                             std::string_view attempt,
                                                             std::function<absl::Status()> check) {
  const absl::StatusOr<std::string> name = NewPartFolderName(first, attempt);
  if (!name.ok()) return name.status();
  absl::Status status = CheckStoreJob(job_folder);
  if (!status.ok()) return status;
  absl::StatusOr<std::unique_ptr<UploadGroup>> group = UploadGroup::Begin(directory);
  if (!group.ok()) return group.status();
  absl::StatusOr<std::string> temporary = MakeTemporaryFolder();
  if (!temporary.ok()) return temporary.status();
  std::unique_ptr<StorePart> made(new StorePart(*std::move(temporary), directory,
                                                JoinPath(job_folder, *name), job, std::move(check),
                                                *std::move(group)));
  // Shows `clean` that a task is at work.
  status = PutObject(JoinPath(made->folder_, kBegun), "");
  if (!status.ok()) return status;
  return made;
}

StorePart::~StorePart() {
  {
    MutexLock lock(mutex_);
    uploads_.clear();
    for (const std::string_view name : {kInputName, std::string_view(kBegun)}) {
      if (messages_.empty()) group_->Remove(JoinPath(folder_, name));
    }
  }
  group_.reset();  // waits until what was given up is removed
  RemoveTree(path_).IgnoreError();
}

absl::StatusOr<std::unique_ptr<StagedShard>> StorePart::Create(size_t number,
                                                               const std::string& name) {
  auto upload = std::make_shared<Upload>(*group_, JoinPath(directory_, name));
  MutexLock lock(mutex_);
  uploads_[number] = upload;
  return std::make_unique<UploadedShard>(std::move(upload));
}

absl::Status StorePart::WriteSidecars(uint64_t part, const FinishedShard& shard,
                                      const PendingObject& object, std::string* message) const {
  const absl::StatusOr<std::string> index =
      ReadFile(PartBase(path_, part) + kIndexEnding, kMaxIndexBytes);
  if (!index.ok()) return index.status();
  PartMessage said{.job = job_,
                   .part = part,
                   .folder = attempt(),
                   .index_bytes = index->size(),
                   .has_statistics = shard.values != nullptr,
                   .shard = shard};
  said.object = object;
  said.object->path = SplitPath(object.path).name;
  *message = FormatMessage(said);
  const std::string base = PartBase(folder_, part);
  absl::Status status = PutObject(base + kIndexEnding, *index);
  if (status.ok() && shard.values != nullptr) {
    status = PutObject(base + std::string(kStatisticsEnding), shard.values->Format(/*whole=*/true));
  }
  if (status.ok()) status = PutObject(base + std::string(kMessageEnding), *message);
  return status;
}

absl::Status StorePart::ShardFinished(size_t number, const FinishedShard& shard, bool /*sync*/) {
  std::shared_ptr<Upload> upload;
  {
    MutexLock lock(mutex_);
    upload = uploads_.at(number);
  }
  if (check_) {
    if (absl::Status status = check_(); !status.ok()) return status;
  }
  const absl::StatusOr<PendingObject> object = upload->Finish();
  if (!object.ok()) return object.status();
  const WorkStop whole{std::stop_token()};  // what follows is done to its end
  std::string message;
  absl::Status status = WriteSidecars(number, shard, *object, &message);
  if (!status.ok()) return status;
  // Removing a job begins with the object that this looks for.
  const std::string job_folder(SplitPath(folder_).directory);
  status = CheckStoreJob(job_folder);
  if (absl::IsFailedPrecondition(status)) {
    const std::string base = PartBase(folder_, number);
    for (std::string_view ending :
         {std::string_view(kIndexEnding), kStatisticsEnding, kMessageEnding}) {
      RemoveObject(base + std::string(ending)).IgnoreError();
    }
  }
  if (!status.ok()) return status;
  upload->Keep();
  MutexLock lock(mutex_);
  messages_[number] = std::move(message);
  return absl::OkStatus();
}

std::string StorePart::attempt() const { return std::string(SplitPath(folder_).name); }

std::string StorePart::MessageOf(uint64_t part) const {
  MutexLock lock(mutex_);
  const auto found = messages_.find(part);
  return found == messages_.end() ? "" : found->second;
}

absl::Status CreateStoreJob(const std::string& job_folder) {
  return PutObject(SharedJobPath(job_folder), kJob);
}

absl::Status CheckStoreJob(const std::string& job_folder) {
  const absl::StatusOr<bool> exists = ObjectExists(SharedJobPath(job_folder));
  if (!exists.ok()) return exists.status();
  return *exists ? absl::OkStatus() : JobIsGone(job_folder);
}

absl::Status FetchPartIndex(const std::string& job_folder, const PartMessage& message,
                            const std::string& index) {
  const std::string path =
      PartBase(JoinPath(job_folder, message.folder), message.part) + kIndexEnding;
  const absl::StatusOr<std::string> bytes = ReadObject(path, kMaxIndexBytes);
  if (absl::IsNotFound(bytes.status())) {
    absl::Status status = CheckStoreJob(job_folder);
    if (absl::IsFailedPrecondition(status)) return status;
    return absl::DataLossError(
        fmt::format("{}: the object of a finished part is gone; write the part again", path));
  }
  if (!bytes.ok()) return bytes.status();
  absl::Status written = WriteFile(index, *bytes, /*sync=*/false);
  if (!written.ok()) return written;
  return CheckPartIndex(index, path, message);
}

absl::Status CheckPartObjects(const std::string& job_folder, const PartMessage& message) {
  if (!NamesUpload(message)) {
    return absl::DataLossError(
        fmt::format("{}: the message of part {} does not name the upload of its shard",
                    JoinPath(job_folder, message.folder), message.part));
  }
  const absl::StatusOr<std::string> folder = MakeTemporaryFolder();
  if (!folder.ok()) return folder.status();
  absl::Status status = FetchPartIndex(job_folder, message, JoinPath(*folder, "index"));
  PartMessage copy = message;
  if (status.ok()) status = ReadPartStatistics(job_folder, &copy);
  RemoveTree(*folder).IgnoreError();
  return status;
}

absl::Status RemoveStoreJob(const std::string& directory, const std::string& stem,
                            const std::string& id) {
  const std::string job_folder = JoinPath(JobsPath(directory, stem), id);
  // Tasks that are still writing, and a driver that is about to commit, notice the removal. From
  // then on, no commit can need the rest.
  absl::Status status = WhileNothingIsCommitted(
      directory, stem, [&] { return RemoveObject(SharedJobPath(job_folder)); });
  if (!status.ok()) return status;
  const absl::StatusOr<JobObjects> objects = ObjectsOf(job_folder);
  if (!objects.ok()) return objects.status();
  status = RemoveAttempts(directory, stem, objects->attempts);
  return status.ok() ? RemoveObjects(objects->own) : status;
}

namespace {

// Removes the name of a job that tasks share if its time is over: it has been committed before
// `before`, or the job itself is gone. Jobs at work are listed by their own folders.
absl::Status CleanName(const std::string& jobs, const std::string& name, const JobObjects& objects,
                       std::time_t before, bool dry_run, std::vector<std::string>* removed) {
  const std::string path = JoinPath(jobs, name);
  if (!objects.committed) {
    const absl::StatusOr<std::string> text = ReadObject(SharedJobPath(path), kMaxJobFileBytes);
    if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
    const std::string id = text.ok() ? IdOfSharedJob(*text) : "";
    if (!id.empty()) {
      const absl::StatusOr<bool> exists = ObjectExists(SharedJobPath(JoinPath(jobs, id)));
      if (!exists.ok()) return exists.status();
      if (*exists) return absl::OkStatus();
    }
  } else if (objects.AnySince(before)) {
    return absl::OkStatus();
  }
  removed->push_back(path);
  return dry_run ? absl::OkStatus() : RemoveObjects(objects.own);
}

}  // namespace

absl::Status CleanStoreJobs(const std::string& directory, const std::string& stem,
                            std::time_t before, bool dry_run, std::vector<std::string>* removed,
                            std::vector<std::string>* kept, std::set<std::string>* used) {
  const std::string jobs = JobsPath(directory, stem);
  const absl::StatusOr<ObjectListing> listed = List(jobs);
  if (!listed.ok()) return listed.status();
  // Names after the jobs that they are the names of.
  std::vector<std::string> ids = listed->folders;
  std::stable_partition(ids.begin(), ids.end(), IsRandomJobId);
  for (const std::string& id : ids) {
    if (!IsPlainName(id)) continue;  // not ours
    const std::string path = JoinPath(jobs, id);
    const absl::StatusOr<JobObjects> objects = ObjectsOf(path);
    if (!objects.ok()) return objects.status();
    if (objects->empty()) continue;
    if (!IsRandomJobId(id)) {
      absl::Status status = CleanName(jobs, id, *objects, before, dry_run, removed);
      if (!status.ok()) return status;
      continue;
    }
    if (objects->AnySince(before)) {
      kept->push_back(path);
      absl::Status status = AddUploads(objects->attempts, used);
      if (!status.ok()) return status;
      continue;
    }
    removed->push_back(path);
    if (dry_run) continue;
    if (absl::Status status = RemoveStoreJob(directory, stem, id); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
