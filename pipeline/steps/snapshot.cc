#include <string>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/element_store.h"
#include "pipeline/plan/fingerprint.h"
#include "pipeline/steps/keeping.h"

namespace shardfeed {

Dataset Dataset::Snapshot(std::string path, uint64_t max_bytes) const {
  if (!status_.ok()) return *this;
  const absl::StatusOr<uint64_t> chain = FingerprintOf(*step_, Coverage::kRank);
  if (!chain.ok()) return Dataset(chain.status());
  Step step = Like("snapshot");
  step.sharing = Sharing::kUneven;  // a state is a number of the rank's elements
  const ElementFileOptions options = {.path = std::move(path),
                                      .chain = fmt::format("{:016x}", *chain),
                                      .spec = step.spec,
                                      .max_bytes = max_bytes};
  step.work = KeepElements({[options] { return MakeFileWriter(options); },
                            [options]() -> absl::StatusOr<std::shared_ptr<const StoredElements>> {
                              auto stored = OpenElementFile(options);
                              if (absl::IsNotFound(stored.status())) return nullptr;
                              return stored;
                            }});
  return Then(std::move(step));
}

}  // namespace shardfeed
