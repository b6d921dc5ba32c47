#include "shard/writing/clean.h"

#include <sys/stat.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "net/open.h"
#include "net/store.h"
#include "net/upload.h"
#include "shard/commit/file_replacement.h"
#include "shard/commit/staging.h"
#include "shard/commit/store_staging.h"
#include "shard/manifest/manifest.h"
#include "shard/names/names.h"
#include "shard/spec/folder_listing.h"
#include "shard/spec/spec.h"
#include "shard/writing/job_folders.h"
#include "shard/writing/part_folder.h"
#include "shard/writing/store_part.h"

namespace shardfeed {
namespace {

constexpr std::string_view kIncompleteEnding = ".incomplete";
constexpr std::string_view kIndexEnding = ".index";
constexpr size_t kBatchDigits = 8;  // at least, in the name of a micro-batch

std::optional<std::string> StemOf(const std::string& name, std::string_view ending) {
  if (!name.ends_with(ending)) return std::nullopt;
  return name.substr(0, name.size() - ending.size());
}

// The datasets of a folder that are to be cleaned: all; or that of a stem, and the micro-batches of
// a stream that was written under it, which are datasets of their own.
class Chosen {
 public:
  Chosen(std::string directory, std::optional<std::string> stem)
      : directory_(std::move(directory)), stem_(std::move(stem)) {}

  // Errors: those of ListFolder and ReadManifest.
  absl::StatusOr<bool> Has(const std::string& stem) {
    if (!stem_ || stem == *stem_) return true;
    if (!IsNumbered(stem)) return false;
    // It stays what it is while its files are removed.
    const auto known = batches_.find(stem);
    if (known != batches_.end()) return known->second;
    const absl::StatusOr<bool> is_batch = IsBatch(stem);
    if (is_batch.ok()) batches_[stem] = *is_batch;
    return is_batch;
  }

 private:
  // Whether the stem is named as that of a micro-batch. Other datasets may be, too: train-20261129.
  bool IsNumbered(std::string_view stem) const {
    if (!stem.starts_with(*stem_ + "-")) return false;
    const std::string_view number = stem.substr(stem_->size() + 1);
    return number.size() >= kBatchDigits && number.find_first_not_of("0123456789") == number.npos;
  }

  // Whether the job of the stem is that of a micro-batch, which stays until the batch is committed
  // and nothing else is left of it, or a micro-batch was committed.
  absl::StatusOr<bool> IsBatch(const std::string& stem) const {
    const absl::StatusOr<Folder> jobs = ListFolder(JobsPath(directory_, stem));
    if (!jobs.ok() && !absl::IsNotFound(jobs.status())) return jobs.status();
    if (jobs.ok() && std::ranges::any_of(jobs->folders, [](const std::string& name) {
          return IsStreamJobId(IsHiddenJobName(name) ? IdOfHidden(name) : name);
        })) {
      return true;
    }
    const absl::StatusOr<Manifest> manifest = ReadManifest(ManifestPath(directory_, stem));
    if (absl::IsNotFound(manifest.status()) || absl::IsDataLoss(manifest.status())) return false;
    if (!manifest.ok()) return manifest.status();
    return manifest->made_by.contains("query") && manifest->made_by.contains("batch");
  }

