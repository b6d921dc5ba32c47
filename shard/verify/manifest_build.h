// Makes the manifest of shards that another program wrote.

#ifndef SHARDFEED_SHARD_VERIFY_MANIFEST_BUILD_H_
#define SHARDFEED_SHARD_VERIFY_MANIFEST_BUILD_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "shard/manifest/manifest.h"
#include "shardfeed/spec.h"

namespace shardfeed {

struct ManifestBuildOptions {
  int threads = 0;
  std::stop_token stop;
  std::atomic<uint64_t>* bytes_passed = nullptr;  // counts bytes for progress
  std::map<std::string, std::string> made_by;     // goes into a new manifest
};

// Reads and checks all records of a whole dataset and writes its manifest, with the schema of the
// records and the statistics of their values. An existing manifest must agree with the shards, and
// only gets statistics if it has none. A new manifest includes what a features.json of TFDS
// declares, because readers of a dataset with a manifest do not look for another description.
// Returns the manifest. Thread-safe; the last of several writers wins.
//
// InvalidArgument: not a whole dataset of shards with one stem. DataLoss: shards, indexes or the
// manifest are damaged, or do not agree. FailedPrecondition: the shards are compressed differently,
// or features.json declares more than a manifest can hold.
// Aborted: the dataset was replaced, or a shard changed, meanwhile. Cancelled: `stop` was
// requested. Unavailable: a shard cannot be read. Others: those of reading, and of writing a file
// or an object.
absl::StatusOr<Manifest> WriteManifest(const ShardSet& set, const ManifestBuildOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_VERIFY_MANIFEST_BUILD_H_
