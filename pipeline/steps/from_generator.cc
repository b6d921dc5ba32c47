#include <utility>

#include "pipeline/dataset.h"

namespace shardfeed {

Dataset Dataset::FromGenerator(std::function<Generator()> make, RowSpec spec, std::string version) {
  Step step;
  step.name = step.text = "generator";
  step.identity.AddIf(!version.empty(), "version", version);
  step.may_await = true;
  step.spec = std::make_shared<const RowSpec>(std::move(spec));
  step.length = [](const std::vector<Length>&) {
    return Length::Unknown("the number of elements of a generator is known only at its end");
  };
  step.work =
      SourceWork{[make = std::move(make), spec = step.spec](uint64_t epoch, uint32_t source) {
                   return MakeGeneratorStage(make, spec, epoch, source);
                 },
                 nullptr};
  return Dataset(std::make_shared<const Step>(std::move(step)));
}

}  // namespace shardfeed
