#include "shard/manifest/manifest.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "io/bounded_json.h"
#include "io/file.h"
#include "io/folder.h"
#include "net/open.h"
#include "nlohmann/json.hpp"
#include "shard/manifest/manifest_seal.h"
#include "shard/statistics/statistics_json.h"
#include "shard/statistics/value_statistics.h"

namespace shardfeed {
namespace {

// Returns the name as it is read back from JSON, which can only store UTF-8.
std::string AsStored(const std::string& name) {
  if (std::all_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x80; })) return name;
  const auto replace = nlohmann::json::error_handler_t::replace;
  return nlohmann::json::parse(nlohmann::json(name).dump(-1, ' ', false, replace));
}

// Names determine which files are compared, replaced and removed, so a manifest is rejected unless
// they are those of the dataset's own shards. If file names are not UTF-8, replaces the stored
// names by the real ones.
absl::Status CheckNames(const std::string& path, Manifest* manifest) {
  std::string own = path.substr(path.rfind('/') + 1);
  if (own.ends_with(kManifestEnding)) {
    own.resize(own.size() - kManifestEnding.size());
    if (AsStored(own) != manifest->stem) {
      return absl::DataLossError(fmt::format("it describes '{}'; was it renamed?", manifest->stem));
    }
    manifest->stem = own;
  }
  const size_t count = manifest->shards.size();
  const std::string first = ShardName(manifest->stem, 0, count, manifest->suffix);
  const std::optional<ParsedName> parsed = ParseShardName(first);
  const bool plain = parsed && parsed->stem == manifest->stem &&
                     parsed->suffix == manifest->suffix &&
                     first.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
  if (count == 0 || !plain) {
    return absl::DataLossError(
        fmt::format("{} shards with the stem '{}' and the suffix '{}' are not a valid dataset",
                    count, manifest->stem, manifest->suffix));
  }
  for (size_t i = 0; i < count; ++i) {
    std::string name = ShardName(manifest->stem, i, count, manifest->suffix);
    ManifestShard& shard = manifest->shards[i];
    if (AsStored(name) != shard.file) {
      return absl::DataLossError(
          fmt::format("its shard {} is called '{}' instead of '{}'", i, shard.file, name));
    }
    shard.file = std::move(name);
  }
  return absl::OkStatus();
}

bool ParseDigest(std::string_view text, uint32_t* digest) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *digest, 16);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

// Returns the maximum number of records in a file of `bytes` bytes: a frame takes 16 bytes, and no
// known compression exceeds deflate's maximum expansion of 1032.
uint64_t MostRecords(uint64_t bytes) {
  return static_cast<uint64_t>(
      std::min<unsigned __int128>(static_cast<unsigned __int128>(bytes) * 1032 / 16, UINT64_MAX));
}

// Takes exactly `literal` from the beginning of `text`.
bool Take(std::string_view literal, std::string_view* text) {
  if (!text->starts_with(literal)) return false;
  text->remove_prefix(literal.size());
  return true;
}

bool TakeNumber(std::string_view* text, uint64_t* number) {
  const char* const end = text->data() + text->size();
  const auto [after, error] = std::from_chars(text->data(), end, *number);
  // JSON has no leading zeros.
  if (error != std::errc() || (text->front() == '0' && after != text->data() + 1)) return false;
  text->remove_prefix(after - text->data());
  return true;
}

bool TakePlainText(std::string_view* text, std::string_view* plain) {
  const size_t end = text->find('"');
  if (end == text->npos) return false;
  *plain = text->substr(0, end);
  text->remove_prefix(end + 1);
  return std::all_of(plain->begin(), plain->end(),
                     [](unsigned char c) { return c >= 0x20 && c < 0x80 && c != '\\'; });
}

