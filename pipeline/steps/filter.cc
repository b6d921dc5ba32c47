#include <utility>

#include "pipeline/data/random_stream.h"
#include "pipeline/dataset.h"

namespace shardfeed {

Dataset Dataset::Filter(FilterFn fn, uint64_t seed, std::string version) const {
  if (!status_.ok()) return *this;
  Step step = Like("filter");
  step.identity.Add("seed", StreamSeed(RandomStream::kFilter, seed))
      .AddIf(!version.empty(), "version", version);
  step.length = [](const std::vector<Length>&) { return Length::Unknown("filter drops elements"); };
  step.sharing = Sharing::kUneven;
  return ThenOnRows(std::move(step), MakeFilterStep(std::move(fn), seed));
}

}  // namespace shardfeed
