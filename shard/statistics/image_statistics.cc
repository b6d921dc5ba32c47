#include "shard/statistics/image_statistics.h"

#include <algorithm>

#include "media/image_header.h"

namespace shardfeed {
namespace {

void AddSize(uint32_t size, ImageStatistics::Sizes* sizes) {
  sizes->min = std::min(sizes->min, size);
  sizes->max = std::max(sizes->max, size);
  sizes->histogram.Add(size);
}

void MergeSizes(const ImageStatistics::Sizes& from, ImageStatistics::Sizes* sizes) {
  sizes->min = std::min(sizes->min, from.min);
  sizes->max = std::max(sizes->max, from.max);
  sizes->histogram.Merge(from.histogram);
}

void WriteSizes(const ImageStatistics::Sizes& sizes, StatisticsWriter& out) {
  out.Number(sizes.min);
  out.Number(sizes.max);
  sizes.histogram.Write(out);
}

void ReadSizes(StatisticsReader& in, uint64_t images, ImageStatistics::Sizes* sizes) {
  sizes->min = static_cast<uint32_t>(in.Number(std::numeric_limits<uint32_t>::max()));
  sizes->max = static_cast<uint32_t>(in.Number(std::numeric_limits<uint32_t>::max()));
  in.Expect(sizes->min > 0 && sizes->min <= sizes->max);
  sizes->histogram.Read(in);
  in.Expect(sizes->histogram.count() == images);
}

}  // namespace

void ImageStatistics::AddIfImage(std::string_view value) {
  if (ImageFormatOf(value).empty()) return;  // spares the text of an error
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(value);
  if (!header.ok()) return;
  ++formats_[std::find(kFormats.begin(), kFormats.end(), header->format) - kFormats.begin()];
  AddSize(header->width, &widths_);
  AddSize(header->height, &heights_);
}

void ImageStatistics::Merge(const ImageStatistics& other) {
  for (size_t i = 0; i < formats_.size(); ++i) formats_[i] += other.formats_[i];
  MergeSizes(other.widths_, &widths_);
  MergeSizes(other.heights_, &heights_);
}

void ImageStatistics::Write(StatisticsWriter& out) const {
  out.Number(count());
  if (count() == 0) return;
  uint64_t rest = count();
  for (size_t i = 0; i < formats_.size() && (i < kFirstFormats || rest > 0); ++i) {
    out.Number(formats_[i]);
    rest -= formats_[i];
  }
  WriteSizes(widths_, out);
  WriteSizes(heights_, out);
}

void ImageStatistics::Read(StatisticsReader& in) {
  *this = ImageStatistics();
  const uint64_t images = in.Number();
  if (images == 0) return;
  uint64_t rest = images;
  for (size_t i = 0; i < formats_.size() && (i < kFirstFormats || rest > 0); ++i) {
    formats_[i] = in.Number(rest);
    rest -= formats_[i];
  }
  in.Expect(rest == 0);
  ReadSizes(in, images, &widths_);
  ReadSizes(in, images, &heights_);
  if (!in.ok()) *this = ImageStatistics();
}

}  // namespace shardfeed
