#include "shard/declarations/tfds_info.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/file.h"
#include "io/remedy.h"
#include "nlohmann/json.hpp"
#include "shard/commit/file_replacement.h"
#include "shard/manifest/manifest.h"
#include "shard/schema/schema.h"
#include "shard/spec/spec.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kLabel[] = "image/class/label";
// The file in which TFDS expects the names of that feature's classes.
constexpr char kLabelNames[] = "image.class.label.labels.txt";
constexpr uint64_t kMaxNamesBytes = 64 << 20;

bool IsVersion(const std::string& name) {
  int dots = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(name[i])) != 0;
    if (digit) continue;
    if (name[i] != '.' || i == 0 || name[i - 1] == '.' || i + 1 == name.size()) return false;
    ++dots;
  }
  return dots == 2;
}

struct Identity {
  std::string name;
  std::string version = "1.0.0";
};

absl::StatusOr<Identity> IdentityOf(const std::string& directory) {
  std::error_code error;
  const fs::path path = fs::canonical(directory.empty() ? "." : directory, error);
  if (error) return ErrnoStatus(error.value(), directory, "look up");
  Identity identity;
  identity.name = path.filename().string();
  if (IsVersion(identity.name)) {
    identity.version = std::move(identity.name);
    identity.name = path.parent_path().filename().string();
  }
  if (identity.name.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("{}: a TFDS dataset is named after its folder, but this folder has no name",
                    path.string()));
  }
  return identity;
}

absl::StatusOr<std::vector<Manifest>> ReadManifests(const std::string& directory) {
  const absl::StatusOr<std::vector<std::string>> paths = ManifestsIn(directory);
  if (!paths.ok()) return paths.status();
  if (paths->empty()) {
    return absl::NotFoundError(
        fmt::format("{}: no dataset with a manifest", directory.empty() ? "." : directory));
  }
  std::vector<Manifest> manifests;
  for (const std::string& path : *paths) {
    absl::StatusOr<Manifest> manifest = ReadManifest(path);
    if (!manifest.ok()) return manifest.status();
    std::string_view defect;
    if (manifest->compression != Compression::kNone) {
      defect = "it is compressed, and TFDS reads raw shards only";
    } else if (manifest->schema.not_examples() > 0) {
      defect = "it holds records that are not tf.train.Examples";
    }
    for (const auto& [name, feature] : manifest->schema.features()) {
      if (feature.is_list) defect = "it holds SequenceExamples, which TFDS does not read";
    }
    if (!defect.empty()) {
      return absl::FailedPreconditionError(fmt::format(
          "{}: cannot be a split of a TFDS dataset: {}; all datasets of a folder become "
          "splits, so put it into another one",
          path, defect));
    }
    manifests.push_back(*std::move(manifest));
  }
  return manifests;
}

Json Feature(std::string_view python_class, const char* member, Json content) {
  return {{"pythonClassName", fmt::format("tensorflow_datasets.core.features.{}", python_class)},
          {member, std::move(content)}};
}

Json Tensor(const char* dtype, std::optional<uint64_t> values) {
  // 64-bit numbers are strings, and -1 means any number of values.
  Json dimensions = Json::array();
  if (values != 1) dimensions.push_back(values ? fmt::format("{}", *values) : "-1");
  return Feature(
      "tensor_feature.Tensor", "tensor",
      {{"shape", {{"dimensions", std::move(dimensions)}}}, {"dtype", dtype}, {"encoding", "none"}});
}

