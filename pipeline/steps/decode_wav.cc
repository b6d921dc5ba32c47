#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/rows/decoders.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {

Dataset Dataset::DecodeWav(std::string column, int64_t channels, std::string rate) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = BytesColumn("decode_wav", spec(), column);
  if (!number.ok()) return Dataset(number.status());
  if (channels < 1 || channels > UINT16_MAX || rate == column) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "decode_wav: channels must be from 1 to {}, and the rate must be another column",
        UINT16_MAX)));
  }
  if (FindColumn(spec(), rate) >= 0) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "decode_wav: column '{}' already exists: give the rate another name (rate)", rate)));
  }
  Step step = Like("decode_wav");
  step.text = fmt::format("decode_wav({}, channels={}, rate={})", column, channels, rate);
  step.identity.Add("column", column).Add("channels", channels).Add("rate", rate);
  return ThenOnRows(std::move(step),
                    MakeDecodeWavStep(std::move(column), *number, channels, std::move(rate)));
}

}  // namespace shardfeed
