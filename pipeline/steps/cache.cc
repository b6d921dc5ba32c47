#include <utility>

#include "pipeline/data/element_store.h"
#include "pipeline/dataset.h"
#include "pipeline/steps/keeping.h"

namespace shardfeed {

Dataset Dataset::Cache(uint64_t max_bytes) const {
  if (!status_.ok()) return *this;
  Step step = Like("cache");
  step.sharing = Sharing::kUneven;  // a state is a number of the rank's elements
  step.work = KeepElements(
      {[spec = step.spec, max_bytes]() -> absl::StatusOr<std::unique_ptr<ElementWriter>> {
         return MakeMemoryWriter(spec, max_bytes);
       },
       nullptr});
  return Then(std::move(step));
}

Dataset Dataset::Cache(std::string path, uint64_t max_bytes) const {
  if (!status_.ok()) return *this;
  const absl::Status local = CheckLocal("cache: path must be a local folder", path);
  if (!local.ok()) return Dataset(local);
  Step step = Like("cache");
  step.sharing = Sharing::kUneven;  // a state is a number of the rank's elements
  step.work = KeepElements({[folder = std::move(path), spec = step.spec, max_bytes] {
                              return MakeFileWriter({.path = folder + "/shardfeed-cache",
                                                     .spec = spec,
                                                     .max_bytes = max_bytes,
                                                     .temporary = true});
                            },
                            nullptr});
  return Then(std::move(step));
}

}  // namespace shardfeed
