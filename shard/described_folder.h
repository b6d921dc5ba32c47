// Folders that are datasets, as a description in them tells: shardfeed's manifests, TFDS's
// dataset_info.json.
//
// All functions are thread safe.

#ifndef SHARDFEED_SHARD_DESCRIBED_FOLDER_H_
#define SHARDFEED_SHARD_DESCRIBED_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/folder_listing.h"
#include "shardfeed/spec.h"

namespace shardfeed {

// A dataset in a folder, as a description there tells.
struct Described {
  std::string stem;
  std::optional<uint64_t> count;
  std::string suffix;

  std::string Spec(std::string_view directory) const;
  // As ResolveAt.
  absl::StatusOr<ShardSet> Resolve(const std::string& directory, const Folder& folder) const;
};

// The dataset that the manifests of that name in the hidden folder describe. InvalidArgument: they
// describe several. DataLoss: one is broken. Others: as ReadFile and ResolveAt.
absl::StatusOr<ShardSet> ResolveManifests(const std::string& spec, const Folder& folder,
                                          const std::vector<std::string>& manifests);

inline constexpr char kTfdsInfo[] = "dataset_info.json";

// The splits of a TFDS dataset, with their names; none where `path` is not the description of one.
// That is tensorflow_datasets' DatasetInfo as proto3 JSON: 64-bit numbers are strings, and what is
// empty is left out. DataLoss: it is broken. InvalidArgument: its files are no TFRecords.
absl::StatusOr<std::vector<std::pair<std::string, Described>>> ReadTfdsSplits(
    const std::string& path);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_DESCRIBED_FOLDER_H_
