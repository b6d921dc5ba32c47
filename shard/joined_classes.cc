#include "shard/joined_classes.h"

#include <optional>
#include <set>

#include "fmt/format.h"
#include "shard/manifest.h"
#include "shard/names.h"

namespace shardfeed {

absl::Status JoinedClasses::Add(std::string_view dataset, const FeatureClasses* classes) {
  ++num_datasets_;
  if (classes == nullptr) return absl::OkStatus();
  for (const auto& [feature, of_feature] : *classes) {
    Naming& naming = naming_[feature];
    if (naming.count++ == 0) naming.first = dataset;
    ClassNames& known = classes_[feature];
    const std::string contradiction = Contradiction(known, naming.first, of_feature, dataset);
    if (!contradiction.empty()) {
      return absl::FailedPreconditionError(fmt::format(
          "the classes of {} differ: {}; convert one of them again with the classes of the other "
          "('shardfeed convert' takes a dataset as class map)",
          QuotedName(feature), contradiction));
    }
    known.insert(of_feature.begin(), of_feature.end());
  }
  return absl::OkStatus();
}

absl::Status JoinedClasses::AddOf(const ShardSet& set) {
  std::set<std::string, std::less<>> seen;
  for (const std::string& path : set.paths) {
    const PathParts parts = SplitPath(path);
    const std::optional<ShardNameView> shard = ViewShardName(parts.name);
    const std::string dataset =
        shard ? FormatSpec(parts.directory, shard->stem, shard->count, shard->suffix) : path;
    if (!seen.insert(dataset).second) continue;
    absl::StatusOr<Manifest> manifest =
        shard ? ReadManifest(ManifestPath(parts.directory, shard->stem))
              : absl::StatusOr<Manifest>(absl::NotFoundError(""));
    if (absl::IsDataLoss(manifest.status())) {
      damaged_.push_back(fmt::format("the names of classes in a damaged manifest are lost: {}",
                                     std::string(manifest.status().message())));
    }
    const bool known = manifest.ok() && manifest->shards.size() == shard->count &&
                       manifest->suffix == shard->suffix;
    absl::Status status = Add(dataset, known ? &manifest->classes : nullptr);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::vector<std::string> JoinedClasses::Notes() const {
  std::vector<std::string> notes = damaged_;
  for (const auto& [feature, naming] : naming_) {
    if (naming.count == num_datasets_) continue;
    const size_t others = num_datasets_ - naming.count;
    notes.push_back(fmt::format(
        "the names of the classes of {} are those of {}; {} of {} datasets {} none",
        QuotedName(feature), naming.first, others, num_datasets_, others == 1 ? "names" : "name"));
  }
  return notes;
}

}  // namespace shardfeed
