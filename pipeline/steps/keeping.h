// What cache and snapshot have in common.

#ifndef SHARDFEED_PIPELINE_STEPS_KEEPING_H_
#define SHARDFEED_PIPELINE_STEPS_KEEPING_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "pipeline/data/element_store.h"
#include "pipeline/plan/step.h"

namespace shardfeed {

// How a step keeps its elements.
struct Keeping {
  std::function<absl::StatusOr<std::unique_ptr<ElementWriter>>()> writer;
  // What is there from a run before, or null. May be empty.
  std::function<absl::StatusOr<std::shared_ptr<const StoredElements>>()> stored;
};

// The work of a step that keeps what its input delivers, for each run by itself, as what is kept
// may depend on the run's options.
StageWork KeepElements(Keeping keeping);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STEPS_KEEPING_H_
