// How a user names a sharded dataset for writing or for reading. docs/specs.md has the forms and
// their reasons.
//
// All functions are thread-safe.

#ifndef SHARDFEED_SPEC_H_
#define SHARDFEED_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

// What a dataset that is to be written will be called.
struct OutputSpec {
  std::string directory;
  std::string stem;
  std::string suffix;
  std::optional<uint64_t> count;  // none: whoever writes decides
};

// Reads stem@N[.suffix], stem@*[.suffix] or stem, each with a folder in front or not. Opens no
// file.
//
// InvalidArgument: no path (CheckIsPath); a folder of the kernel, such as /dev; no stem; N outside
// 1 .. kMaxShards; anything else after '@'; the name of a single shard; a name that could not be
// read back, such as one of a hidden file, a sidecar or with a wildcard, or that begins with '-'.
absl::StatusOr<OutputSpec> ParseOutputSpec(std::string_view spec);

// Tells whether a dataset was replaced since: each has a manifest of its own, which is moved into
// place after the shards, while a commit record stands beside it (staging.h). One with no manifest
// is taken to stay until there is one. Thread safe.
class DatasetVersion {
 public:
  // Of files that are no one dataset: they are never replaced together.
  DatasetVersion() = default;
  // Of a dataset without a manifest.
  DatasetVersion(std::string directory, std::string stem);

  // The one that is there now.
  static DatasetVersion Of(const std::string& directory, const std::string& stem);

  const std::string& directory() const { return directory_; }
  const std::string& stem() const { return stem_; }

  // `so_far` is of a step that used the dataset's files, which may have failed for this reason.
  //
  // Aborted: another dataset has taken the name since, or is about to. A file of the dataset that
  // was opened before an OK is one of this version. Else, and where the step was cancelled,
  // `so_far`.
  absl::Status CheckUnchanged(absl::Status so_far = absl::OkStatus()) const;

 private:
  std::string directory_;
  std::string stem_;                // empty: of no dataset
  std::vector<uint64_t> manifest_;  // identity of the manifest file that was read
};

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

#endif  // SHARDFEED_SPEC_H_
