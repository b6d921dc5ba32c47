// How a user names a sharded dataset for writing or for reading. The forms, with the reasons:
// docs/specs.md; what the files are called: shard/names.h.
//
// All functions are thread safe.

#ifndef SHARDFEED_SHARD_SPEC_H_
#define SHARDFEED_SHARD_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/names.h"
#include "shard/shard_set.h"

namespace shardfeed {

// The most shards a set may be written with. Reading has no limit.
inline constexpr uint64_t kMaxShards = 1'000'000;

// What a dataset that is to be written will be called.
struct OutputSpec {
  std::string directory;
  std::string stem;
  std::string suffix;
  std::optional<uint64_t> count;  // none: whoever writes decides
};

// OK for a path of this machine; InvalidArgument for what stands elsewhere, such as gs://bucket/x.
// A folder that is called "gs:" is ./gs:
absl::Status CheckIsPath(std::string_view path);

// Reads stem@N[.suffix], stem@*[.suffix] or stem, each with a folder in front or not. Opens no
// file.
//
// InvalidArgument: no path (CheckIsPath); a folder of the kernel, such as /dev; no stem; N outside
// 1 .. kMaxShards; anything else after '@'; the name of a single shard; a name that could not be
// read back, such as one of a hidden file, a sidecar or with a wildcard, or that begins with '-'.
absl::StatusOr<OutputSpec> ParseOutputSpec(std::string_view spec);

// Finds the files that a spec names. The first that fits counts:
//   a regular file      itself
//   stem@10[.suffix]    the set of that name and size
//   stem@*[.suffix]     the set of that name, whatever its size
//   a folder            the one dataset in it: of shardfeed, of TFDS, of Spark, or a lone set
//   a folder/split      that split of a TFDS folder
//   a glob (* ? [)      the set or the Spark job that the files make up, or plain files, sorted by
//                       their bytes; * stays within one level of folders
//
// Nothing is opened but manifests and dataset_info.json; a link that leads nowhere counts as a
// file, so that opening it tells. Each folder is listed once, and again where a dataset in it was
// replaced meanwhile.
//
// NotFound: nothing of that name, with what is there instead. DataLoss: shards are missing, there
// twice or numbered past their total; a broken manifest or dataset_info.json. InvalidArgument: the
// spec cannot be read, is no path, names several datasets, which are listed, or what is no file (a
// pipe) or no TFRecord (as dataset_info.json tells). FailedPrecondition: a Spark job that did not
// finish. Aborted: datasets are replaced faster than folders can be listed. Others: those of
// FinishCommit, and, as ErrnoStatus says, when a folder cannot be listed.
absl::StatusOr<ShardSet> ResolveSpec(const std::string& spec);

// The files of all specs, one spec after the other. Files that make up one whole set in its order
// (a glob that the shell expanded) are that set.
//
// Errors: those of ResolveSpec; InvalidArgument: no spec, or a file twice, be it by two spellings
// of its folder.
absl::StatusOr<ShardSet> ResolveSpecs(const std::vector<std::string>& specs);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SPEC_H_