Json FeaturesOf(const Schema& schema, size_t num_classes) {
  Json features = Json::object();
  for (const auto& [name, feature] : schema.features()) {
    if (feature.kind == FeatureKind::kNone || feature.mixed_kinds > 0) continue;
    const bool fixed = feature.records == schema.records() && feature.min_values > 0 &&
                       feature.min_values == feature.max_values;
    const bool one = fixed && feature.min_values == 1;
    if (name == "image/encoded" && one && feature.kind == FeatureKind::kBytes) {
      features[name] =
          Feature("image_feature.Image", "image",
                  {{"shape", {{"dimensions", {"-1", "-1", "3"}}}}, {"dtype", "uint8"}});
    } else if (name == kLabel && one && feature.kind == FeatureKind::kInt64 && num_classes > 0) {
      features[name] = Feature("class_label_feature.ClassLabel", "classLabel",
                               {{"numClasses", fmt::format("{}", num_classes)}});
    } else {
      const char* dtype = feature.kind == FeatureKind::kBytes   ? "string"
                          : feature.kind == FeatureKind::kFloat ? "float32"
                                                                : "int64";
      features[name] = Tensor(dtype, fixed ? std::optional(feature.min_values) : std::nullopt);
    }
  }
  return Feature("features_dict.FeaturesDict", "featuresDict", {{"features", std::move(features)}});
}

absl::Status Replace(const std::string& path, std::string_view bytes) {
  absl::StatusOr<std::unique_ptr<FileReplacement>> replacement = FileReplacement::Begin(path);
  if (!replacement.ok()) return replacement.status();
  absl::Status status = (*replacement)->file().Append(bytes);
  return status.ok() ? (*replacement)->Commit() : status;
}

}  // namespace

absl::Status WriteTfdsInfo(const std::string& directory,
                           const std::vector<std::string>& class_names) {
  absl::StatusOr<Identity> identity = IdentityOf(directory);
  if (!identity.ok()) return identity.status();
  absl::StatusOr<std::vector<Manifest>> manifests = ReadManifests(directory);
  if (!manifests.ok()) return manifests.status();
  const std::string prefix = directory.empty() ? "" : directory + "/";

  // The file has one name per line.
  std::string names;
  for (const std::string& name : class_names) names += name + "\n";
  if (std::count(names.begin(), names.end(), '\n') != std::ssize(class_names)) names.clear();
  const std::string names_path = prefix + kLabelNames;
  absl::StatusOr<std::string> earlier = ReadFile(names_path, kMaxNamesBytes);
  if (earlier.ok() && *earlier != names && !names.empty()) {
    return WithRemedy(absl::FailedPreconditionError(fmt::format(
                          "{}: lists other classes than this conversion, so class numbers "
                          "would be ambiguous; remove the file if it is out of date",
                          names_path)),
                      {"class_map", "FILE", "fix the numbers of the classes"});
  }
  if (names.empty() && earlier.ok()) names = *earlier;
  const size_t num_classes = std::count(names.begin(), names.end(), '\n');

  Schema schema;
  Json splits = Json::array();
  for (const Manifest& manifest : *manifests) {
    schema.Merge(manifest.schema);
    const std::string start = identity->name + "-";
    const bool named = manifest.stem.starts_with(start) && manifest.stem.size() > start.size();
    const std::string name = named ? manifest.stem.substr(start.size()) : manifest.stem;
    if (name == "all") {
      return absl::FailedPreconditionError(
          fmt::format("{}: 'all' means all splits in TFDS; give the dataset another name",
                      ManifestPath(directory, manifest.stem)));
    }
    Json lengths = Json::array();
    for (const ManifestShard& shard : manifest.shards) {
      lengths.push_back(fmt::format("{}", shard.records));
    }
    splits.push_back({{"name", name},
                      {"numBytes", fmt::format("{}", manifest.num_bytes())},
                      {"shardLengths", std::move(lengths)},
                      {"filepathTemplate",
                       fmt::format("{}-{{SHARD_X_OF_Y}}{}", manifest.stem, manifest.suffix)}});
  }
  const Json info = {{"name", identity->name},
                     {"version", identity->version},
                     {"description", "Converted by shardfeed."},
                     {"fileFormat", "tfrecord"},
                     {"splits", std::move(splits)}};
  const auto text = [](const Json& json) {
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  };
  absl::Status status;
  if (!names.empty()) status = Replace(names_path, names);
  if (status.ok()) {
    status = Replace(prefix + "features.json", text(FeaturesOf(schema, num_classes)));
  }
  // Write this file last: without it, TFDS does not recognize the folder as a dataset.
  return status.ok() ? Replace(prefix + "dataset_info.json", text(info)) : status;
}

}  // namespace shardfeed
