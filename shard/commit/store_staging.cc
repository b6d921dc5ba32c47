#include "shard/commit/store_staging.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/mutex.h"
#include "fmt/format.h"
#include "io/bounded_json.h"
#include "io/errno_status.h"
#include "io/file.h"
#include "io/output_file.h"
#include "io/parallel.h"
#include "net/store.h"
#include "net/transfers.h"
#include "net/upload.h"
#include "nlohmann/json.hpp"
#include "shard/index/index_pack.h"
#include "shard/names/names.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 32;
constexpr char kRecordFormat[] = "shardfeed store commit 1";
constexpr char kRecordHead[] = R"({"format":"shardfeed store commit 1",)";
// Bytes of the index pack that are read at a time.
constexpr uint64_t kCopyBytes = 8 << 20;
// Requests at a time when a dataset is put into place.
constexpr int kRequests = 32;

// The content of a commit record.
struct StoreCommit {
  std::string writer;  // UploadGroup::id
  std::string before;  // ManifestVersion when the writer began
  // Shard 0, its index, shard 1, its index and so on; then the index pack, if there is one.
  std::vector<PendingObject> objects;
  std::vector<std::string> old;  // names of old shards
  std::string manifest;
};

std::string FormatRecord(const StoreCommit& commit, const std::string& suffix) {
  const auto format = [&commit](const PendingObject& object) {
    nlohmann::ordered_json json = PendingToJson(object);
    if (object.writer != commit.writer) json["writer"] = object.writer;
    return json;
  };
  nlohmann::ordered_json objects = nlohmann::ordered_json::array();
  for (size_t i = 0; i + 1 < commit.objects.size(); ++i) {
    objects.push_back(format(commit.objects[i]));
  }
  // Names may have bytes that are not UTF-8.
  nlohmann::ordered_json old = nlohmann::ordered_json::array();
  for (const std::string& name : commit.old) old.push_back(absl::CHexEscape(name));
  const nlohmann::ordered_json record = {
      {"format", kRecordFormat},       {"writer", commit.writer},
      {"before", commit.before},       {"suffix", absl::CHexEscape(suffix)},
      {"objects", std::move(objects)}, {"indexes", format(commit.objects.back())},
      {"old", std::move(old)},         {"manifest", commit.manifest}};
  return record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::StatusOr<StoreCommit> ParseRecord(std::string_view text, const std::string& path,
                                        const std::string& directory, const std::string& stem) {
  const auto broken = [&path](const std::string& what) {
    return absl::DataLossError(fmt::format(
        "{}: invalid commit record: {}; remove it, and write the dataset again", path, what));
  };
  nlohmann::json json;
  if (absl::Status parsed = ParseBoundedJson(text, &json); !parsed.ok()) {
    return broken(std::string(parsed.message()));
  }
  JsonMembers members;
  StoreCommit commit;
  if (members.Text(json, "format") != kRecordFormat) return broken("unknown format");
  commit.writer = members.Text(json, "writer");
  commit.before = members.Text(json, "before");
  commit.manifest = members.Text(json, "manifest");
  std::string suffix;
  bool escaped = absl::CUnescape(members.Text(json, "suffix"), &suffix);
  for (const std::string& name : members.Texts(json, "old")) {
    escaped &= absl::CUnescape(name, &commit.old.emplace_back());
  }
  const auto add = [&](const nlohmann::json& object) {
    PendingObject& pending = commit.objects.emplace_back(PendingFromJson(members, object));
    // Shards of a job have writers of their own.
    pending.writer = object.contains("writer") ? members.Text(object, "writer") : commit.writer;
  };
  for (const nlohmann::json& object : members.Array(json, "objects")) add(object);
  if (!members.status().ok()) return broken(std::string(members.status().message()));
  if (!escaped) return broken("its names are not escaped as they should be");
  // Objects are replaced and removed only if their names belong to this dataset.
  const size_t shards = commit.objects.size() / 2;
  const std::string first = ShardName(stem, 0, shards, suffix);
  const std::optional<ShardNameView> parsed = ViewShardName(first);
  const bool paired = commit.objects.size() % 2 == 0;
  // Writers of earlier versions made no pack.
  if (json.contains("indexes")) {
    add(members.Object(json, "indexes"));
    if (!members.status().ok()) return broken(std::string(members.status().message()));
    commit.objects.back().path = IndexPackPath(directory, stem);
  }
  if (shards == 0 || !paired || !parsed || parsed->stem != stem || parsed->suffix != suffix ||
      first.find('/') != first.npos) {
    return broken("its shards would have invalid names");
  }
  std::set<std::string> names;
  for (size_t i = 0; i < shards; ++i) {
    const std::string name = ShardName(stem, i, shards, suffix);
    commit.objects[2 * i].path = JoinPath(directory, name);
    commit.objects[2 * i + 1].path = IndexPath(JoinPath(directory, name));
    names.insert(name);
  }
  for (const std::string& name : commit.old) {
    const std::optional<ShardNameView> shard = ViewShardName(name);
    if (!shard || shard->stem != stem || name.find('/') != name.npos || names.contains(name)) {
      return broken(fmt::format("'{}' is not the name of an old shard", name));
    }
  }
  return commit;
}

// Nullopt: there is no commit record. DataLoss: there is something else.
absl::StatusOr<std::optional<std::string>> ReadRecord(const std::string& path) {
  absl::StatusOr<std::string> text = ReadObject(path, kMaxRecordBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  if (text->starts_with(kRecordHead)) return *std::move(text);
  return absl::DataLossError(
      fmt::format("{}: not a commit record; remove it, and write the dataset again if it is not "
                  "complete",
                  path));
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
  // A reader takes a dataset without a manifest for an incomplete one while there is a record.
  const std::string manifest = ManifestPath(directory, stem);
  absl::Status status = RemoveObject(manifest);
  if (!status.ok()) return status;
  status = ParallelFor(commit.objects.size(), kRequests, {},
                       [&](size_t i) { return Publish(commit.objects[i]).status(); });
  // A writer of an earlier version made no pack, so a pack that exists belongs to another dataset.
  if (status.ok() && commit.objects.size() % 2 == 0) {
    status = RemoveObject(IndexPackPath(directory, stem));
  }
  if (!status.ok()) return status;
  status = ParallelFor(commit.old.size(), kRequests, {}, [&](size_t i) {
    const std::string old = JoinPath(directory, commit.old[i]);
    absl::Status removed = RemoveObject(IndexPath(old));
    return removed.ok() ? RemoveObject(old) : removed;
  });
  if (status.ok()) status = PutObject(manifest, commit.manifest);
  if (status.ok()) status = RemoveObject(CommitPath(directory, stem));
  return status;
}

// Checks that every object of the commit is published or can be.
absl::Status CheckParts(const StoreCommit& commit) {
  const absl::StatusOr<std::vector<size_t>> missing = WithoutParts(commit.objects);
  if (!missing.ok()) return missing.status();
  return ParallelFor(missing->size(), kRequests, {}, [&](size_t i) -> absl::Status {
    const PendingObject& object = commit.objects[(*missing)[i]];
    const absl::StatusOr<ObjectInfo> info = StatObject(object.path);
    if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
    if (info.ok() && info->writer == object.writer && info->size == object.bytes) {
      return absl::OkStatus();
    }
    return absl::DataLossError(
        fmt::format("{}: its uploaded parts were removed from the store", object.path));
  });
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
    std::error_code ignored;
    fs::remove_all(path_, ignored);
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
  // The old dataset stays if something has removed what others have uploaded.
  absl::Status status = uploaded_.objects.empty() ? absl::OkStatus() : CheckParts(*commit);
  if (status.ok()) status = CreateRecord(FormatRecord(*commit, plan.suffix));
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
  if (status.ok() && uploaded_.check) status = uploaded_.check();
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
  return absl::Status(
      status.code(),
      fmt::format("{}; the new dataset is complete, and 'shardfeed clean {}' puts the rest of it "
                  "into place",
                  std::string(status.message()), JoinPath(directory_, stem_)));
}

}  // namespace

nlohmann::ordered_json PendingToJson(const PendingObject& object) {
  return {{"bytes", object.bytes}, {"upload", object.upload}, {"parts", object.parts}};
}

PendingObject PendingFromJson(JsonMembers& members, const nlohmann::json& json) {
  PendingObject object;
  object.bytes = members.Number(json, "bytes");
  object.upload = members.Text(json, "upload");
  object.parts = members.Texts(json, "parts");
  return object;
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
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  return absl::OkStatus();
}

absl::StatusOr<FoundCommit> FinishStoreCommit(const std::string& directory,
                                              const std::string& stem) {
  const std::string path = CommitPath(directory, stem);
  absl::StatusOr<std::optional<std::string>> record = ReadRecord(path);
  if (!record.ok()) return record.status();
  if (!record->has_value()) return FoundCommit::kNone;
  absl::StatusOr<StoreCommit> commit = ParseRecord(**record, path, directory, stem);
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
    // It is put into place last; but the old dataset's may have been the same.
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
  absl::Status status = CheckParts(*commit);
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

}  // namespace shardfeed
