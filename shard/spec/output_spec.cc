#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "net/open.h"
#include "net/upload.h"
#include "net/url.h"
#include "shard/names/braces.h"
#include "shard/names/file_names.h"
#include "shard/names/names.h"
#include "shard/spec/at_form.h"
#include "shardfeed/spec.h"

namespace shardfeed {
namespace {

// Returns whether `directory` belongs to the kernel, so that files cannot be kept there. /dev/shm
// is an ordinary folder in memory.
bool IsSystemFolder(std::string_view directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path path = fs::weakly_canonical(directory.empty() ? "." : directory, error);
  if (error) path = fs::path(directory).lexically_normal();
  const std::string real = path.string() + "/";
  if (real.starts_with("/dev/shm/")) return false;
  return real.starts_with("/dev/") || real.starts_with("/proc/") || real.starts_with("/sys/");
}

}  // namespace

absl::StatusOr<OutputSpec> ParseOutputSpec(std::string_view spec) {
  if (spec.find('\0') != spec.npos) return absl::InvalidArgumentError(kNulError);
  if (spec.starts_with("file:///")) spec.remove_prefix(7);
  const bool remote = IsRemote(spec);
  if (remote) {
    const absl::Status writable = CheckWritable(std::string(spec));
    if (!writable.ok()) return writable;
  } else if (const absl::Status path = CheckSlashes(spec); !path.ok()) {
    return path;
  }
  // The key of an object has a name after a slash, and the bucket has none.
  const PathParts parts =
      remote && SplitUrl(spec).key.empty() ? PathParts{spec, ""} : SplitPath(spec);
  const auto wrong = [&spec](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", spec, what));
  };
  if (spec == "-") {
    return wrong(
        "a dataset consists of several files and cannot be written to standard output; name it as "
        "folder/name@N, for example out/train@16");
  }
  if (!remote && IsSystemFolder(parts.directory)) {
    return wrong(fmt::format(
        "a dataset consists of several files, but {} is not a folder on a disk; name it as "
        "folder/name@N, for example out/train@16",
        parts.directory));
  }
  OutputSpec output;
  output.directory = parts.directory;
  if (parts.name.find('@') == std::string_view::npos) {
    output.stem = parts.name;
  } else {
    const std::optional<AtForm> form = ParseAtForm(parts.name);
    if (!form) return wrong(AfterAtError(parts.name));
    if (form->count && (*form->count == 0 || *form->count > kMaxShards)) {
      return wrong(fmt::format("the number of shards must be from 1 to {}, got {}", kMaxShards,
                               *form->count));
    }
    output.stem = form->stem;
    output.suffix = form->suffix;
    output.count = form->count;
  }
  if (output.stem.empty()) {
    return wrong("the name is missing: write it as folder/name@N, for example out/train@16");
  }
  if (output.stem.starts_with('-')) {
    return wrong("a dataset's name must not begin with '-', which programs take for an option");
  }
  if (output.stem.find('@') != std::string::npos || HasWildcard(output.stem) ||
      HasWildcard(output.suffix)) {
    return wrong("a dataset's name must not contain @, *, ? or [");
  }
  // Such names are found, but not that of the dataset.
  if (HasWildcard(output.directory)) {
    return wrong("a dataset's folder must not contain *, ? or [, which stand for several names");
  }
  // A file that has such a name is found by it, but a dataset's name is never that of a file.
  const absl::StatusOr<std::vector<std::string>> names = ExpandBraces(spec);
  if (!names.ok() || names->size() != 1 || names->front() != spec) {
    return wrong("a dataset's name must not contain braces, which stand for several names");
  }
  if (const std::optional<ShardNameView> shard = ViewShardName(output.stem)) {
    return wrong(fmt::format("this is the name of one shard; name the dataset, as in {}",
                             FormatSpec(output.directory, shard->stem,
                                        std::max<uint64_t>(shard->count, 1), shard->suffix)));
  }
  const std::string name = ShardName(output.stem, 0, output.count.value_or(1), output.suffix);
  if (IsSidecar(name)) {
    return wrong("files of this name would be taken for hidden files or sidecars");
  }
  const std::optional<ShardNameView> parsed = ViewShardName(name);
  if (!parsed || parsed->stem != output.stem || parsed->suffix != output.suffix) {
    return wrong("shard names of this form would be ambiguous");
  }
  return output;
}

}  // namespace shardfeed
