// Names of sharded datasets: what the shards of one are called, how a user names it for writing or
// for reading, and where its sidecars live. The forms, with the reasons: docs/specs.md.
//
// The shards of a set are files of one folder named stem-00000-of-00010[.suffix], numbered from
// zero. A suffix carries its dot (".tfrecord.gz") or is empty. A directory is as the user wrote it,
// without the last slash; empty is the current one.
//
// All functions are thread safe.

#ifndef SHARDFEED_SHARD_SPEC_H_
#define SHARDFEED_SHARD_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace shardfeed {

// The most shards a set may be written with. Reading has no limit.
inline constexpr uint64_t kMaxShards = 1'000'000;

// "stem-00001-of-00010suffix". Both numbers have the same width: that of `count`, at least five.
std::string ShardName(std::string_view stem, uint64_t index, uint64_t count,
                      std::string_view suffix);

struct ParsedName {
  std::string stem;
  uint64_t index;  // a wrong name may have a number that is not below `count`
  uint64_t count;
  std::string suffix;
};

// The reverse of ShardName; also reads numbers padded to more digits than needed. nullopt: not the
// name of a shard. Where a name holds two numbers, the last counts and the first is in the stem.
std::optional<ParsedName> ParseShardName(std::string_view file_name);

// "directory/stem@10suffix", or "directory/stem@*suffix" without a count: the spec that names a
// set.
std::string FormatSpec(std::string_view directory, std::string_view stem,
                       std::optional<uint64_t> count, std::string_view suffix);

// What a dataset that is to be written will be called.
struct OutputSpec {
  std::string directory;
  std::string stem;
  std::string suffix;
  std::optional<uint64_t> count;  // none: whoever writes decides
};

// Reads stem@N[.suffix], stem@*[.suffix] or stem, each with a folder in front or not. Looks at no
// file.
//
// InvalidArgument: no stem; N outside 1 .. kMaxShards; anything else after '@'; the name of a
// single shard; a name that could not be read back, such as one of a hidden file, a sidecar or with
// a wildcard.
absl::StatusOr<OutputSpec> ParseOutputSpec(std::string_view spec);

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
};

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
// file, so that opening it tells. Each folder is listed once.
//
// NotFound: nothing of that name, with what is there instead. DataLoss: shards are missing, there
// twice or numbered past their total; a broken manifest or dataset_info.json. InvalidArgument: the
// spec cannot be read, names several datasets, which are listed, or what is no file (a pipe) or no
// TFRecord (as dataset_info.json tells). FailedPrecondition: a Spark job that did not finish.
// Others, as ErrnoStatus says, when a folder cannot be listed.
absl::StatusOr<ShardSet> ResolveSpec(const std::string& spec);

// The files of all specs, one spec after the other. Files that make up one whole set in its order
// (a glob that the shell expanded) are that set.
//
// Errors: those of ResolveSpec; InvalidArgument: no spec, or a file twice, be it by two spellings
// of its folder.
absl::StatusOr<ShardSet> ResolveSpecs(const std::vector<std::string>& specs);

// Sidecars live in a hidden folder beside the shards, where no glob for shards finds them.
//
// The index of one shard: DIRECTORY/.shardfeed/FILE_NAME.index
std::string IndexPath(std::string_view shard_path);
// The manifest of a dataset: DIRECTORY/.shardfeed/STEM.manifest.json
std::string ManifestPath(std::string_view directory, std::string_view stem);
// Where a dataset is written until it is whole: DIRECTORY/.shardfeed/STEM.incomplete
std::string StagingPath(std::string_view directory, std::string_view stem);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SPEC_H_
