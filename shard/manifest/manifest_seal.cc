#include "shard/manifest/manifest_seal.h"

#include <algorithm>
#include <cstdint>

#include "fmt/format.h"
#include "io/bounded_json.h"
#include "nlohmann/json.hpp"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

constexpr std::string_view kDocumentEnd = "\n}";
constexpr char kChecksum[] = "crc32c";

// Returns the end of a manifest, with the checksum `crc` of everything before it. Its length is
// constant.
std::string SealOf(uint32_t crc) { return fmt::format("\"{}\": \"{:08x}\"\n}}\n", kChecksum, crc); }

}  // namespace

std::string SealManifest(std::string document) {
  document.resize(document.size() - kDocumentEnd.size());
  document += ",\n ";
  return document + SealOf(Crc32c(document));
}

absl::Status CheckManifestSeal(std::string_view text, const nlohmann::json& json) {
  if (!json.is_object()) return absl::DataLossError("it is not a JSON object");
  JsonMembers members;
  const std::string format = members.Text(json, "format");
  const uint64_t version = members.Number(json, "version");
  if (!members.status().ok()) return members.status();
  if (format != kManifestFormat) {
    return absl::DataLossError("\"format\" names another format");
  }
  if (version != 1 && version != kManifestVersion) {
    return absl::DataLossError(fmt::format("unknown version {}", version));
  }
  // Only the checksum distinguishes version 1 from a later manifest whose version is damaged.
  if (version == 1 && !json.contains(kChecksum)) return absl::OkStatus();
  const std::string_view sealed =
      text.substr(0, text.size() - std::min(text.size(), kManifestSealBytes));
  const uint32_t crc = Crc32c(sealed);
  if (version == kManifestVersion && text.substr(sealed.size()) == SealOf(crc)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(fmt::format(
      "it was changed or damaged: the end of a manifest of version {} with this content is "
      "\"{}\": \"{:08x}\"; restore the file, or remove it: the shards can be read without it",
      kManifestVersion, kChecksum, crc));
}

}  // namespace shardfeed
