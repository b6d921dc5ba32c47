#include "shard/spec/described_folder.h"

#include <algorithm>
#include <map>

#include "fmt/format.h"
#include "io/bounded_json.h"
#include "io/file.h"
#include "net/open.h"
#include "nlohmann/json.hpp"
#include "shard/manifest/manifest_seal.h"
#include "shard/names/file_names.h"
#include "shard/names/names.h"
#include "shard/spec/at_form.h"

namespace shardfeed {
namespace {

using Json = nlohmann::json;

// A manifest has roughly a hundred bytes per shard.
constexpr uint64_t kMaxJsonBytes = 512 << 20;

// Returns the member `key` if it is a string, otherwise an empty string.
std::string TextOf(const Json& object, const char* key) {
  const auto member = object.find(key);
  return member != object.end() && member->is_string() ? member->get<std::string>() : "";
}

// Returns `text` with each {NAME} replaced by its value. Nullopt: a name has no value.
std::optional<std::string> Fill(std::string_view text,
                                const std::map<std::string_view, std::string_view>& values) {
  std::string filled;
  while (!text.empty()) {
    if (text[0] != '{') {
      filled += text[0];
      text.remove_prefix(1);
      continue;
    }
    const size_t end = text.find('}');
    if (end == text.npos) return std::nullopt;
    const auto value = values.find(text.substr(1, end - 1));
    if (value == values.end()) return std::nullopt;
    filled += value->second;
    text.remove_prefix(end + 1);
  }
  return filled;
}

}  // namespace

absl::StatusOr<Described> ReadDescribed(const std::string& path) {
  absl::StatusOr<std::string> text = ReadWhole(path, kMaxJsonBytes);
  if (!text.ok()) return text.status();
  // The list of shards may be long and is not needed.
  Json json;
  absl::Status status = ParseTopOfJson(*text, &json);
  if (status.ok()) status = CheckManifestSeal(*text, json);
  JsonMembers members;
  const std::string stem = status.ok() ? members.Text(json, "stem") : "";
  const std::string suffix = status.ok() ? members.Text(json, "suffix") : "";
  const uint64_t count = status.ok() ? members.Number(json, "num_shards") : 0;
  if (status.ok() && stem.empty()) members.Fail("\"stem\" is empty");
  status.Update(members.status());
  if (!status.ok()) {
    return absl::DataLossError(fmt::format(
        "{}: not a shardfeed manifest: {}; name the shards by stem@N instead of the folder", path,
        std::string(status.message())));
  }
  if (SplitPath(path).name != stem + std::string(kManifestEnding)) {
    return absl::DataLossError(
        fmt::format("{}: describes '{}'; was it renamed? Name the shards by stem@N instead of the "
                    "folder",
                    path, stem));
  }
  return Described{stem, count, suffix};
}

std::string Described::Spec(std::string_view directory) const {
  return FormatSpec(directory, stem, count, suffix);
}

absl::StatusOr<ShardSet> Described::Resolve(const std::string& directory,
                                            const Folder& folder) const {
  return ResolveAt(Spec(directory), directory, folder, {stem, count, suffix});
}

absl::StatusOr<ShardSet> ResolveManifests(const std::string& spec, const Folder& folder,
                                          const std::vector<std::string>& manifests) {
  std::vector<Described> datasets;
  for (const std::string& name : manifests) {
    absl::StatusOr<Described> dataset =
        ReadDescribed(fmt::format("{}/{}", JoinPath(spec, kSidecarFolder), name));
    if (!dataset.ok()) return dataset.status();
    datasets.push_back(*std::move(dataset));
  }
  if (datasets.size() == 1) return datasets[0].Resolve(spec, folder);
  std::vector<std::string> specs;
  specs.reserve(datasets.size());
  for (const Described& dataset : datasets) specs.push_back(dataset.Spec(spec));
  std::sort(specs.begin(), specs.end());
  return absl::InvalidArgumentError(fmt::format("{}: holds {} datasets; name one of them: {}", spec,
                                                specs.size(), FirstOf(specs)));
}

absl::StatusOr<std::vector<std::pair<std::string, Described>>> ReadTfdsSplits(
    const std::string& path) {
  absl::StatusOr<std::string> text = ReadWhole(path, kMaxJsonBytes);
  if (!text.ok()) return text.status();
  Json info;
  if (absl::Status status = ParseBoundedJson(*text, &info); !status.ok()) {
    return absl::DataLossError(fmt::format("{}: not a TFDS dataset description: invalid JSON: {}",
                                           path, std::string(status.message())));
  }
  std::vector<std::pair<std::string, Described>> splits;
  // Hugging Face has a file of this name too; its splits are not a list and do not name files.
  const auto listed = info.find("splits");
  if (listed == info.end() || !listed->is_array()) return splits;
  const std::string dataset = TextOf(info, "name");
  std::string format = TextOf(info, "fileFormat");
  if (format.empty()) format = "tfrecord";
  if (format != "tfrecord" && format != "array_record") {
    return absl::InvalidArgumentError(
        fmt::format("{}: the shards are {} files; only tfrecord and array_record files can be read",
                    path, format));
  }
  for (const Json& split : *listed) {
    const std::string name = TextOf(split, "name");
    std::string pattern = TextOf(split, "filepathTemplate");
    if (pattern.empty()) pattern = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}";
    // Derive the stem and the suffix, which all shards share, from the name of one shard.
    const std::optional<std::string> example = Fill(pattern, {{"DATASET", dataset},
                                                              {"SPLIT", name},
                                                              {"FILEFORMAT", format},
                                                              {"SHARD_X_OF_Y", "00000-of-00001"},
                                                              {"SHARD_INDEX", "00000"},
                                                              {"NUM_SHARDS", "00001"}});
    const std::optional<ShardNameView> shard = example ? ViewShardName(*example) : std::nullopt;
    if (name.empty() || !shard || example->find('/') != std::string::npos) {
      return absl::DataLossError(
          fmt::format("{}: cannot derive the files of split '{}' from its filepathTemplate '{}'; "
                      "name them by a glob",
                      path, name, pattern));
    }
    const auto lengths = split.find("shardLengths");
    std::optional<uint64_t> count;
    if (lengths != split.end() && lengths->is_array()) count = lengths->size();
    splits.emplace_back(name,
                        Described{std::string(shard->stem), count, std::string(shard->suffix)});
  }
  if (splits.empty()) return absl::NotFoundError(fmt::format("{}: lists no splits", path));
  return splits;
}

}  // namespace shardfeed