// Reads the list of shards, nearly all of a large manifest, as FormatManifest writes it, and
// returns the manifest without it: of 200,000 shards, the JSON library takes a second. Nullopt: the
// text is not laid out like that, but may still be a manifest.
std::optional<std::string> TakeShards(std::string_view text, std::vector<ManifestShard>* shards) {
  constexpr std::string_view kList = "\n \"shards\": [";
  const size_t list = text.find(kList);
  if (list == text.npos) return std::nullopt;
  std::string_view rest = text.substr(list + kList.size());
  do {
    ManifestShard& shard = shards->emplace_back();
    std::string_view file;
    std::string_view digest;
    const bool taken = Take("\n  {\n   \"file\": \"", &rest) && TakePlainText(&rest, &file) &&
                       Take(",\n   \"bytes\": ", &rest) && TakeNumber(&rest, &shard.bytes) &&
                       Take(",\n   \"records\": ", &rest) && TakeNumber(&rest, &shard.records) &&
                       Take(",\n   \"records_digest\": \"", &rest) &&
                       TakePlainText(&rest, &digest) && Take("\n  }", &rest) &&
                       ParseDigest(digest, &shard.records_digest);
    if (!taken || shards->size() > kMaxShards) return std::nullopt;
    shard.file = file;
  } while (Take(",", &rest));
  // What follows the list can only be the end of the document. So it is a list of the document
  // itself, and not of something in it.
  if (!Take("\n ],\n ", &rest) || rest.size() != kManifestSealBytes) return std::nullopt;
  return fmt::format("{}{}],\n {}", text.substr(0, list), kList, rest);
}

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
  json["format"] = kManifestFormat;
  json["version"] = kManifestVersion;
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
  if (manifest.values != nullptr) {
    json["statistics"] = StatisticsToManifest(manifest.schema, *manifest.values);
  }
  if (!manifest.classes.empty()) json["classes"] = ClassesToJson(manifest.classes);
  nlohmann::ordered_json& shards = json["shards"] = nlohmann::ordered_json::array();
  for (const ManifestShard& shard : manifest.shards) {
    shards.push_back({{"file", shard.file},
                      {"bytes", shard.bytes},
                      {"records", shard.records},
                      {"records_digest", fmt::format("{:08x}", shard.records_digest)}});
  }
  // Messages quote the input, which need not be UTF-8.
  return SealManifest(json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

absl::StatusOr<Manifest> ParseManifest(std::string_view text, const std::string& path) {
  const auto broken = [&path](std::string_view what) {
    return absl::DataLossError(fmt::format("{}: not a shardfeed manifest: {}", path, what));
  };
  Manifest manifest;
  nlohmann::json json;
  const std::optional<std::string> others = TakeShards(text, &manifest.shards);
  if (!others) manifest.shards.clear();
  absl::Status status = ParseBoundedJson(others ? *others : text, &json);
  if (status.ok()) status = CheckManifestSeal(text, json);
  if (!status.ok()) return broken(std::string(status.message()));

  JsonMembers members;
  manifest.stem = members.Text(json, "stem");
  manifest.suffix = members.Text(json, "suffix");
  const auto compression = ParseCompression(members.Text(json, "compression"));
  const nlohmann::json& made_by = members.Object(json, "made_by");
  for (const auto& [key, value] : made_by.items()) {
    manifest.made_by[key] = members.Text(made_by, key);
  }
  if (json.contains("notes")) manifest.notes = members.Texts(json, "notes");
  if (json.contains("skipped")) {
    const nlohmann::json& skipped = members.Object(json, "skipped");
    manifest.skipped.count = members.Number(skipped, "records");
    manifest.skipped.first = members.Texts(skipped, "first");
  }
  const uint64_t records = members.Number(json, "records");
  const uint64_t bytes = members.Number(json, "bytes");
  const uint64_t num_shards = members.Number(json, "num_shards");
  for (const nlohmann::json& entry : members.Array(json, "shards")) {
    if (!entry.is_object()) return broken("a shard is not an object");
    ManifestShard& shard = manifest.shards.emplace_back();
    shard.file = members.Text(entry, "file");
    shard.bytes = members.Number(entry, "bytes");
    shard.records = members.Number(entry, "records");
    const std::string digest = members.Text(entry, "records_digest");
    if (!members.status().ok()) break;
    if (!ParseDigest(digest, &shard.records_digest)) {
      return broken("a records_digest is not a 32-bit hexadecimal number");
    }
  }
  // Subtract from the totals, so that no sum can overflow.
  uint64_t records_left = records;
  uint64_t bytes_left = bytes;
  for (const ManifestShard& shard : manifest.shards) {
    if (!members.status().ok()) break;
    if (shard.records > records_left || shard.bytes > bytes_left) {
      return broken("its shards hold more than the totals \"records\" and \"bytes\" say");
    }
    if (shard.records > MostRecords(shard.bytes)) {
      return broken(fmt::format("'{}' cannot hold {} records in {} bytes", shard.file,
                                shard.records, shard.bytes));
    }
    records_left -= shard.records;
    bytes_left -= shard.bytes;
  }
  const uint64_t not_examples = members.Number(json, "not_examples");
  const nlohmann::json& features = members.Object(json, "features");
  if (json.contains("classes")) {
    const absl::Status read = ClassesFromJson(members.Object(json, "classes"), &manifest.classes);
    if (!read.ok()) return broken(std::string(read.message()));
  }
  if (!members.status().ok()) return broken(std::string(members.status().message()));
  if (!compression) return broken("unknown compression");
  manifest.compression = *compression;
  if (records_left > 0 || bytes_left > 0) {
    return broken("its shards hold less than the totals \"records\" and \"bytes\" say");
  }
  if (num_shards != manifest.shards.size()) {
    return broken(fmt::format("num_shards is {}, but it lists {} shards", num_shards,
                              manifest.shards.size()));
  }
  status = manifest.schema.FromJson(features, records, not_examples);
  if (status.ok() && json.contains("statistics")) {
    absl::StatusOr<std::shared_ptr<const ValueStatistics>> values =
        StatisticsFromManifest(json["statistics"], manifest.schema);
    status = values.status();
    if (values.ok()) manifest.values = *std::move(values);
  }
  if (status.ok()) status = CheckNames(path, &manifest);
  if (!status.ok()) return broken(std::string(status.message()));
  return manifest;
}

absl::StatusOr<std::vector<std::string>> ManifestsIn(const std::string& directory) {
  const std::string folder = SidecarPath(directory);
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(folder);
  if (!names.ok() && !absl::IsNotFound(names.status())) return names.status();
  std::vector<std::string> paths;
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    if (name.ends_with(kManifestEnding)) paths.push_back(JoinPath(folder, name));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

absl::StatusOr<Manifest> ReadManifest(const std::string& path) {
  absl::StatusOr<std::string> text = ReadWhole(path, kMaxManifestBytes);
  if (!text.ok()) return text.status();
  return ParseManifest(*text, path);
}

bool Describes(const Manifest& manifest, const ShardSet& set) {
  return manifest.shards.size() == set.paths.size() && manifest.suffix == set.suffix;
}

std::shared_ptr<const Manifest> FindManifest(const ShardSet& set) {
  if (!set.sharded_name) return nullptr;
  if (set.manifest != nullptr) return Describes(*set.manifest, set) ? set.manifest : nullptr;
  absl::StatusOr<Manifest> manifest = ReadManifest(ManifestPath(set.directory, set.stem));
  if (!manifest.ok() || !Describes(*manifest, set)) return nullptr;
  return std::make_shared<const Manifest>(*std::move(manifest));
}

}  // namespace shardfeed
