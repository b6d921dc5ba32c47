#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/rows/decoders.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {

Dataset Dataset::DecodeText(std::string column) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = BytesColumn("decode_text", spec(), column);
  if (!number.ok()) return Dataset(number.status());
  Step step = Like("decode_text");
  step.text = fmt::format("decode_text({})", column);
  step.identity.Add("column", column);
  return ThenOnRows(std::move(step), MakeDecodeTextStep(std::move(column), *number));
}

}  // namespace shardfeed
