// The checksum at the end of a manifest. Format and reasons: docs/manifest.md.

#ifndef SHARDFEED_SHARD_MANIFEST_SEAL_H_
#define SHARDFEED_SHARD_MANIFEST_SEAL_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"

namespace shardfeed {

inline constexpr char kManifestFormat[] = "shardfeed manifest";
inline constexpr int kManifestVersion = 2;

// `document` is an object of at least one member, whose closing brace stands on a line of its own.
// Adds the last member, which holds the checksum of all that stands before it.
std::string SealManifest(std::string document);

// Checks the format, the version and the checksum of the manifest `text`. `json` is what was parsed
// from it; its top is enough. Version 1 has no checksum.
//
// DataLoss: what is wrong, without a file name.
absl::Status CheckManifestSeal(std::string_view text, const nlohmann::json& json);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_MANIFEST_SEAL_H_
