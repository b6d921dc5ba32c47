#include "shard/manifest.h"

#include <charconv>

#include "fmt/format.h"
#include "io/file.h"
#include "nlohmann/json.hpp"

namespace shardfeed {
namespace {

constexpr int kVersion = 1;
constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 30;

}  // namespace

uint64_t Manifest::num_records() const {
  uint64_t sum = 0;
  for (const ManifestShard& shard : shards) sum += shard.records;
  return sum;
}

uint64_t Manifest::num_bytes() const {
  uint64_t sum = 0;
  for (const ManifestShard& shard : shards) sum += shard.bytes;
  return sum;
}

std::string FormatManifest(const Manifest& manifest) {
  nlohmann::ordered_json json;
  json["format"] = "shardfeed manifest";
  json["version"] = kVersion;
  json["stem"] = manifest.stem;
  json["suffix"] = manifest.suffix;
  json["num_shards"] = manifest.shards.size();
  json["compression"] = CompressionName(manifest.compression);
  json["records"] = manifest.num_records();
  json["bytes"] = manifest.num_bytes();
  json["made_by"] = manifest.made_by;
  if (!manifest.notes.empty()) json["notes"] = manifest.notes;
  if (manifest.skipped.count > 0) {
    json["skipped"] = {{"records", manifest.skipped.count}, {"first", manifest.skipped.first}};
  }
  json["not_examples"] = manifest.schema.not_examples();
  json["features"] = manifest.schema.ToJson();
  nlohmann::ordered_json& shards = json["shards"] = nlohmann::ordered_json::array();
  for (const ManifestShard& shard : manifest.shards) {
    shards.push_back({{"file", shard.file},
                      {"bytes", shard.bytes},
                      {"records", shard.records},
                      {"records_digest", fmt::format("{:08x}", shard.records_digest)}});
  }
  // Messages quote the input, which need not be UTF-8.
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Manifest> ParseManifest(std::string_view text, const std::string& path) {
  const auto broken = [&path](std::string_view what) {
    return absl::DataLossError(fmt::format("{}: not a manifest of shardfeed: {}", path, what));
  };
  Manifest manifest;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("format") != "shardfeed manifest") return broken("\"format\" names another format");
    if (json.at("version") != kVersion) {
      return broken(
          fmt::format("version {} is not known to this program", json.at("version").dump()));
    }
    manifest.stem = json.at("stem");
    manifest.suffix = json.at("suffix");
    const auto compression = ParseCompression(json.at("compression").get<std::string>());
    if (!compression) return broken("unknown compression");
    manifest.compression = *compression;
    manifest.made_by = json.at("made_by").get<std::map<std::string, std::string>>();
    manifest.notes = json.value("notes", std::vector<std::string>());
    if (json.contains("skipped")) {
      manifest.skipped.count = json["skipped"].at("records");
      manifest.skipped.first = json["skipped"].at("first").get<std::vector<std::string>>();
    }
    for (const nlohmann::json& entry : json.at("shards")) {
      ManifestShard& shard = manifest.shards.emplace_back();
      shard.file = entry.at("file");
      shard.bytes = entry.at("bytes");
      shard.records = entry.at("records");
      const std::string digest = entry.at("records_digest");
      const auto end = digest.data() + digest.size();
      if (std::from_chars(digest.data(), end, shard.records_digest, 16).ptr != end) {
        return broken("a records_digest is not a hexadecimal number");
      }
    }
    absl::Status schema = manifest.schema.FromJson(json.at("features"), manifest.num_records(),
                                                   json.at("not_examples"));
    if (!schema.ok()) return broken(std::string(schema.message()));
  } catch (const nlohmann::json::exception& e) {
    return broken(e.what());
  }
  return manifest;
}

absl::StatusOr<Manifest> ReadManifest(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxManifestBytes);
  if (!text.ok()) return text.status();
  return ParseManifest(*text, path);
}

}  // namespace shardfeed
