// File names of sharded datasets: shards, and the sidecars beside them.
//
// The shards of a set are files in one folder, named stem-00000-of-00010[.suffix] and numbered from
// zero. A suffix includes its dot (".tfrecord.gz") or is empty. A directory is as the user wrote
// it, without the last slash; empty means the current one.
//
// All functions are thread-safe, and none of them accesses a file.

#ifndef SHARDFEED_SHARD_NAMES_NAMES_H_
#define SHARDFEED_SHARD_NAMES_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardfeed {

// Maximum number of shards of a set that is written. Reading has no limit.
inline constexpr uint64_t kMaxShards = 1'000'000;

// Returns "stem-00001-of-00010suffix". Both numbers have the same width: that of `count`, but at
// least five digits.
std::string ShardName(std::string_view stem, uint64_t index, uint64_t count,
                      std::string_view suffix);

struct ParsedName {
  std::string stem;
  uint64_t index;  // Not less than `count` if the name is wrong.
  uint64_t count;
  std::string suffix;
};

// The inverse of ShardName; also accepts numbers padded to more digits than necessary. If a name
// has two such pairs of numbers, the last one counts and the first belongs to the stem. Nullopt:
// not the name of a shard.
std::optional<ParsedName> ParseShardName(std::string_view file_name);

// The same without copies: the views point into `file_name`.
struct ShardNameView {
  std::string_view stem;
  uint64_t index;
  uint64_t count;
  std::string_view suffix;
};
std::optional<ShardNameView> ViewShardName(std::string_view file_name);

// Returns the spec of a set: "directory/stem@10suffix", or "directory/stem@*suffix" without a
// count.
std::string FormatSpec(std::string_view directory, std::string_view stem,
                       std::optional<uint64_t> count, std::string_view suffix);

// What to tell of a suffix that names another compression than that of the shards ("none", "gzip",
// "zlib"), such as .gz if they are not compressed; empty if there is nothing to tell.
std::string NoteOnSuffix(std::string_view suffix, std::string_view compression);

// Sidecars are in a hidden folder beside the shards, where globs for shards do not find them.
inline constexpr std::string_view kSidecarFolder = ".shardfeed";
inline constexpr std::string_view kManifestEnding = ".manifest.json";
inline constexpr std::string_view kCommitEnding = ".commit";
inline constexpr std::string_view kIndexPackEnding = ".indexes";
inline constexpr std::string_view kJobsEnding = ".jobs";

// DIRECTORY/.shardfeed
std::string SidecarPath(std::string_view directory);
// The index of one shard: DIRECTORY/.shardfeed/FILE_NAME.index
std::string IndexPath(std::string_view shard_path);
// The manifest of a dataset: DIRECTORY/.shardfeed/STEM.manifest.json
std::string ManifestPath(std::string_view directory, std::string_view stem);
// The index pack of a dataset (index_pack.h): DIRECTORY/.shardfeed/STEM.indexes
std::string IndexPackPath(std::string_view directory, std::string_view stem);
// The staging folder, in which a dataset is written: DIRECTORY/.shardfeed/STEM.incomplete
std::string StagingPath(std::string_view directory, std::string_view stem);
// The commit record, which makes the staged dataset the one of that name (see staging.h):
// DIRECTORY/.shardfeed/STEM.commit
std::string CommitPath(std::string_view directory, std::string_view stem);
// The folder of jobs, whose parts are written by several processes (see write_job.h):
// DIRECTORY/.shardfeed/STEM.jobs
std::string JobsPath(std::string_view directory, std::string_view stem);

struct PathParts {
  std::string_view directory;
  std::string_view name;
};
// Splits a path at the last slash. The root keeps its slash.
PathParts SplitPath(std::string_view path);
std::string JoinPath(std::string_view directory, std::string_view name);

// Returns the number of digits at the beginning of `text`.
size_t LeadingDigits(std::string_view text);
// Nullopt: `text` is empty, has other characters than digits, or exceeds 64 bits.
std::optional<uint64_t> ParseNumber(std::string_view text);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_NAMES_NAMES_H_
