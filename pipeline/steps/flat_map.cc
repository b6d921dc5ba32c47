#include "pipeline/stages/flat_map.h"

#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {

Dataset Dataset::FlatMap(RowSpec output, FlatMapFn fn, std::string version) const {
  if (!status_.ok()) return *this;
  if (batched()) {
    return Dataset(absl::InvalidArgumentError(
        "flat_map: expected rows, but the elements here are batches: unbatch first"));
  }
  Step step = Like("flat_map");
  step.text = fmt::format("flat_map({})", NamesText(output));
  step.identity.AddIf(!version.empty(), "version", version);
  step.spec = std::make_shared<const RowSpec>(std::move(output));
  step.length = [](const std::vector<Length>&) {
    return Length::Unknown("flat_map makes any number of elements of each");
  };
  step.sharing = Sharing::kUneven;
  step.makes_parts = true;
  step.work = BatchFnWork{MakeFlatMapFn(step.spec, std::move(fn)), /*changes_count=*/true};
  return Then(std::move(step));
}

}  // namespace shardfeed
