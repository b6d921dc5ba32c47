#include "decode/images/formats/raw_samples.h"

#include "fmt/format.h"
#include "media/image_limit.h"

namespace shardfeed {

absl::Status RawSamples::Start(std::string_view name, uint32_t width, uint32_t height,
                               uint32_t channels, int bits) {
  if (channels != static_cast<uint32_t>(format_.channels)) {
    return absl::InvalidArgumentError(fmt::format("{} stores {} channel{}, but channels is {}",
                                                  name, channels, channels == 1 ? "" : "s",
                                                  format_.channels));
  }
  if (bits > format_.max_bits) {
    return absl::InvalidArgumentError(
        fmt::format("{} stores samples of {} bits, which uint8 cannot hold (dtype=\"uint16\" can)",
                    name, bits));
  }
  sample_bytes_ = bits > 8 ? 2 : 1;
  row_bytes_ = size_t{width} * channels * sample_bytes_;
  if (row_bytes_ > format_.max_bytes / height) {
    return ImageLimitError(
        fmt::format("{} of {} x {} pixels with {} channels is too large: it takes {} bytes, and "
                    "the limit is {} (8 for each of max_pixels)",
                    name, width, height, channels, row_bytes_ * height, format_.max_bytes));
  }
  samples_.assign(row_bytes_ * height, 0);
  return absl::OkStatus();
}

}  // namespace shardfeed
