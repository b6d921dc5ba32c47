#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/rows/decoders.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {

Dataset Dataset::DecodeRaw(std::string column, DType dtype, std::vector<int64_t> shape) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = BytesColumn("decode_raw", spec(), column);
  if (!number.ok()) return Dataset(number.status());
  absl::StatusOr<ColumnSpec> output =
      DecodedColumn("decode_raw", std::move(column), dtype, std::move(shape));
  if (!output.ok()) return Dataset(output.status());
  Step step = Like("decode_raw");
  step.text = fmt::format("decode_raw({})", RowSpecText({*output}));
  step.identity.Add("output", *output);
  return ThenOnRows(std::move(step), MakeDecodeRawStep(*output, *number));
}

}  // namespace shardfeed
