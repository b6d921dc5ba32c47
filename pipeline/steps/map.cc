#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {

Dataset Dataset::Map(RowSpec output, MapFn fn, std::vector<std::string> drops, uint64_t seed,
                     std::string version, bool by_place) const {
  if (!status_.ok()) return *this;
  Step step = Like("map");
  step.text = fmt::format("map({})", NamesText(output));
  step.identity.Add("outputs", output).Add("drops", drops).Add("seed", seed);
  step.identity.AddIf(!version.empty(), "version", version);
  step.identity.AddIf(by_place, "by_place", by_place);
  step.random = by_place;
  return ThenOnRows(std::move(step),
                    MakeMapStep(std::move(output), std::move(drops), std::move(fn), seed));
}

Dataset Dataset::Map(RowSpec output, BatchFn fn, bool changes_count, std::string version) const {
  if (!status_.ok()) return *this;
  if (!batched()) {
    return Dataset(
        absl::InvalidArgumentError("map: the function takes batches, but "
                                   "the elements here are rows: batch first"));
  }
  Step step = Like("map_batch");  // name in fingerprints
  step.text = fmt::format("map({})", NamesText(output));
  step.identity.Add("changes_count", changes_count).AddIf(!version.empty(), "version", version);
  step.spec = std::make_shared<const RowSpec>(std::move(output));
  if (changes_count) {
    step.length = [](const std::vector<Length>&) {
      return Length::Unknown("filter drops elements");
    };
    step.sharing = Sharing::kUneven;
  }
  BatchFn checked = [fn = std::move(fn),
                     spec = step.spec](shardfeed::Batch& batch) -> absl::Status {
    absl::Status status = fn(batch);
    if (!status.ok()) return status;
    batch.batched = true;
    if (batch.spec == nullptr || batch.spec->size() != spec->size() ||
        batch.columns.size() != spec->size()) {
      return absl::InvalidArgumentError(
          fmt::format("map: the function returned {}, but was declared to return {}",
                      batch.spec ? RowSpecText(*batch.spec) : "nothing", RowSpecText(*spec)));
    }
    return absl::OkStatus();
  };
  step.work = BatchFnWork{std::move(checked), changes_count};
  return Then(std::move(step));
}

}  // namespace shardfeed
