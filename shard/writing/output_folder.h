// Existing files in the folder of a dataset that is about to be written.
//
// All functions are thread-safe.

#ifndef SHARDFEED_SHARD_WRITING_OUTPUT_FOLDER_H_
#define SHARDFEED_SHARD_WRITING_OUTPUT_FOLDER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/spec/spec.h"

namespace shardfeed {

// Visits the names of the files in the spec's folder that are shards of its stem and suffix, with
// any number. A link counts, whatever its target. Errors: as ErrnoStatus.
absl::Status ForEachShardOf(const OutputSpec& spec,
                            const std::function<void(const std::string&)>& visit);

// Checks that the paths of the spec's indexes are free or have regular files, which are replaced
// (an index without its shard is useless). AlreadyExists: a path has a link or a special file,
// which may be replaced. FailedPrecondition: a path has a folder.
absl::Status CheckIndexesAreFree(const OutputSpec& spec);

// Returns the names of the shards of a dataset of the spec's stem that must be removed once it is
// replaced by that of the spec, whose number of shards must be set, because no new shard has the
// same name. Errors: as ErrnoStatus, and those of ReadManifest except NotFound and DataLoss.
absl::StatusOr<std::vector<std::string>> OldShards(const OutputSpec& spec);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_WRITING_OUTPUT_FOLDER_H_
