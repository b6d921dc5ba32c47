#include "shard/manifest/shard_sizes.h"

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "fmt/format.h"
#include "io/remedy.h"
#include "net/open.h"
#include "shard/names/names.h"

namespace shardfeed {

absl::Status CheckShardSizes(const std::string& directory, const Manifest& manifest) {
  if (IsRemote(directory)) return absl::OkStatus();
  for (const ManifestShard& shard : manifest.shards) {
    const std::string path = JoinPath(directory, shard.file);
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(path, error);
    if (!error && bytes == shard.bytes) continue;
    return WithRemedy(
        absl::DataLossError(
            error ? fmt::format("{}: the dataset was complete, but this shard cannot be read: {}",
                                path, error.message())
                  : fmt::format("{}: the dataset was complete, but this shard has {} bytes instead "
                                "of {}",
                                path, bytes, shard.bytes)),
        {"overwrite", "", "write the dataset again"});
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
