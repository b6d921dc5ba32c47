#include "decode/images/pixels/moved_pixels.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace shardfeed::augment {
namespace {

// With a size known at compile time, copies are single instructions.
template <size_t kBytes>
void GatherPixels(const std::vector<int32_t>& sources, const char* from, const char* fill,
                  char* to) {
  for (int32_t source : sources) {
    std::memcpy(to, source < 0 ? fill : from + source * kBytes, kBytes);
    to += kBytes;
  }
}

}  // namespace

void MovedPixels::Begin(int height, int width, bool gathers) {
  height_ = height;
  width_ = width;
  gathers_ = gathers;
  projection_ = Projection();
  if (!gathers) return;
  sources_.resize(size_t{1} * height * width);
  std::iota(sources_.begin(), sources_.end(), 0);
}

void MovedPixels::HorizontalFlip() {
  projection_ = projection_.Then(Projection::ScaleAndShift(-1, width_, 1, 0));
  if (!gathers_) return;
  for (int y = 0; y < height_; ++y) std::reverse(row(y), row(y) + width_);
}

void MovedPixels::VerticalFlip() {
  projection_ = projection_.Then(Projection::ScaleAndShift(1, 0, -1, height_));
  if (!gathers_) return;
  for (int y = 0; y < height_ / 2; ++y) {
    std::swap_ranges(row(y), row(y) + width_, row(height_ - 1 - y));
  }
}

void MovedPixels::PadBorders(int to_height, int to_width, int left, int top, PaddingMode mode) {
  projection_ = projection_.Then(Projection::ScaleAndShift(1, left, 1, top));
  const int from_height = std::exchange(height_, to_height);
  const int from_width = std::exchange(width_, to_width);
  if (!gathers_) return;
  std::swap(sources_, before_);
  sources_.resize(size_t{1} * to_height * to_width);
  for (int y = 0; y < to_height; ++y) {
    const int line = PaddedSource(y - top, from_height, mode);
    for (int x = 0; x < to_width; ++x) {
      const int column = PaddedSource(x - left, from_width, mode);
      const bool filled = line < 0 || column < 0;
      row(y)[x] = filled ? -1 : before_[size_t{1} * line * from_width + column];
    }
  }
}

void MovedPixels::Warp(const Transform& transform) {
  projection_ = projection_.Then(Projection::InverseOf(transform));
  if (!gathers_) return;
  std::swap(sources_, before_);
  sources_.resize(before_.size());
  NearestSources(transform, height_, width_, sources_.data());
  for (int32_t& source : sources_) {
    if (source >= 0) source = before_[source];
  }
}

void MovedPixels::Gather(const char* from, size_t pixel_bytes, const char* fill, char* to) const {
  switch (pixel_bytes) {
    case 1:
      return GatherPixels<1>(sources_, from, fill, to);
    case 2:
      return GatherPixels<2>(sources_, from, fill, to);
    case 3:
      return GatherPixels<3>(sources_, from, fill, to);
    case 4:
      return GatherPixels<4>(sources_, from, fill, to);
    case 8:
      return GatherPixels<8>(sources_, from, fill, to);
    default:
      for (int32_t source : sources_) {
        std::memcpy(to, source < 0 ? fill : from + source * pixel_bytes, pixel_bytes);
        to += pixel_bytes;
      }
  }
}

}  // namespace shardfeed::augment
