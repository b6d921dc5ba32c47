// Datasets whose shards are not there, only what is read before their records.

#ifndef SHARDFEED_TESTS_TESTING_DESCRIBED_DATASET_H_
#define SHARDFEED_TESTS_TESTING_DESCRIBED_DATASET_H_

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/output_file.h"
#include "shard/index/index.h"
#include "shard/index/index_pack.h"
#include "shard/manifest/manifest.h"
#include "shard/names/names.h"

namespace shardfeed::testing {

// Writes the manifest and the index pack of a dataset of raw shards to a folder. `index_of` gives
// the index of a shard by its name.
inline absl::Status WriteDescription(
    const std::string& folder, const std::string& stem, size_t shards,
    const std::function<absl::StatusOr<std::shared_ptr<const ShardIndex>>(const std::string&)>&
        index_of) {
  std::filesystem::create_directories(SidecarPath(folder));
  auto pack = OutputFile::Create(IndexPackPath(folder, stem));
  if (!pack.ok()) return pack.status();
  IndexPackWriter writer(pack->get(), shards, "");
  Manifest manifest;
  manifest.stem = stem;
  for (size_t i = 0; i < shards; ++i) {
    const std::string name = ShardName(stem, i, shards, "");
    const auto index = index_of(name);
    if (!index.ok()) return index.status();
    if (absl::Status status = writer.Add(**index); !status.ok()) return status;
    const IndexSummary& summary = (*index)->summary();
    manifest.shards.push_back(
        {name, summary.shard_bytes, (*index)->records(), summary.records_digest});
  }
  if (absl::Status status = writer.Finish(); !status.ok()) return status;
  return WriteFile(ManifestPath(folder, stem), FormatManifest(manifest), /*sync=*/false);
}

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_TESTING_DESCRIBED_DATASET_H_
