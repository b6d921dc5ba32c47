#include "shard/declarations/joined_declarations.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "shard/declarations/tfds_features.h"
#include "shard/names/names.h"

namespace shardfeed {

absl::Status JoinedDeclarations::Add(std::string_view dataset, const ShardSet& set,
                                     const Manifest* manifest) {
  if (manifest != nullptr) return AddManifest(dataset, manifest);
  absl::StatusOr<std::optional<TfdsDeclared>> tfds = FindTfdsDeclared(set);
  if (!tfds.ok()) return tfds.status();
  if (!*tfds) return AddManifest(dataset, nullptr);
  for (std::string& note : (*tfds)->notes) notes_.push_back(std::move(note));
  AddTypes(dataset, &(*tfds)->types);
  return AddClasses(dataset, &(*tfds)->classes);
}

absl::Status JoinedDeclarations::AddOf(const ShardSet& set) {
  // The datasets of the files in their order, and their manifests; null: unknown.
  std::vector<std::pair<std::string, std::shared_ptr<const Manifest>>> datasets;
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
    if (absl::IsCancelled(manifest.status())) return manifest.status();
    if (absl::IsDataLoss(manifest.status())) {
      notes_.push_back(
          fmt::format("the names of classes and types in a damaged manifest are lost: "
                      "{}",
                      std::string(manifest.status().message())));
    }
    const bool known = manifest.ok() && manifest->shards.size() == shard->count &&
                       manifest->suffix == shard->suffix;
    datasets.emplace_back(dataset,
                          known ? std::make_shared<Manifest>(*std::move(manifest)) : nullptr);
  }
  const bool known =
      std::ranges::any_of(datasets, [](const auto& dataset) { return dataset.second != nullptr; });
  if (!known && !set.paths.empty()) {
    return Add(SplitPath(set.paths.front()).directory, set, nullptr);
  }
  for (const auto& [dataset, manifest] : datasets) {
    if (absl::Status status = AddManifest(dataset, manifest.get()); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status JoinedDeclarations::AddManifest(std::string_view dataset, const Manifest* manifest) {
  if (manifest == nullptr) {
    AddTypes(dataset, nullptr);
    return AddClasses(dataset, nullptr);
  }
  const FeatureTypes types = manifest->schema.Types();
  AddTypes(dataset, &types);
  return AddClasses(dataset, &manifest->classes);
}

absl::Status JoinedDeclarations::AddClasses(std::string_view dataset,
                                            const FeatureClasses* classes) {
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

void JoinedDeclarations::AddTypes(std::string_view dataset, const FeatureTypes* types) {
  if (types == nullptr) {
    if (untyped_.empty()) untyped_ = dataset;
    return;
  }
  if (typed_.empty() && !types->empty()) typed_ = dataset;
  if (std::exchange(no_types_, false)) {
    types_ = *types;
    return;
  }
  for (const auto& [name, type] : *types) {
    if (!types_.contains(name)) differing_.insert(QuotedName(name));
  }
  std::erase_if(types_, [&](const auto& one) {
    const auto other = types->find(one.first);
    const bool same = other != types->end() && other->second == one.second;
    if (!same) differing_.insert(QuotedName(one.first));
    return !same;
  });
}

std::string JoinedDeclarations::NoteOfTypes() const {
  if (typed_.empty()) return "";
  if (!untyped_.empty()) {
    return fmt::format("the types that {} declares are not kept, since {} declares none", typed_,
                       untyped_);
  }
  if (differing_.empty()) return "";
  constexpr size_t kShown = 5;
  const size_t count = differing_.size();
  std::vector<std::string> shown(differing_.begin(), differing_.end());
  if (count > kShown) shown.resize(kShown);
  return fmt::format("the types of {} are not kept, since not all datasets have the same: {}{}",
                     count == 1 ? "1 feature" : fmt::format("{} features", count),
                     fmt::join(shown, ", "), count > kShown ? ", ..." : "");
}

std::vector<std::string> JoinedDeclarations::Notes(bool with_types) const {
  std::vector<std::string> notes = notes_;
  for (const auto& [feature, naming] : naming_) {
    if (naming.count == num_datasets_) continue;
    const size_t others = num_datasets_ - naming.count;
    notes.push_back(fmt::format(
        "the names of the classes of {} are those of {}; {} of {} datasets {} none",
        QuotedName(feature), naming.first, others, num_datasets_, others == 1 ? "names" : "name"));
  }
  const std::string note = with_types ? NoteOfTypes() : "";
  if (!note.empty()) notes.push_back(note);
  return notes;
}

}  // namespace shardfeed
