// File names of sharded datasets: shards, and the sidecars beside them.
//
// The shards of a set are files of one folder named stem-00000-of-00010[.suffix], numbered from
// zero. A suffix carries its dot (".tfrecord.gz") or is empty. A directory is as the user wrote it,
// without the last slash; empty is the current one.
//
// All functions are thread safe, and none looks at a file.

#ifndef SHARDFEED_SHARD_NAMES_H_
#define SHARDFEED_SHARD_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardfeed {

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

// The same without copies: the views are parts of `file_name`.
struct ShardNameView {
  std::string_view stem;
  uint64_t index;
  uint64_t count;
  std::string_view suffix;
};
std::optional<ShardNameView> ViewShardName(std::string_view file_name);

// "directory/stem@10suffix", or "directory/stem@*suffix" without a count: the spec that names a
// set.
std::string FormatSpec(std::string_view directory, std::string_view stem,
                       std::optional<uint64_t> count, std::string_view suffix);

// Sidecars live in a hidden folder beside the shards, where no glob for shards finds them.
inline constexpr std::string_view kSidecarFolder = ".shardfeed";
inline constexpr std::string_view kManifestEnding = ".manifest.json";
inline constexpr std::string_view kCommitEnding = ".commit";

// DIRECTORY/.shardfeed
std::string SidecarPath(std::string_view directory);
// The index of one shard: DIRECTORY/.shardfeed/FILE_NAME.index
std::string IndexPath(std::string_view shard_path);
// The manifest of a dataset: DIRECTORY/.shardfeed/STEM.manifest.json
std::string ManifestPath(std::string_view directory, std::string_view stem);
// Where a dataset is written until it is whole: DIRECTORY/.shardfeed/STEM.incomplete
std::string StagingPath(std::string_view directory, std::string_view stem);
// What says that the dataset in the staging folder is the one of that name, see staging.h:
// DIRECTORY/.shardfeed/STEM.commit
std::string CommitPath(std::string_view directory, std::string_view stem);

struct PathParts {
  std::string_view directory;
  std::string_view name;
};
// At the last slash. The root keeps its slash.
PathParts SplitPath(std::string_view path);
std::string JoinPath(std::string_view directory, std::string_view name);

// Digits at the beginning of `text`.
size_t LeadingDigits(std::string_view text);
// nullopt: not only digits, or more than 64 bits.
std::optional<uint64_t> ParseNumber(std::string_view text);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_NAMES_H_
