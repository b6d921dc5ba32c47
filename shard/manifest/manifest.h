// The manifest: a JSON document that describes a dataset. Format: docs/manifest.md.

#ifndef SHARDFEED_SHARD_MANIFEST_MANIFEST_H_
#define SHARDFEED_SHARD_MANIFEST_MANIFEST_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/names/names.h"
#include "shard/schema/class_names.h"
#include "shard/schema/schema.h"
#include "shard/schema/skipped_records.h"
#include "shardfeed/options.h"
#include "shardfeed/spec.h"

namespace shardfeed {

class ValueStatistics;

struct ManifestShard {
  std::string file;  // The ShardName.
  uint64_t bytes = 0;
  uint64_t records = 0;
  uint32_t records_digest = 0;  // The RecordsDigest.

  friend bool operator==(const ManifestShard&, const ManifestShard&) = default;
};

// The manifest contains no date, so equal input yields an equal manifest.
struct Manifest {
  std::string stem;
  std::string suffix;
  Compression compression = Compression::kNone;
  std::vector<ManifestShard> shards;
  Schema schema;
  // Statistics of the values, of which Merge yields approximations of what is sampled. Null: there
  // are none.
  std::shared_ptr<const ValueStatistics> values;
  // The names of classes, by feature.
  FeatureClasses classes;
  // How the dataset was made: "tool", "command", options and so on, as text.
  std::map<std::string, std::string> made_by;
  // Notes for users, for example about files that were left out.
  std::vector<std::string> notes;
  // Broken records of the raw data that were left out.
  SkippedRecords skipped;

  uint64_t num_records() const;
  uint64_t num_bytes() const;
};

std::string FormatManifest(const Manifest& manifest);

// Parses a manifest. DataLoss: `json` is not a manifest, or is damaged, contradicts itself or names
// files that are not shards of its own dataset. `path` is used in messages and, if it ends like a
// ManifestPath, identifies the dataset.
absl::StatusOr<Manifest> ParseManifest(std::string_view json, const std::string& path);

// Returns the paths of the manifests of all datasets in a local folder, in the order of their
// names; none if it has no datasets. Errors: those of NamesIn.
absl::StatusOr<std::vector<std::string>> ManifestsIn(const std::string& directory);

// What a manifest may have at most: room for the longest names of kMaxShards shards.
inline constexpr uint64_t kMaxManifestBytes = uint64_t{512} << 20;

// Reads a manifest. NotFound: there is none. DataLoss: as ParseManifest. Others: as ReadFile.
absl::StatusOr<Manifest> ReadManifest(const std::string& path);

// Returns whether the manifest has the suffix and the number of shards of `set`.
bool Describes(const Manifest& manifest, const ShardSet& set);

// Returns the manifest of these shards, or null unless it is intact and describes them.
std::shared_ptr<const Manifest> FindManifest(const ShardSet& set);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_MANIFEST_MANIFEST_H_
