// The files of a dataset.

#ifndef SHARDFEED_SHARD_SHARD_SET_H_
#define SHARDFEED_SHARD_SHARD_SET_H_

#include <string>
#include <vector>

#include "shard/dataset_version.h"

namespace shardfeed {

// The files of a dataset, in shard order.
struct ShardSet {
  // The folder of the shards (of the first one where they lie in several).
  std::string directory;
  // What the shard names share. A single file that was named itself: its name, and no suffix. A
  // list of files that are not one set: both empty.
  std::string stem;
  std::string suffix;
  std::vector<std::string> paths;
  // `paths` are exactly the shards of FormatSpec(directory, stem, paths.size(), suffix).
  bool sharded_name = false;
  // Whose shards they are, where they are all of one dataset.
  DatasetVersion version;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SHARD_SET_H_
