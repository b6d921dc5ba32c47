// The common parts of cache and snapshot.

#ifndef SHARDFEED_PIPELINE_STEPS_KEEPING_H_
#define SHARDFEED_PIPELINE_STEPS_KEEPING_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "pipeline/data/element_store.h"
#include "pipeline/plan/step.h"

namespace shardfeed {

// How a step stores its elements.
struct Keeping {
  std::function<absl::StatusOr<std::unique_ptr<ElementWriter>>()> writer;
  // Finds what an earlier run has stored, or returns null. May be empty.
  std::function<absl::StatusOr<std::shared_ptr<const StoredElements>>()> stored;
};

// The work of a step that stores what its input delivers, for each run separately, because what is
// stored may depend on the options of the run.
StageWork KeepElements(Keeping keeping);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STEPS_KEEPING_H_
