// The names of the classes of datasets whose records become one dataset.

#ifndef SHARDFEED_SHARD_JOINED_CLASSES_H_
#define SHARDFEED_SHARD_JOINED_CLASSES_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "shard/class_names.h"
#include "shardfeed/spec.h"

namespace shardfeed {

class JoinedClasses {
 public:
  // Adds a dataset. `classes` is null if they are unknown, for want of a manifest.
  // FailedPrecondition: they contradict those of a dataset that was added before.
  absl::Status Add(std::string_view dataset, const FeatureClasses* classes);
  // Adds the datasets to which the files belong, by their manifests. A manifest that is damaged
  // becomes a note.
  absl::Status AddOf(const ShardSet& set);

  const FeatureClasses& classes() const { return classes_; }
  // What users should know: features whose classes only some of the datasets name.
  std::vector<std::string> Notes() const;

 private:
  // The first dataset that names the classes of a feature, and how many do.
  struct Naming {
    std::string first;
    size_t count = 0;
  };
  std::map<std::string, Naming, std::less<>> naming_;
  size_t num_datasets_ = 0;
  std::vector<std::string> damaged_;
  FeatureClasses classes_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_JOINED_CLASSES_H_
