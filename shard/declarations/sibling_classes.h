// The classes of the datasets in one folder, such as train and val, which should have the same
// numbers.

#ifndef SHARDFEED_SHARD_DECLARATIONS_SIBLING_CLASSES_H_
#define SHARDFEED_SHARD_DECLARATIONS_SIBLING_CLASSES_H_

#include <string>
#include <vector>

#include "shard/manifest/manifest.h"

namespace shardfeed {

struct SiblingClasses {
  std::string dataset;  // a spec
  std::string what;     // how its classes contradict those of the written datasets
};

// Finds the datasets in the folder whose classes contradict those of the datasets that were
// `written` into it together, and so have the same classes. Classes without a common name belong
// to something else. Manifests that cannot be read are passed over, and so are stores.
std::vector<SiblingClasses> FindSiblingClasses(const std::string& directory,
                                               const std::vector<Manifest>& written);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_DECLARATIONS_SIBLING_CLASSES_H_
