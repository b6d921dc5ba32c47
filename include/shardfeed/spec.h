// Specs: the names that users give for sharded datasets to be written or read. docs/specs.md has
// all forms and the reasons for them.
//
// All functions are thread-safe.

#ifndef SHARDFEED_SPEC_H_
#define SHARDFEED_SPEC_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

class GuardObject;
struct Manifest;
struct ObjectInfo;

// The name of a dataset to be written.
struct OutputSpec {
  std::string directory;
  std::string stem;
  std::string suffix;
  std::optional<uint64_t> count;  // number of shards; nullopt: the writer decides
};

// Parses stem@N[.suffix], stem@*[.suffix] or stem, each with or without a folder, which may be one
// of a store (s3://bucket/folder). Opens no file.
//
// InvalidArgument: a URL of an unknown scheme, or of a store that is only read; a folder of the
// kernel, such as /dev; no stem; N outside 1 to 1,000,000; anything else after '@'; the name of a
// single shard; a name that could not be read back, such as that of a hidden file or a sidecar, a
// name with a wildcard, or one that begins with '-'.
absl::StatusOr<OutputSpec> ParseOutputSpec(std::string_view spec);

// Detects that a dataset was replaced: each dataset has a manifest of its own, which is moved into
// place after the shards while a commit record is present (docs/commit.md). A dataset without a
// manifest counts as unchanged until it has one. Thread-safe.
class DatasetVersion {
 public:
  // For files that do not form one dataset: they are never replaced together.
  DatasetVersion() = default;
  // For a dataset without a manifest, or whose manifest is known by these numbers.
  DatasetVersion(std::string directory, std::string stem, std::vector<uint64_t> manifest = {});

  // The current version.
  static DatasetVersion Of(const std::string& directory, const std::string& stem);
  // Internal: the version of a dataset in a store whose manifest was read.
  static DatasetVersion OfObject(const std::string& directory, const std::string& stem,
                                 const ObjectInfo& manifest);

  const std::string& directory() const { return directory_; }
  const std::string& stem() const { return stem_; }
  // Internal: tells of objects that are read later whether they belong to this version. Null: the
  // dataset is not in a store, or has no manifest.
  const std::shared_ptr<const GuardObject>& guard() const { return guard_; }

  // `so_far` is the result of an operation on the dataset's files, which may have failed because
  // the dataset was replaced.
  //
  // Aborted: the dataset has been, or is being, replaced. Cancelled: the work is not needed any
  // more, so that the store was not waited for. Otherwise, or if the operation was cancelled,
  // returns `so_far`. Files of the dataset that were opened before an OK belong to this version.
  absl::Status CheckUnchanged(absl::Status so_far = absl::OkStatus()) const;

 private:
  std::string directory_;
  std::string stem_;                // empty if there is no dataset
  std::vector<uint64_t> manifest_;  // identity of the manifest; empty: there was none
  std::shared_ptr<const GuardObject> guard_;
};

// The files of a dataset, in shard order.
struct ShardSet {
  // The folder of the shards, or of the first one if they are in several.
  std::string directory;
  // The common parts of the shard names. For a single file that was named directly, `stem` is its
  // name and `suffix` is empty; for files that do not form one set, both are empty.
  std::string stem;
  std::string suffix;
  std::vector<std::string> paths;
  // Whether `paths` are exactly the shards that "DIRECTORY/STEM@N[.SUFFIX]" names, where N is their
  // number.
  bool sharded_name = false;
  // The version of the dataset, if all shards are of one dataset.
  DatasetVersion version;
  // Internal: the manifest of that version, if it was read to find the shards.
  std::shared_ptr<const Manifest> manifest;
};

// Finds the files that a spec names. The first match applies:
//   a regular file      itself
//   stem@10[.suffix]    the set of that name and size
//   stem@*[.suffix]     the set of that name, whatever its size
//   a folder            the only dataset in it: of shardfeed, of TFDS, of MosaicML Streaming, of
//                       Spark, or a single set
//   a folder/split      that split of a TFDS folder
//   a glob (* ? [)      the set or the Spark job that the files form, or plain files sorted by
//                       their bytes; * matches within one level of folders
//   braces              all that train-{00000..00146}.tar or {a,b}.tar stands for, in that order
//
// s3://bucket/SPEC and https://host/SPEC name datasets in stores: docs/stores.md.
//
// Only manifests, dataset_info.json and the index.json of MDS shards are opened; a dangling link
// counts as a file, so that opening it reports the error. Each folder is listed once, and again if
// a dataset in it was replaced meanwhile.
//
// NotFound: nothing has that name; the message lists what exists instead. DataLoss: shards are
// missing, appear twice or have numbers beyond their total; a damaged manifest,
// dataset_info.json or index.json. InvalidArgument: the spec cannot be parsed, has an unknown
// scheme, or names several datasets, which are listed, something other than a file (a pipe), or
// files that are neither TFRecord nor ArrayRecord (according to dataset_info.json).
// FailedPrecondition: a Spark job that did not finish. Aborted: datasets are replaced faster than
// folders can be listed. Other errors: those of listing a folder, and of completing what an
// interrupted writer had committed.
absl::StatusOr<ShardSet> ResolveSpec(const std::string& spec);

// The files of all specs, in order. Files that form one whole set in its order (a glob expanded by
// the shell) are that set.
//
// Errors: those of ResolveSpec; InvalidArgument: there is no spec, or a file is named twice, even
// with two spellings of its folder.
absl::StatusOr<ShardSet> ResolveSpecs(const std::vector<std::string>& specs);

}  // namespace shardfeed

#endif  // SHARDFEED_SPEC_H_
