// Files sorted by what their names say, and the datasets that they make up.
//
// All functions are thread safe, and none looks at a file.

#ifndef SHARDFEED_SHARD_FILE_NAMES_H_
#define SHARDFEED_SHARD_FILE_NAMES_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/names.h"
#include "shard/spark_names.h"
#include "shardfeed/spec.h"

namespace shardfeed {

// Names in one list of an error message.
inline constexpr size_t kNamesShown = 5;

// "a, b, c and 7 more" of `total` names, the first of which are given.
std::string FirstOf(const std::vector<std::string>& names, uint64_t total);
std::string FirstOf(const std::vector<std::string>& names);

// What lies beside shards without being one: hidden files, indexes, checksums, descriptions, marks,
// files being written.
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

// Views into the listing of the folders, which must outlive this.
struct Names {
  std::map<SetKey, std::vector<Member>> sets;
  std::vector<SparkFile> spark;
  std::vector<PathParts> plain;

  void Add(std::string_view directory, std::string_view name);
  void AddAllButSidecars(std::string_view directory, const std::vector<std::string>& files);
};

// One text for each dataset that the names make up, and one for all other files.
std::vector<std::string> Describe(const Names& names);

// Checks that `members` are all shards of the set, each once. `advice` ends the message about
// missing ones. DataLoss: they are not.
absl::StatusOr<ShardSet> WholeSet(std::string_view spec, const SetKey& key,
                                  std::vector<Member> members, std::string_view advice = "");

// The files of one Spark job in the order of their parts. Spark leaves empty parts out.
// InvalidArgument: they are of several jobs. DataLoss: a part has two names.
absl::StatusOr<ShardSet> SparkSet(std::string_view spec, const Names& names);

// The set, the Spark job or the plain files that `names` are, whichever they all are.
// InvalidArgument: they are not, which `advice` ends. Others: as above.
absl::StatusOr<ShardSet> OnlyOne(std::string_view spec, const Names& names,
                                 std::string_view advice);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FILE_NAMES_H_
