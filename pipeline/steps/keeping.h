// The common parts of cache and snapshot.

#ifndef SHARDFEED_PIPELINE_STEPS_KEEPING_H_
#define SHARDFEED_PIPELINE_STEPS_KEEPING_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
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

// InvalidArgument: the path is a URL. `what`: what it must be instead, with the step and the
// argument, such as "cache: path must be a local folder".
absl::Status CheckLocal(std::string_view what, const std::string& path);

// The work of a step that stores what its input delivers, for each run separately, because what is
// stored may depend on the options of the run.
StageWork KeepElements(Keeping keeping);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STEPS_KEEPING_H_
