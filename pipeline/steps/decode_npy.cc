#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/rows/decoders.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {

Dataset Dataset::DecodeNpy(std::string column, DType dtype, std::vector<int64_t> shape) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = BytesColumn("decode_npy", spec(), column);
  if (!number.ok()) return Dataset(number.status());
  absl::StatusOr<ColumnSpec> output =
      DecodedColumn("decode_npy", std::move(column), dtype, std::move(shape));
  if (!output.ok()) return Dataset(output.status());
  Step step = Like("decode_npy");
  step.text = fmt::format("decode_npy({})", RowSpecText({*output}));
  step.identity.Add("output", *output);
  return ThenOnRows(std::move(step), MakeDecodeNpyStep(*output, *number));
}

}  // namespace shardfeed
