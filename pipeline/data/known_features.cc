#include "pipeline/data/known_features.h"

#include "fmt/format.h"
#include "shard/manifest.h"
#include "shard/shard_reader.h"

namespace shardfeed {

absl::StatusOr<Schema> FindSchema(const ShardSet& set) {
  if (const std::shared_ptr<const Manifest> manifest = set.manifest;
      manifest != nullptr && Describes(*manifest, set)) {
    if (absl::Status same = set.version.CheckUnchanged(); !same.ok()) return same;
    return manifest->schema;
  }
  if (set.sharded_name) {
    absl::StatusOr<Manifest> manifest = ReadManifest(ManifestPath(set.directory, set.stem));
    if (absl::Status same = set.version.CheckUnchanged(); !same.ok()) return same;
    if (manifest.ok() && Describes(*manifest, set)) return manifest->schema;
    // A damaged manifest counts as missing. One that cannot be read is an error, since it may say
    // something else.
    if (!manifest.ok() && !absl::IsNotFound(manifest.status()) &&
        !absl::IsDataLoss(manifest.status())) {
      return manifest.status();
    }
  }
  constexpr uint64_t kRecords = 1000;
  Schema schema;
  absl::Status damage;
  for (const std::string& path : set.paths) {
    absl::StatusOr<std::unique_ptr<ShardReader>> reader = ShardReader::Open(path);
    if (!reader.ok()) return reader.status();
    while (schema.records() < kRecords) {
      RecordBlock block;
      absl::Status status = (*reader)->Next(&block);
      // Damage is left to the reader to report or to skip.
      if (absl::IsDataLoss(status)) {
        damage = std::move(status);
        break;
      }
      if (!status.ok()) return status;
      if (block.records.empty()) break;
      for (const Record& record : block.records) {
        status = schema.AddRecord(record.payload);
        if (status.ok()) continue;
        return absl::InvalidArgumentError(fmt::format(
            "{}: record at byte {}: {}", path, record.offset, std::string(status.message())));
      }
    }
    if (schema.records() >= kRecords) break;
  }
  if (schema.records() == 0 && !damage.ok()) return damage;
  return schema;
}

KnownFeatures FeaturesOf(const Schema& schema) {
  KnownFeatures known;
  for (const auto& [name, feature] : schema.features()) {
    if (feature.kind == FeatureKind::kNone || feature.mixed_kinds > 0) continue;
    FeatureSpec spec;
    spec.name = name;
    spec.dtype = feature.kind == FeatureKind::kBytes   ? DType::kBytes
                 : feature.kind == FeatureKind::kFloat ? DType::kFloat32
                                                       : DType::kInt64;
    const bool fixed = !feature.is_list && feature.records == schema.records() &&
                       feature.min_values == feature.max_values && feature.min_values > 0;
    if (!fixed) {
      spec.layout = Layout::kRagged;
    } else if (feature.min_values > 1) {
      spec.shape = {static_cast<int64_t>(feature.min_values)};
    }
    (feature.is_list ? known.feature_lists : known.features).push_back(std::move(spec));
  }
  return known;
}

}  // namespace shardfeed
