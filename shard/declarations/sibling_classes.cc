#include "shard/declarations/sibling_classes.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "fmt/format.h"
#include "net/open.h"
#include "shard/names/names.h"
#include "shard/schema/class_names.h"

namespace shardfeed {
namespace {

bool HaveACommonName(const ClassNames& a, const ClassNames& b) {
  std::set<std::string_view> names;
  for (const auto& [number, name] : a) names.insert(name);
  return std::any_of(b.begin(), b.end(),
                     [&names](const auto& entry) { return names.count(entry.second) > 0; });
}

}  // namespace

std::vector<SiblingClasses> FindSiblingClasses(const std::string& directory,
                                               const std::vector<Manifest>& written) {
  std::vector<SiblingClasses> found;
  if (written.empty() || written.front().classes.empty() || IsRemote(directory)) return found;
  const auto spec_of = [&directory](const Manifest& manifest) {
    return FormatSpec(directory, manifest.stem, manifest.shards.size(), manifest.suffix);
  };
  std::set<std::string> own;
  for (const Manifest& manifest : written) {
    own.insert(ManifestPath(directory, manifest.stem));
  }
  for (const std::string& path : ManifestsIn(directory).value_or(std::vector<std::string>())) {
    if (own.contains(path)) continue;
    const absl::StatusOr<Manifest> sibling = ReadManifest(path);
    if (!sibling.ok()) continue;
    for (const auto& [feature, classes] : sibling->classes) {
      const auto ours = written.front().classes.find(feature);
      if (ours == written.front().classes.end()) continue;
      const std::string what =
          Contradiction(ours->second, spec_of(written.front()), classes, spec_of(*sibling));
      if (!what.empty() && HaveACommonName(ours->second, classes)) {
        found.push_back({spec_of(*sibling), what});
      }
    }
  }
  return found;
}

}  // namespace shardfeed
