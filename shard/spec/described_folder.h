// Folders that contain a description of their datasets: shardfeed's manifests, or TFDS's
// dataset_info.json.
//
// All functions are thread-safe.

#ifndef SHARDFEED_SHARD_SPEC_DESCRIBED_FOLDER_H_
#define SHARDFEED_SHARD_SPEC_DESCRIBED_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/spec/folder_listing.h"
#include "shardfeed/spec.h"

namespace shardfeed {

// A dataset in a folder, according to a description there.
struct Described {
  std::string stem;
  std::optional<uint64_t> count;
  std::string suffix;

  std::string Spec(std::string_view directory) const;
  // Errors: as ResolveAt.
  absl::StatusOr<ShardSet> Resolve(const std::string& directory, const Folder& folder) const;
};

// Returns the dataset that a manifest describes. DataLoss: it is broken, or was renamed. Others: as
// ReadWhole.
absl::StatusOr<Described> ReadDescribed(const std::string& path);

// Returns the dataset that the manifests of these names in the hidden folder describe.
// InvalidArgument: they describe several datasets. DataLoss: a manifest is broken. Others: as
// ReadFile and ResolveAt.
absl::StatusOr<ShardSet> ResolveManifests(const std::string& spec, const Folder& folder,
                                          const std::vector<std::string>& manifests);

inline constexpr char kTfdsInfo[] = "dataset_info.json";

// Returns the splits of a TFDS dataset, with their names; none if `path` does not describe one. The
// format is tensorflow_datasets' DatasetInfo as proto3 JSON: 64-bit numbers are strings, and empty
// fields are left out. DataLoss: it is broken. InvalidArgument: its files are not TFRecord files.
absl::StatusOr<std::vector<std::pair<std::string, Described>>> ReadTfdsSplits(
    const std::string& path);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SPEC_DESCRIBED_FOLDER_H_
