// Elements from several inputs, one at a time: mix and choose.

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

// Says which input gives the next element. One thread at a time.
class InputChoice {
 public:
  virtual ~InputChoice() = default;
  // The input of element `number`, one that is not gone; -1 ends all.
  virtual absl::StatusOr<int> Next(const std::vector<bool>& gone, uint64_t number) = 0;
  // The input has given that element.
  virtual void Took(int /*input*/) {}
  // It had none, and is gone from now on.
  virtual void Went(int /*input*/) {}

  virtual void Save(StateWords* /*words*/) const {}
  virtual absl::Status Load(StateReader* /*words*/) { return absl::OkStatus(); }
};

// What happens at the end of each of so many datasets, said once for all or for each.
// InvalidArgument: neither; `step` is named in the message.
absl::StatusOr<std::vector<Exhausted>> ExhaustedOfEach(std::string_view step,
                                                       std::vector<Exhausted> exhausted,
                                                       size_t datasets);

// Work on `inputs` steps; the choice may have inputs of its own behind them. `exhausted`: one for
// each.
StageWork MixInputs(
    size_t inputs, std::vector<Exhausted> exhausted, std::shared_ptr<const RowSpec> spec,
    std::function<absl::StatusOr<std::unique_ptr<InputChoice>>(const StageInputs&)> choice);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STEPS_MIXING_H_
