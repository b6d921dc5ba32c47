#include "convert/features/class_map.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "base/excerpt.h"
#include "convert/input/name_list.h"
#include "convert/input/text_reader.h"
#include "fmt/format.h"
#include "io/bounded_json.h"
#include "nlohmann/json.hpp"
#include "shard/manifest/manifest_seal.h"

namespace shardfeed {
namespace {

constexpr uint64_t kMaxBytes = 64 << 20;

}  // namespace

absl::Status ClassMap::Add(std::string_view name, int64_t number, std::string_view place) {
  if (name.empty()) return absl::DataLossError(fmt::format("{}: an empty class name", place));
  const auto [it, fresh] = number_of_name_.emplace(name, number);
  if (!fresh) {
    return absl::DataLossError(fmt::format("{}: the class {} appears twice", place, Excerpt(name)));
  }
  const auto [other, fresh_number] = name_of_number_.emplace(number, it->first);
  if (!fresh_number) {
    return absl::DataLossError(fmt::format("{}: {} and {} have the same number {}", place,
                                           Excerpt(other->second), Excerpt(name), number));
  }
  return absl::OkStatus();
}

absl::StatusOr<ClassMap> ClassMap::Of(const NamedManifest& dataset) {
  ClassMap map;
  map.path_ = dataset.name;
  map.of_dataset_ = true;
  const ClassNames* classes = ClassesOfImages(dataset.manifest.classes);
  if (classes == nullptr) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: its manifest names no classes; convert it again, or list them in a file, one name per "
        "line",
        dataset.name));
  }
  for (const auto& [number, name] : *classes) {
    if (absl::Status status = map.Add(name, number, dataset.name); !status.ok()) return status;
  }
  return map;
}

std::string ClassMap::Lacks(std::string_view what) const {
  return fmt::format("{} is not in {}; {}", what, path_,
                     of_dataset_ ? "leave it out, or convert both datasets with one list of all "
                                   "classes"
                                 : "add it there, or leave it out");
}

std::string ClassMap::NoteOfUnused(const std::set<int64_t>& used) const {
  NameList unused;
  for (const auto& [number, name] : name_of_number_) {
    if (used.count(number) == 0) unused.Add(name);
  }
  if (unused.count() == 0) return "";
  return fmt::format("{}: {} of {} classes do not occur here: {}", path_, unused.count(), size(),
                     unused.names());
}

absl::StatusOr<ClassMap> ClassMap::Read(const std::string& path) {
  if (NamesDataset(path)) {
    const absl::StatusOr<NamedManifest> dataset = ReadNamedManifest(path);
    return dataset.ok() ? Of(*dataset) : dataset.status();
  }
  ClassMap map;
  map.path_ = path;
  absl::StatusOr<std::string> text = ReadText(path, kMaxBytes);
  if (!text.ok()) return text.status();
  std::string_view rest = *text;
  const size_t first = rest.find_first_not_of(" \t\r\n");
  if (first != rest.npos && rest[first] == '{') {
    nlohmann::json json;
    if (absl::Status status = ParseBoundedJson(*text, &json); !status.ok()) {
      return absl::DataLossError(
          fmt::format("{}: starts like a JSON object, but is not one: {}; expected "
                      "{{\"cat\": 0, \"dog\": 1}}, or one class name per line",
                      path, std::string(status.message())));
    }
    if (json.value("format", nlohmann::json()) == kManifestFormat) {
      absl::StatusOr<Manifest> manifest = ParseManifest(*text, path);
      return manifest.ok() ? Of({path, *std::move(manifest)}) : manifest.status();
    }
    for (const auto& [name, number] : json.items()) {
      if (!number.is_number_unsigned() || number.get<uint64_t>() > INT64_MAX) {
        return absl::DataLossError(
            fmt::format("{}: the number of {} must be an integer of at least 0, got {}", path,
                        Excerpt(name), number.dump()));
      }
      absl::Status status = map.Add(name, number.get<int64_t>(), path);
      if (!status.ok()) return status;
    }
  } else {
    int64_t number = 0;
    uint64_t blank = 0;  // number of the first blank line
    for (uint64_t line = 1; !rest.empty(); ++line) {
      std::string_view name = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(name.size() + 1, rest.size()));
      if (name.ends_with('\r')) name.remove_suffix(1);
      if (name.empty()) {
        if (blank == 0) blank = line;
        continue;
      }
      if (blank != 0) {
        return absl::DataLossError(fmt::format(
            "{}:{}: a blank line between names; remove it, since lines number the classes", path,
            blank));
      }
      absl::Status status = map.Add(name, number++, fmt::format("{}:{}", path, line));
      if (!status.ok()) return status;
    }
  }
  if (map.size() == 0) {
    return absl::DataLossError(fmt::format("{}: the file has no classes", path));
  }
  return map;
}

std::optional<int64_t> ClassMap::NumberOf(std::string_view name) const {
  const auto it = number_of_name_.find(name);
  if (it == number_of_name_.end()) return std::nullopt;
  return it->second;
}

std::optional<std::string_view> ClassMap::NameOf(int64_t number) const {
  const auto it = name_of_number_.find(number);
  if (it == name_of_number_.end()) return std::nullopt;
  return it->second;
}

}  // namespace shardfeed
