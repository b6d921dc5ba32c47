// The checksum at the end of a manifest. Format and reasons: docs/manifest.md.

#ifndef SHARDFEED_SHARD_MANIFEST_MANIFEST_SEAL_H_
#define SHARDFEED_SHARD_MANIFEST_MANIFEST_SEAL_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"

namespace shardfeed {

inline constexpr char kManifestFormat[] = "shardfeed manifest";
inline constexpr int kManifestVersion = 2;

// Bytes of the checksum at the end, with the brace and the line that end the document.
inline constexpr size_t kManifestSealBytes = 23;

// Adds a last member to `document` that holds the checksum of everything before it. `document` must
// be an object with at least one member, whose closing brace is on a line of its own.
std::string SealManifest(std::string document);

// Checks the format, the version and the checksum of the manifest `text`. `json` was parsed from
// it; its top-level members suffice. Version 1 has no checksum.
//
// DataLoss: the manifest is invalid; the message does not name the file.
absl::Status CheckManifestSeal(std::string_view text, const nlohmann::json& json);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_MANIFEST_MANIFEST_SEAL_H_
