// Statistics of the images among the values of a feature, from their headers.

#ifndef SHARDFEED_SHARD_STATISTICS_IMAGE_STATISTICS_H_
#define SHARDFEED_SHARD_STATISTICS_IMAGE_STATISTICS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "shard/statistics/number_histogram.h"
#include "shard/statistics/statistics_code.h"

namespace shardfeed {

// Nothing depends on the order in which images are added and statistics are merged.
class ImageStatistics {
 public:
  static constexpr std::array<std::string_view, 9> kFormats = {
      "jpeg", "png", "gif", "bmp", "webp", "tiff", "avif", "heic", "jxl"};

  // Widths or heights, in pixels.
  struct Sizes {
    uint32_t min = std::numeric_limits<uint32_t>::max();
    uint32_t max = 0;
    NumberHistogram histogram;

    // As NumberHistogram::Quantile, within the extremes.
    double Quantile(double share) const {
      return std::clamp<double>(histogram.Quantile(share), min, max);
    }
  };

  // Adds a value if it is an encoded image whose header says its size.
  void Add(std::string_view value) {
    // Most values do not even begin with the first byte of an image.
    if (!value.empty() && kMayBegin[static_cast<uint8_t>(value.front())]) AddIfImage(value);
  }
  void Merge(const ImageStatistics& other);

  uint64_t count() const { return widths_.histogram.count(); }
  // How many images have each of kFormats.
  const std::array<uint64_t, kFormats.size()>& formats() const { return formats_; }
  const Sizes& widths() const { return widths_; }
  const Sizes& heights() const { return heights_; }

  // Equal statistics have equal codes.
  void Write(StatisticsWriter& out) const;
  // Fails `in` if Write cannot have written what it reads.
  void Read(StatisticsReader& in);

 private:
  // Number of the first formats, which the code always includes; it includes others only if there
  // are such images.
  static constexpr size_t kFirstFormats = 6;
  // By the first byte, whether an image may begin so.
  static constexpr std::array<bool, 256> kMayBegin = [] {
    std::array<bool, 256> may{};
    for (const char first : std::string_view("\xff\x89GBRIM\0", 8)) {
      may[static_cast<uint8_t>(first)] = true;
    }
    return may;
  }();

  void AddIfImage(std::string_view value);

  std::array<uint64_t, kFormats.size()> formats_{};
  Sizes widths_;
  Sizes heights_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STATISTICS_IMAGE_STATISTICS_H_
