// Groups files by their names into the datasets that they form.
//
// All functions are thread-safe, and none of them accesses a file.

#ifndef SHARDFEED_SHARD_NAMES_FILE_NAMES_H_
#define SHARDFEED_SHARD_NAMES_FILE_NAMES_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/names/names.h"
#include "shard/names/spark_names.h"
#include "shardfeed/spec.h"

namespace shardfeed {

// Maximum number of names in a list within an error message.
inline constexpr size_t kNamesShown = 5;

// Returns "a, b, c and 7 more" for `total` names, of which at least the first ones are in `names`.
std::string FirstOf(const std::vector<std::string>& names, uint64_t total);
std::string FirstOf(const std::vector<std::string>& names);

// Returns whether the name is that of a sidecar file, and not of a shard: hidden files, indexes,
// checksums, descriptions, success markers and files being written.
bool IsSidecar(std::string_view name);

struct SetKey {
  std::string_view directory;
  std::string_view stem;
  std::string_view suffix;
  uint64_t count;

  auto operator<=>(const SetKey&) const = default;

  std::string Spec() const { return FormatSpec(directory, stem, count, suffix); }
};

struct Member {
  uint64_t index;
  std::string_view name;

  auto operator<=>(const Member&) const = default;
};

struct SparkFile {
  std::string_view directory;
  std::string_view name;
  SparkName parsed;
};

// The names are views into the listings of the folders, which must outlive this object.
struct Names {
  std::map<SetKey, std::vector<Member>> sets;
  std::vector<SparkFile> spark;
  std::vector<PathParts> plain;

  void Add(std::string_view directory, std::string_view name);
  void AddAllButSidecars(std::string_view directory, const std::vector<std::string>& files);
};

// Returns one description for each dataset that the names form, and one for all other files.
std::vector<std::string> Describe(const Names& names);

// Returns the set if `members` are all of its shards, each exactly once. DataLoss: they are not;
// `advice` ends the message about missing shards.
absl::StatusOr<ShardSet> WholeSet(std::string_view spec, const SetKey& key,
                                  std::vector<Member> members, std::string_view advice = "");

// Returns the files of one Spark job in the order of their parts; Spark leaves out empty parts.
// InvalidArgument: the files belong to several jobs. DataLoss: a part has two names.
absl::StatusOr<ShardSet> SparkSet(std::string_view spec, const Names& names);

// Returns the files if `names` form a single set, a single Spark job or only plain files.
// InvalidArgument: they are a mixture; `advice` ends the message. Others: as above.
absl::StatusOr<ShardSet> OnlyOne(std::string_view spec, const Names& names,
                                 std::string_view advice);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_NAMES_FILE_NAMES_H_
