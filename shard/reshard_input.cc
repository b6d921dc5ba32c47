#include "shard/reshard_input.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/parallel.h"
#include "shard/index_build.h"
#include "shard/index_check.h"
#include "shard/manifest.h"
#include "shard/names.h"
#include "shard/tfds_features.h"

namespace shardfeed {
namespace {

// The types of datasets whose records become one dataset: those on which all agree.
class JoinedTypes {
 public:
  // `types` is null if they are unknown.
  void Add(const std::string& dataset, const FeatureTypes* types, bool of_tfds) {
    if (of_tfds && declared_by_.empty()) declared_by_ = dataset;
    if (types == nullptr) {
      if (unknown_.empty()) unknown_ = dataset;
    } else if (std::exchange(is_first_, false)) {
      types_ = *types;
    } else {
      for (const auto& [name, type] : *types) {
        if (!types_.contains(name)) differing_.insert(QuotedName(name));
      }
      std::erase_if(types_, [&](const auto& one) {
        const auto other = types->find(one.first);
        const bool same = other != types->end() && other->second == one.second;
        if (!same) differing_.insert(QuotedName(one.first));
        return !same;
      });
    }
  }

  // What is lost of what TFDS declares; empty if nothing is.
  std::string Note() const {
    if (declared_by_.empty()) return "";
    if (!unknown_.empty()) {
      return fmt::format("the types that TFDS declares for {} are not kept, since {} declares none",
                         declared_by_, unknown_);
    }
    if (differing_.empty()) return "";
    constexpr size_t kShown = 5;
    const size_t count = differing_.size();
    std::vector<std::string> shown(differing_.begin(), differing_.end());
    if (count > kShown) shown.resize(kShown);
    return fmt::format("the types of {} are not kept, since not all datasets have the same: {}{}",
                       count == 1 ? "1 feature" : fmt::format("{} features", count),
                       fmt::join(shown, ", "), count > kShown ? ", ..." : "");
  }
  FeatureTypes Take() { return unknown_.empty() ? std::move(types_) : FeatureTypes(); }

 private:
  bool is_first_ = true;
  FeatureTypes types_;
  std::set<std::string> differing_;  // names of features in quotes
  std::string declared_by_;          // the first dataset that TFDS describes
  std::string unknown_;              // the first dataset without types
};

}  // namespace

absl::StatusOr<ReshardInput> ReshardInput::Open(const std::vector<ShardSet>& sets, int threads,
                                                std::stop_token stop,
                                                std::atomic<uint64_t>* bytes_passed) {
  ReshardInput input;
  input.schema_ = Schema();
  bool all_have_values = true;
  JoinedTypes joined_types;
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
    absl::StatusOr<std::optional<TfdsDeclared>> tfds = std::nullopt;
    if (!fits) tfds = FindTfdsDeclared(set);
    if (!tfds.ok()) return tfds.status();
    const std::string name =
        set.sharded_name
            ? FormatSpec(set.directory, set.stem, set.paths.size(), set.suffix)
            : std::string(SplitPath(set.paths.empty() ? "" : set.paths.front()).directory);
    absl::Status joined = *tfds ? input.classes_.Add(name, &(*tfds)->classes)
                          : set.sharded_name
                              ? input.classes_.Add(name, fits ? &manifest->classes : nullptr)
                              : input.classes_.AddOf(set);
    if (!joined.ok()) return joined;
    if (*tfds) {
      for (std::string& note : (*tfds)->notes) input.notes_of_types_.push_back(std::move(note));
      joined_types.Add(name, &(*tfds)->types, /*of_tfds=*/true);
    } else {
      const FeatureTypes types = fits ? manifest->schema.Types() : FeatureTypes();
      joined_types.Add(name, fits ? &types : nullptr, /*of_tfds=*/false);
    }
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
  if (input.schema_) {
    input.types_ = input.schema_->Types();
  } else {
    std::string note = joined_types.Note();
    if (!note.empty()) input.notes_of_types_.push_back(std::move(note));
    input.types_ = joined_types.Take();
  }
  return input;
}

std::vector<std::string> ReshardInput::Notes() const {
  std::vector<std::string> notes = classes_.Notes();
  notes.insert(notes.end(), notes_of_types_.begin(), notes_of_types_.end());
  return notes;
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
