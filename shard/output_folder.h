// What stands in the folder of a dataset that is to be written.
//
// All functions are thread safe.

#ifndef SHARDFEED_SHARD_OUTPUT_FOLDER_H_
#define SHARDFEED_SHARD_OUTPUT_FOLDER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "shard/spec.h"

namespace shardfeed {

// Visits the names of the files in the spec's folder that are shards of its stem and suffix,
// whatever their number. A link is one, wherever it leads. Errors: as ErrnoStatus says.
absl::Status ForEachShardOf(const OutputSpec& spec,
                            const std::function<void(const std::string&)>& visit);

// That nothing stands at the names of the spec's indexes that is not an index. (One that has no
// shard is of no use to anyone, and is replaced.) AlreadyExists: a link, which may be replaced.
// FailedPrecondition: a folder.
absl::Status CheckIndexesAreFree(const OutputSpec& spec);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_OUTPUT_FOLDER_H_
