// Joins what the manifests of several datasets say about their features when their records become
// one dataset: the names of classes, and the types that features had before they became lists.

#ifndef SHARDFEED_SHARD_DECLARATIONS_JOINED_DECLARATIONS_H_
#define SHARDFEED_SHARD_DECLARATIONS_JOINED_DECLARATIONS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "shard/manifest/manifest.h"
#include "shard/schema/class_names.h"
#include "shard/schema/schema.h"
#include "shardfeed/spec.h"

namespace shardfeed {

class JoinedDeclarations {
 public:
  // Adds a dataset. `manifest` is null if it has none that matches; `name` is its name in messages.
  // Without a manifest, what TFDS declares counts. FailedPrecondition: the classes contradict those
  // of a dataset that was added before. Others: those of FindTfdsDeclared.
  absl::Status Add(std::string_view dataset, const ShardSet& set, const Manifest* manifest);
  // Adds the datasets to which the files belong. A manifest that is damaged becomes a note.
  absl::Status AddOf(const ShardSet& set);

  const FeatureClasses& classes() const { return classes_; }
  // The types on which all datasets agree.
  FeatureTypes types() const { return untyped_.empty() ? types_ : FeatureTypes(); }
  // What users should know: features whose classes only some of the datasets name, and types that
  // are lost. `with_types` is false if the types come from elsewhere.
  std::vector<std::string> Notes(bool with_types = true) const;

 private:
  // The first dataset that names the classes of a feature, and how many do.
  struct Naming {
    std::string first;
    size_t count = 0;
  };

  absl::Status AddManifest(std::string_view dataset, const Manifest* manifest);
  absl::Status AddClasses(std::string_view dataset, const FeatureClasses* classes);
  // `types` is null if they are unknown.
  void AddTypes(std::string_view dataset, const FeatureTypes* types);
  std::string NoteOfTypes() const;

  std::map<std::string, Naming, std::less<>> naming_;
  size_t num_datasets_ = 0;
  std::vector<std::string> notes_;
  FeatureClasses classes_;
  bool no_types_ = true;  // AddTypes has not received any yet
  FeatureTypes types_;
  std::set<std::string> differing_;  // names of features in quotes
  std::string typed_;                // the first dataset with types
  std::string untyped_;              // the first dataset without a manifest
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_DECLARATIONS_JOINED_DECLARATIONS_H_
