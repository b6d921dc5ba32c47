#include "shard/indexing/dataset_indexes.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/suggestion.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/parallel.h"
#include "shard/formats/shard_notes.h"
#include "shard/indexing/index_pack_write.h"
#include "shard/indexing/index_write.h"
#include "shard/manifest/manifest.h"
#include "shard/names/names.h"

namespace shardfeed {
namespace {

absl::Status NoSuchFeature(const std::string& name, const std::set<std::string>& features) {
  const std::vector<std::string> known(features.begin(), features.end());
  return absl::InvalidArgumentError(
      fmt::format("no record has a feature named '{}'{}", name, DidYouMean(name, known)));
}

// Returns the features in the manifest of the set; nullopt if there is none that describes it.
std::optional<std::set<std::string>> FeaturesInManifest(const ShardSet& set) {
  if (!set.sharded_name) return std::nullopt;
  const absl::StatusOr<Manifest> manifest = ReadManifest(ManifestPath(set.directory, set.stem));
  if (!manifest.ok() || !Describes(*manifest, set)) return std::nullopt;
  std::set<std::string> features;
  for (const auto& [name, feature] : manifest->schema.features()) features.insert(name);
  return features;
}

absl::StatusOr<std::shared_ptr<const ShardIndex>> OpenWritten(const std::string& path) {
  return ShardIndex::Open(IndexPath(path));
}

// Reports a misspelled feature before records are read. Columns of functions are not features.
absl::Status CheckFeatures(const ShardSet& set, const std::vector<std::string>& names,
                           const std::set<std::string>& features) {
  for (const std::string& name : names) {
    if (features.contains(name)) continue;
    const absl::StatusOr<std::shared_ptr<const ShardIndex>> first = OpenWritten(set.paths[0]);
    if (first.ok() && (*first)->FindLengths(name) != nullptr) continue;
    return NoSuchFeature(name, features);
  }
  return absl::OkStatus();
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Adds columns of zeros for `features`, which no record of the shard has.
absl::Status AddZeros(const std::string& path, const std::vector<std::string>& features,
                      const std::stop_token& stop) {
  const absl::StatusOr<std::shared_ptr<const ShardIndex>> index = OpenWritten(path);
  if (!index.ok()) return index.status();
  std::vector<NewLengthColumn> columns;
  columns.reserve(features.size());
  for (const std::string& name : features) {
    columns.push_back({name, std::vector<uint64_t>((*index)->records())});
  }
  return AddLengthColumns(path, **index, columns, stop);
}

// Checks that each feature exists: a shard may lack it, but not all shards that were measured,
// unless the manifest has it.
absl::Status CheckFound(const ShardSet& set, const std::vector<std::string>& names,
                        const std::set<std::string>& in_manifest,
                        const std::vector<WrittenIndex>& all) {
  std::set<std::string> seen;
  for (const WrittenIndex& one : all) seen.insert(one.features.begin(), one.features.end());
  for (const std::string& name : names) {
    const auto lacks = [&](const WrittenIndex& one) { return Contains(one.missing, name); };
    const auto has = [&](const WrittenIndex& one) {
      return Contains(one.measured, name) && !Contains(one.missing, name);
    };
    const auto first = std::find_if(all.begin(), all.end(), lacks);
    if (first == all.end() || in_manifest.contains(name) ||
        std::any_of(all.begin(), all.end(), has)) {
      continue;
    }
    if (std::all_of(all.begin(), all.end(), lacks)) return NoSuchFeature(name, seen);
    return absl::InvalidArgumentError(
        fmt::format("{}: no record has a feature named '{}', but other shards have lengths of that "
                    "name: add its lengths as theirs were added, such as by a function",
                    set.paths[first - all.begin()], name));
  }
  return absl::OkStatus();
}

absl::Status WriteAll(const ShardSet& set, const std::vector<std::string>& lengths,
                      const DatasetIndexesOptions& options, std::vector<WrittenIndex>* all,
                      std::vector<std::vector<std::string>>* notes) {
  std::set<std::string> in_manifest;
  if (!lengths.empty()) {
    if (auto features = FeaturesInManifest(set)) {
      in_manifest = *std::move(features);
      absl::Status status = CheckFeatures(set, lengths, in_manifest);
      if (!status.ok()) return status;
    }
  }
  const size_t shards = set.paths.size();
  const int threads = ThreadCount(options.threads);
  const auto tell = [&](size_t i) -> absl::Status {
    if (!options.on_index) return absl::OkStatus();
    const absl::StatusOr<std::shared_ptr<const ShardIndex>> index = OpenWritten(set.paths[i]);
    return index.ok() ? options.on_index(i, **index) : index.status();
  };
  IndexBuildOptions building;
  // If there are more threads than shards, several work on each shard.
  building.threads = std::max<int>(1, threads / static_cast<int>(shards));
  building.stop = options.stop;
  building.bytes_passed = options.bytes_passed;
  building.bytes_read = options.bytes_read;
  absl::Status status = ParallelFor(shards, threads, options.stop, [&](size_t i) -> absl::Status {
    IndexBuildOptions building_one = building;
    building_one.notes = &(*notes)[i];
    absl::StatusOr<WrittenIndex> written =
        WriteIndexWithLengths(set.paths[i], lengths, building_one);
    if (!written.ok()) return written.status();
    (*all)[i] = *std::move(written);
    return (*all)[i].missing.empty() ? tell(i) : absl::OkStatus();
  });
  if (!status.ok()) return status;
  status = CheckFound(set, lengths, in_manifest, *all);
  if (!status.ok()) return status;
  return ParallelFor(shards, threads, options.stop, [&](size_t i) -> absl::Status {
    const std::vector<std::string>& missing = (*all)[i].missing;
    if (missing.empty()) return absl::OkStatus();
    absl::Status added = AddZeros(set.paths[i], missing, options.stop);
    return added.ok() ? tell(i) : added;
  });
}

}  // namespace

absl::StatusOr<DatasetIndexes> WriteIndexes(const ShardSet& set,
                                            const DatasetIndexesOptions& options) {
  const std::set<std::string> names(options.lengths.begin(), options.lengths.end());
  const std::vector<std::string> lengths(names.begin(), names.end());
  std::vector<WrittenIndex> all(set.paths.size());
  std::vector<std::vector<std::string>> notes(set.paths.size());
  absl::Status status = WriteAll(set, lengths, options, &all, &notes);
  if (status.ok()) status = UpdateIndexPacks(set, options.stop);
  if (!status.ok()) return set.version.CheckUnchanged(status);
  DatasetIndexes done;
  ShardNotes told;
  for (size_t i = 0; i < all.size(); ++i) {
    const WrittenIndex& written = all[i];
    done.records += written.summary.records;
    done.shard_bytes += written.summary.shard_bytes;
    if (!written.measured.empty()) ++done.shards_measured;
    told.Add(std::move(notes[i]));
    if (written.dropped.empty()) continue;
    told.Add(fmt::format(
        "{}: has other records than when its lengths were measured, which were left out: {}",
        set.paths[i], fmt::join(written.dropped, ", ")));
  }
  done.notes = told.Take();
  return done;
}

}  // namespace shardfeed