  const std::string directory_;
  const std::optional<std::string> stem_;
  std::map<std::string, bool> batches_;
};

// Takes the stems of the chosen datasets that have files of such endings in the hidden folder.
absl::StatusOr<std::set<std::string>> LeftBehind(const std::string& directory, Chosen& chosen,
                                                 std::initializer_list<std::string_view> endings) {
  const absl::StatusOr<Folder> hidden = ListFolder(SidecarPath(directory));
  std::set<std::string> stems;
  if (absl::IsNotFound(hidden.status())) return stems;
  if (!hidden.ok()) return hidden.status();
  for (const std::vector<std::string>* names : {&hidden->files, &hidden->folders}) {
    for (const std::string& name : *names) {
      for (std::string_view ending : endings) {
        std::optional<std::string> found = StemOf(name, ending);
        if (!found) continue;
        const absl::StatusOr<bool> has = chosen.Has(*found);
        if (!has.ok()) return has.status();
        if (*has) stems.insert(*std::move(found));
      }
    }
  }
  return stems;
}

// Returns the stem of the dataset whose index, index pack or manifest has that name in the hidden
// folder. Nullopt: none.
std::optional<std::string> SidecarStem(std::string_view name) {
  const std::string text(name);
  for (std::string_view ending : {kIndexPackEnding, kManifestEnding}) {
    if (std::optional<std::string> stem = StemOf(text, ending)) return stem;
  }
  const std::string shard = StemOf(text, kIndexEnding).value_or("");
  const std::optional<ShardNameView> parsed = ViewShardName(shard);
  if (!parsed) return std::nullopt;
  return std::string(parsed->stem);
}

// Removes what killed processes left of indexes and manifests that they replaced. The lock on such
// a file tells whether its writer lives.
absl::Status CleanReplacements(const std::string& directory, Chosen& chosen,
                               const CleanOptions& options, CleanSummary* summary) {
  const std::string folder = SidecarPath(directory);
  const absl::StatusOr<Folder> hidden = ListFolder(folder);
  if (absl::IsNotFound(hidden.status())) return absl::OkStatus();
  if (!hidden.ok()) return hidden.status();
  for (const std::string& name : hidden->files) {
    const std::string replaced(ReplacedBy(name));
    std::optional<std::string> found = SidecarStem(replaced);
    // It may be the index of a file that is not a shard of a set.
    if (!found) found = StemOf(replaced, kIndexEnding);
    if (!found) continue;
    const absl::StatusOr<bool> has = chosen.Has(*found);
    if (!has.ok()) return has.status();
    if (!*has) continue;
    const std::string path = JoinPath(folder, name);
    const absl::StatusOr<bool> removed = RemoveAbandoned(path, options.dry_run);
    if (!removed.ok()) return removed.status();
    if (*removed) summary->removed.push_back(path);
  }
  return absl::OkStatus();
}

absl::Status CleanFolder(const std::string& directory, Chosen& chosen,
                         const std::set<std::string>& stems, const CleanOptions& options,
                         CleanSummary* summary) {
  for (const std::string& one : stems) {
    struct stat info;
    const bool committed = ::lstat(CommitPath(directory, one).c_str(), &info) == 0;
    if (!options.dry_run) {
      // Opening finishes a commit.
      const absl::StatusOr<std::unique_ptr<Staging>> staging = Staging::Open(directory, one);
      absl::Status status = staging.ok() ? (*staging)->Discard() : staging.status();
      if (!status.ok()) return status;
    }
    if (committed) {
      summary->finished.push_back(one);
    } else {
      summary->removed.push_back(StagingPath(directory, one));
    }
  }
  const absl::StatusOr<std::set<std::string>> jobs = LeftBehind(directory, chosen, {kJobsEnding});
  if (!jobs.ok()) return jobs.status();
  for (const std::string& one : *jobs) {
    absl::Status status = CleanJobs(directory, one, options.begun_before, options.dry_run,
                                    &summary->removed, &summary->kept);
    if (!status.ok()) return status;
  }
  return CleanReplacements(directory, chosen, options, summary);
}

// Returns the stem of the dataset that an unfinished object belongs to. Nullopt: none.
std::optional<std::string> WrittenStem(std::string_view path, bool sidecar) {
  const std::string_view name = SplitPath(path).name;
  if (sidecar) return SidecarStem(name);
  const std::optional<ShardNameView> shard = ViewShardName(name);
  if (!shard) return std::nullopt;
  return std::string(shard->stem);
}

// Removes unfinished uploads of a dataset. A writer that commits meanwhile waits, and then finds
// out that its parts are gone; what another one has committed by now is not touched.
absl::Status DiscardUploads(const std::string& directory, const std::string& stem,
                            const std::vector<UnfinishedUpload>& uploads, CleanSummary* summary) {
  const auto discard = [&]() -> absl::Status {
    std::set<std::string> there;
    for (const std::string& folder : {directory, SidecarPath(directory)}) {
      const absl::StatusOr<std::vector<UnfinishedUpload>> now = ListUploads(folder);
      if (!now.ok()) return now.status();
      for (const UnfinishedUpload& upload : *now) there.insert(upload.path + "\n" + upload.upload);
    }
    for (const UnfinishedUpload& upload : uploads) {
      if (!there.contains(upload.path + "\n" + upload.upload)) continue;
      absl::Status status = Discard({upload.path, upload.upload, {}, 0, ""});
      if (!status.ok()) return status;
      summary->removed.push_back(upload.path);
    }
    return absl::OkStatus();
  };
  return WhileNothingIsCommitted(directory, stem, discard);
}

absl::Status CleanStore(const std::string& directory, Chosen& chosen,
                        const std::set<std::string>& stems, const CleanOptions& options,
                        CleanSummary* summary) {
  for (const std::string& one : stems) {
    if (!options.dry_run) {
      const absl::StatusOr<FoundCommit> found = FinishStoreCommit(directory, one);
      if (!found.ok()) return found.status();
      if (*found == FoundCommit::kNone) continue;  // Its writer or another process was quicker.
      if (*found == FoundCommit::kDiscarded) {
        summary->removed.push_back(CommitPath(directory, one));
        continue;
      }
    }
    summary->finished.push_back(one);
  }
  // Jobs come first: removing a job removes its uploads, which must not be removed before it.
  std::set<std::string> used;
  const absl::StatusOr<std::set<std::string>> jobs = LeftBehind(directory, chosen, {kJobsEnding});
  if (!jobs.ok()) return jobs.status();
  for (const std::string& one : *jobs) {
    absl::Status status = CleanStoreJobs(directory, one, options.begun_before, options.dry_run,
                                         &summary->removed, &summary->kept, &used);
    if (!status.ok()) return status;
  }
  std::map<std::string, std::vector<UnfinishedUpload>> abandoned;  // keyed by the stem
  for (const std::string& folder : {directory, SidecarPath(directory)}) {
    const absl::StatusOr<std::vector<UnfinishedUpload>> uploads = ListUploads(folder);
    if (!uploads.ok()) return uploads.status();
    for (const UnfinishedUpload& upload : *uploads) {
      const std::optional<std::string> writes = WrittenStem(upload.path, folder != directory);
      if (!writes) continue;
      const absl::StatusOr<bool> has = chosen.Has(*writes);
      if (!has.ok()) return has.status();
      if (!*has) continue;
      if (options.dry_run && stems.contains(*writes)) continue;
      if (upload.expires) {
        summary->expiring.push_back(upload.path);
        continue;
      }
      if (used.contains(upload.upload)) continue;
      if (upload.begun >= options.begun_before) {
        summary->kept.push_back(upload.path);
        continue;
      }
      // A writer that has been at work for so long may be committing right now.
      const absl::StatusOr<bool> committing = ObjectExists(CommitPath(directory, *writes));
      if (!committing.ok()) return committing.status();
      if (*committing) {
        summary->kept.push_back(upload.path);
        continue;
      }
      if (options.dry_run) {
        summary->removed.push_back(upload.path);
      } else {
        abandoned[*writes].push_back(upload);
      }
    }
  }
  for (const auto& [one, uploads] : abandoned) {
    absl::Status status = DiscardUploads(directory, one, uploads, summary);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CleanSummary> CleanDatasets(const std::string& spec, const CleanOptions& options) {
  std::string directory = spec;
  std::optional<std::string> stem;
  if (directory.ends_with('/')) {
    if (directory.starts_with("file:///")) directory = directory.substr(7);
    while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
    if (IsRemote(directory)) {
      if (absl::Status status = CheckWritable(directory); !status.ok()) return status;
    } else if (const absl::StatusOr<Folder> there = ListFolder(directory); !there.ok()) {
      return there.status();
    }
  } else {
    absl::StatusOr<OutputSpec> output = ParseOutputSpec(spec);
    if (!output.ok()) return output.status();
    directory = std::move(output->directory);
    stem = std::move(output->stem);
  }
  Chosen chosen(directory, std::move(stem));
  absl::StatusOr<std::set<std::string>> stems =
      LeftBehind(directory, chosen, {kCommitEnding, kIncompleteEnding});
  if (!stems.ok()) return stems.status();
  CleanSummary summary;
  const absl::Status status = IsRemote(directory)
                                  ? CleanStore(directory, chosen, *stems, options, &summary)
                                  : CleanFolder(directory, chosen, *stems, options, &summary);
  if (!status.ok()) return status;
  return summary;
}

}  // namespace shardfeed
