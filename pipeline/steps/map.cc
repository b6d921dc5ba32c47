#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {

Dataset Dataset::Map(RowSpec outputs, MapFn fn, std::vector<std::string> drops, uint64_t seed,
                     std::string version, bool by_place) const {
  if (!status_.ok()) return *this;
  Step step = Like("map");
  step.text = fmt::format("map({})", NamesText(outputs));
  step.identity.Add("outputs", outputs).Add("drops", drops).Add("seed", seed);
  step.identity.AddIf(!version.empty(), "version", version);
  step.identity.AddIf(by_place, "by_place", by_place);
  step.random = by_place;
  return ThenOnRows(std::move(step),
                    MakeMapStep(std::move(outputs), std::move(drops), std::move(fn), seed));
}

}  // namespace shardfeed
