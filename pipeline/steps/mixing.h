// Takes elements from several inputs, one at a time: mix and choose.

#ifndef SHARDFEED_PIPELINE_STEPS_MIXING_H_
#define SHARDFEED_PIPELINE_STEPS_MIXING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/dataset.h"
#include "pipeline/plan/step.h"
#include "pipeline/stages/stage.h"

namespace shardfeed {

// Decides which input gives the next element. Called by one thread at a time.
class InputChoice {
 public:
  virtual ~InputChoice() = default;
  // The input of element `number`, which must not be gone; -1 ends the step.
  virtual absl::StatusOr<int> Next(const std::vector<bool>& gone, uint64_t number) = 0;
  // The input has delivered that element.
  virtual void Took(int /*input*/) {}
  // The input had no element, and is gone from now on.
  virtual void Went(int /*input*/) {}

  virtual void Save(StateWords* /*words*/) const {}
  virtual absl::Status Load(StateReader* /*words*/) { return absl::OkStatus(); }
};

// What happens at the end of each of `datasets` datasets, given once for all or for each.
// InvalidArgument: neither; the message names `step`.
absl::StatusOr<std::vector<Exhausted>> ExhaustedOfEach(std::string_view step,
                                                       std::vector<Exhausted> exhausted,
                                                       size_t datasets);

// Work on `inputs` steps; the choice may have inputs of its own after them. `exhausted` has one
// entry per input.
StageWork MixInputs(
    size_t inputs, std::vector<Exhausted> exhausted, std::shared_ptr<const RowSpec> spec,
    std::function<absl::StatusOr<std::unique_ptr<InputChoice>>(const StageInputs&)> choice);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STEPS_MIXING_H_
