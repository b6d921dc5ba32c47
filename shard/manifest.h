// The manifest: one JSON document that says what a dataset holds. Format: docs/manifest.md.

#ifndef SHARDFEED_SHARD_MANIFEST_H_
#define SHARDFEED_SHARD_MANIFEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/schema.h"
#include "shard/skipped_records.h"
#include "shard/spec.h"
#include "shardfeed/options.h"

namespace shardfeed {

struct ManifestShard {
  std::string file;  // ShardName of its dataset
  uint64_t bytes = 0;
  uint64_t records = 0;
  uint32_t records_digest = 0;  // RecordsDigest

  friend bool operator==(const ManifestShard&, const ManifestShard&) = default;
};

// There is no date in it: equal input gives an equal manifest.
struct Manifest {
  std::string stem;
  std::string suffix;
  Compression compression = Compression::kNone;
  std::vector<ManifestShard> shards;
  Schema schema;
  // How the dataset was made: "tool", "command", options and so on, as text.
  std::map<std::string, std::string> made_by;
  // What a user should know: for example files that were left out.
  std::vector<std::string> notes;
  // Of the raw data, with what was wrong with the first of them.
  SkippedRecords skipped;

  uint64_t num_records() const;
  uint64_t num_bytes() const;
};

std::string FormatManifest(const Manifest& manifest);

// DataLoss: not a manifest, or one that was damaged, contradicts itself or names files that are not
// shards of its own dataset. `path` is for the message and, where it ends as ManifestPath does,
// says which dataset that is.
absl::StatusOr<Manifest> ParseManifest(std::string_view json, const std::string& path);

// NotFound: there is none. DataLoss: as ParseManifest. Others, as ReadFile: it cannot be read.
absl::StatusOr<Manifest> ReadManifest(const std::string& path);

// Whether it describes as many shards of that name.
bool Describes(const Manifest& manifest, const ShardSet& set);

// What helps to salvage these shards: their manifest, where there is one that is sound and
// describes them.
std::optional<Manifest> FindManifest(const ShardSet& set);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_MANIFEST_H_
