#include <utility>

#include "base/count_text.h"
#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {

Dataset Dataset::FromArrays(const shardfeed::Batch& rows,
                            std::function<std::string(uint64_t row)> describe) {
  if (rows.spec == nullptr) {
    return Dataset(absl::InvalidArgumentError("from_arrays: a batch without a spec"));
  }
  Step step;
  step.name = "rows";  // name in fingerprints
  step.text = fmt::format("from_arrays({})", CountText(rows.rows, "row"));
  step.data_identity = [rows](Identity* identity) {
    identity->Add("rows", rows.rows).Add("values", DigestOf(rows));
    return absl::OkStatus();
  };
  step.spec = rows.spec;
  step.length = [elements = rows.rows](const std::vector<Length>&) { return Length::Of(elements); };
  step.work = SourceWork{[rows](uint64_t epoch, uint32_t source) {
                           shardfeed::Batch copy = rows;
                           copy.batched = false;
                           return MakeRowsStage(std::move(copy), epoch, source);
                         },
                         std::move(describe)};
  return Dataset(std::make_shared<const Step>(std::move(step)));
}

}  // namespace shardfeed
