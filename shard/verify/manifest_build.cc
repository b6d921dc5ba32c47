#include "shard/verify/manifest_build.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "io/parallel.h"
#include "net/open.h"
#include "net/upload.h"
#include "shard/commit/file_replacement.h"
#include "shard/commit/staging.h"
#include "shard/commit/store_staging.h"
#include "shard/declarations/feature_names.h"
#include "shard/declarations/tfds_features.h"
#include "shard/names/file_identity.h"
#include "shard/names/names.h"
#include "shard/statistics/dataset_statistics.h"
#include "shard/verify/shard_report.h"
#include "shardfeed/verify.h"

namespace shardfeed {
namespace {

// Number of concurrent requests to a store.
constexpr int kRequests = 32;

// The error for a defect. An unreadable shard is not necessarily damaged.
absl::Status ErrorOf(const Defect& defect, std::string_view remedy) {
  if (defect.kind == "unreadable") return absl::UnavailableError(defect.detail);
  return absl::DataLossError(fmt::format("{}; {}", defect.detail, remedy));
}

// The first defect, except for records that are not Examples, which a manifest counts.
absl::Status FirstDefect(const VerifyReport& report, uint64_t not_examples) {
  if (report.num_defects() == not_examples) return absl::OkStatus();
  if (!report.manifest_defects.empty()) {
    return ErrorOf(report.manifest_defects.front(),
                   "remove the manifest if the shards are correct");
  }
  for (const ShardReport& shard : report.shards) {
    for (const Defect& defect : shard.defects) {
      if (defect.kind == "not an Example") continue;
      return ErrorOf(defect, "run 'shardfeed verify' for all defects");
    }
  }
  return absl::DataLossError("the shards are damaged; 'shardfeed verify' finds the defects");
}

absl::StatusOr<Manifest> NewManifest(const ShardSet& set, const VerifyReport& report,
                                     std::map<std::string, std::string> made_by) {
  Manifest manifest;
  manifest.stem = set.stem;
  manifest.suffix = set.suffix;
  manifest.made_by = std::move(made_by);
  const ShardReport* compressed = nullptr;  // the first whose compression is known
  for (size_t i = 0; i < report.shards.size(); ++i) {
    const ShardReport& shard = report.shards[i];
    manifest.shards.push_back({ShardName(set.stem, i, report.shards.size(), set.suffix),
                               shard.bytes, shard.records, shard.records_digest.value_or(0)});
    if (shard.records == 0) continue;
    if (compressed == nullptr) compressed = &shard;
    if (shard.compression != compressed->compression) {
      return absl::FailedPreconditionError(fmt::format(
          "{} has compression {}, but {} has {}: a manifest describes shards of one compression",
          compressed->shard, CompressionName(compressed->compression), shard.shard,
          CompressionName(shard.compression)));
    }
  }
  if (compressed != nullptr) manifest.compression = compressed->compression;
  return manifest;
}

// FileIdentity of each shard.
using Identities = std::vector<std::vector<uint64_t>>;

absl::StatusOr<Identities> IdentitiesOf(const ShardSet& set) {
  Identities identities(set.paths.size());
  absl::Status status = ParallelFor(set.paths.size(), kRequests, {}, [&](size_t i) -> absl::Status {
    absl::StatusOr<std::vector<uint64_t>> identity = FileIdentity(set.paths[i]);
    if (!identity.ok()) return identity.status();
    identities[i] = *std::move(identity);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return identities;
}

// Checks that the shards are those that were read.
absl::Status CheckUnchanged(const ShardSet& set, const Identities& before) {
  const absl::StatusOr<Identities> now = IdentitiesOf(set);
  if (!now.ok()) return now.status();
  for (size_t i = 0; i < before.size(); ++i) {
    if ((*now)[i] == before[i]) continue;
    return absl::AbortedError(fmt::format(
        "{}: the shard was replaced while the dataset was read; run again", set.paths[i]));
  }
  return set.version.CheckUnchanged();
}

absl::Status Write(const std::string& path, const std::string& text, const std::stop_token& stop) {
  if (IsRemote(path)) return PutObject(path, text);
  absl::StatusOr<std::unique_ptr<FileReplacement>> replacement = FileReplacement::Begin(path, stop);
  if (!replacement.ok()) return replacement.status();
  const absl::Status status = (*replacement)->file().Append(text);
  return status.ok() ? (*replacement)->Commit() : status;
}

}  // namespace

absl::StatusOr<Manifest> WriteManifest(const ShardSet& set, const ManifestBuildOptions& options) {
  if (!set.sharded_name) {
    return absl::InvalidArgumentError(
        "only a whole dataset has a manifest: name it by its stem and number of shards, stem@N");
  }
  VerifyOptions verifying;
  verifying.level = VerifyLevel::kExamples;
  verifying.threads = options.threads;
  verifying.stop = options.stop;
  verifying.bytes_passed = options.bytes_passed;
  const absl::StatusOr<Identities> before = IdentitiesOf(set);
  if (!before.ok()) return before.status();
  DatasetStatistics found;
  const absl::StatusOr<VerifyReport> report = Verify(set, verifying, &found);
  if (!report.ok()) return report.status();
  absl::Status status = FirstDefect(*report, found.schema().not_examples());
  if (status.ok()) {
    status =
        CheckFeatureNames({set.directory, set.stem, set.suffix, set.paths.size()}, found.schema());
  }
  if (!status.ok()) return status;
  const std::string path = ManifestPath(set.directory, set.stem);
  absl::StatusOr<Manifest> manifest;
  if (report->has_manifest) {
    // Only its writer knows the types and classes in it.
    manifest = ReadManifest(path);
    if (!manifest.ok()) return manifest;
    if (manifest->values != nullptr && manifest->schema.knows_steps()) return manifest;
    manifest->schema.SetSteps(found.schema());
  } else {
    manifest = NewManifest(set, *report, options.made_by);
    if (!manifest.ok()) return manifest;
    manifest->schema = found.TakeSchema();
    absl::StatusOr<std::optional<TfdsDeclared>> tfds = FindTfdsDeclared(set);
    if (!tfds.ok()) return tfds.status();
    if (*tfds) {
      // Readers of a dataset with a manifest look for no other description.
      if (!(*tfds)->notes.empty()) {
        return absl::FailedPreconditionError(fmt::format(
            "{}: declares more than a manifest can hold; without a manifest, readers use it",
            JoinPath(set.directory, "features.json")));
      }
      manifest->schema.SetTypes((*tfds)->types);
      manifest->classes = std::move((*tfds)->classes);
    }
  }
  if (manifest->values == nullptr) {
    manifest->values = std::make_shared<const ValueStatistics>(found.TakeValues());
  }
  // No writer may commit another dataset of this name before the manifest is in place.
  const auto write = [&] {
    absl::Status unchanged = CheckUnchanged(set, *before);
    return unchanged.ok() ? Write(path, FormatManifest(*manifest), options.stop) : unchanged;
  };
  if (IsRemote(set.directory)) {
    status = WhileNothingIsCommitted(set.directory, set.stem, write);
  } else {
    const absl::StatusOr<std::unique_ptr<Staging>> lock = Staging::Open(set.directory, set.stem);
    if (!lock.ok()) return lock.status();
    (*lock)->Keep(true);  // what an interrupted writer may resume
    status = write();
  }
  if (!status.ok()) return status;
  return manifest;
}

}  // namespace shardfeed
