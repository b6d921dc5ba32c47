#include "shard/reshard/reshard_input.h"

#include <map>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "io/parallel.h"
#include "shard/indexing/index_build.h"
#include "shard/indexing/index_check.h"
#include "shard/manifest/manifest.h"
#include "shard/names/names.h"

namespace shardfeed {
absl::StatusOr<ReshardInput> ReshardInput::Open(const std::vector<ShardSet>& sets, int threads,
                                                std::stop_token stop,
                                                std::atomic<uint64_t>* bytes_passed) {
  ReshardInput input;
  input.schema_ = Schema();
  bool all_have_values = true;
  // The manifests' entries for shards, by the shards' numbers.
  struct Expected {
    ManifestShard shard;
    std::string manifest;
  };
  std::map<size_t, Expected> expected;
  for (const ShardSet& set : sets) {
    const size_t first = input.paths_.size();
    input.paths_.insert(input.paths_.end(), set.paths.begin(), set.paths.end());
    input.versions_.push_back(set.version);
    absl::StatusOr<Manifest> manifest = set.sharded_name
                                            ? ReadManifest(ManifestPath(set.directory, set.stem))
                                            : absl::StatusOr<Manifest>(absl::NotFoundError(""));
    if (!manifest.ok() && !absl::IsNotFound(manifest.status())) return manifest.status();
    const bool fits = manifest.ok() && Describes(*manifest, set);
    absl::Status joined =
        set.sharded_name ? input.declarations_.Add(
                               FormatSpec(set.directory, set.stem, set.paths.size(), set.suffix),
                               set, fits ? &*manifest : nullptr)
                         : input.declarations_.AddOf(set);
    if (!joined.ok()) return joined;
    if (!fits) input.schema_.reset();
    if (!manifest.ok()) continue;
    for (size_t i = 0; fits && i < set.paths.size(); ++i) {
      expected[first + i] = {manifest->shards[i], ManifestPath(set.directory, set.stem)};
    }
    if (input.schema_) input.schema_->Merge(manifest->schema);
    if (manifest->values == nullptr) {
      all_have_values = false;
    } else if (input.values_ == nullptr) {
      input.values_ = manifest->values;
    } else {
      ValueStatistics merged = *input.values_;
      merged.Merge(*manifest->values);
      input.values_ = std::make_shared<const ValueStatistics>(std::move(merged));
    }
  }
  if (input.paths_.empty())
    return absl::InvalidArgumentError("expected the name of at least one dataset");
  input.indexes_.resize(input.paths_.size());
  input.built_.resize(input.paths_.size());
  absl::Status status =
      ParallelFor(input.paths_.size(), ThreadCount(threads), stop, [&](size_t i) -> absl::Status {
        IndexBuildOptions building;
        building.stop = stop;
        bool built = false;
        absl::StatusOr<std::shared_ptr<const ShardIndex>> index =
            OpenOrBuildIndex(input.paths_[i], building, &built);
        input.built_[i] = built;
        if (!index.ok()) return index.status();
        if (bytes_passed != nullptr) *bytes_passed += (*index)->summary().shard_bytes;
        input.indexes_[i] = *std::move(index);
        return absl::OkStatus();
      });
  if (!status.ok()) {
    for (const DatasetVersion& version : input.versions_) status = version.CheckUnchanged(status);
    return status;
  }
  for (const auto& index : input.indexes_) {
    input.starts_.push_back(input.starts_.back() + index->records());
  }
  for (const auto& [i, of] : expected) {
    const IndexSummary& found = input.indexes_[i]->summary();
    if (found.shard_bytes == of.shard.bytes && found.records == of.shard.records &&
        found.records_digest == of.shard.records_digest) {
      continue;
    }
    return absl::DataLossError(fmt::format(
        "{}: its index lists {} bytes and {} records (digest {:08x}), but the manifest {} lists "
        "{} bytes and {} records (digest {:08x}): the shard was replaced or changed; "
        "find the difference with 'shardfeed verify', save intact records with 'shardfeed repair', "
        "or remove the manifest if the shards are right",
        input.paths_[i], found.shard_bytes, found.records, found.records_digest, of.manifest,
        of.shard.bytes, of.shard.records, of.shard.records_digest));
  }
  // Manifests with another number of records describe other records.
  if (input.schema_ && input.schema_->records() != input.num_records()) input.schema_.reset();
  if (!input.schema_ || !all_have_values) input.values_ = nullptr;
  input.types_ = input.schema_ ? input.schema_->Types() : input.declarations_.types();
  return input;
}

std::vector<std::string> ReshardInput::Notes() const {
  return declarations_.Notes(/*with_types=*/!schema_);
}

absl::Status ReshardInput::CheckUnchanged() const {
  for (const DatasetVersion& version : versions_) {
    if (absl::Status status = version.CheckUnchanged(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ReshardInput::CheckIndex(size_t i, std::stop_token stop) const {
  if (built_[i]) return absl::OkStatus();
  return CompareIndexWithShard(paths_[i], indexes_[i], stop);
}

std::optional<Compression> ReshardInput::compression() const {
  const Compression first = indexes_[0]->summary().compression;
  for (const auto& index : indexes_) {
    if (index->summary().compression != first) return std::nullopt;
  }
  return first;
}

}  // namespace shardfeed
