#include "decode/images/formats/ycbcr.h"

#include <algorithm>
#include <cstring>

namespace shardfeed {
namespace {

constexpr int kRgb = 0;
constexpr int kYcgco = 8;

// The shares of red and blue in the luma.
struct Shares {
  int matrix;
  float red;
  float blue;
};
constexpr Shares kShares[] = {
    {1, 0.2126f, 0.0722f}, {2, 0.299f, 0.114f},    {4, 0.30f, 0.11f},
    {5, 0.299f, 0.114f},   {6, 0.299f, 0.114f},    {7, 0.212f, 0.087f},
    {9, 0.2627f, 0.0593f}, {kRgb, 0.299f, 0.114f}, {kYcgco, 0.25f, 0.25f}};

const Shares* SharesOf(int matrix) {
  for (const Shares& shares : kShares) {
    if (shares.matrix == matrix) return &shares;
  }
  return nullptr;
}

// The two halved samples next to a pixel: it is three times as near to the one that covers it.
struct Neighbors {
  uint32_t near;
  uint32_t far;
};
Neighbors NeighborsOf(uint32_t at, uint32_t halved) {
  const uint32_t near = std::min(at / 2, halved - 1);
  if (at % 2 == 1) return {near, std::min(near + 1, halved - 1)};
  return {near, near == 0 ? 0 : near - 1};
}

}  // namespace

uint32_t SamplePlane::At(uint32_t x, uint32_t y) const {
  const uint8_t* row = data + y * row_bytes;
  if (bits <= 8) return row[x];
  uint16_t sample;
  std::memcpy(&sample, row + size_t{2} * x, sizeof(sample));
  return std::min<uint32_t>(sample, max());
}

bool IsKnownMatrix(int matrix) { return SharesOf(matrix) != nullptr; }

YcbcrRows::YcbcrRows(const YcbcrImage& image) : image_(image) {
  const Shares& shares = *SharesOf(image.matrix);
  kr_ = shares.red;
  kb_ = shares.blue;
}

void YcbcrRows::ReadChroma(const SamplePlane& plane, uint32_t y, std::vector<float>* row) {
  const bool rows_halved = plane.height < image_.y.height;
  const Neighbors rows = rows_halved ? NeighborsOf(y, plane.height) : Neighbors{y, y};
  halved_.resize(plane.width);
  for (uint32_t x = 0; x < plane.width; ++x) {
    halved_[x] = 0.75f * plane.At(x, rows.near) + 0.25f * plane.At(x, rows.far);
  }
  if (plane.width == image_.y.width) {
    row->swap(halved_);
    return;
  }
  row->resize(image_.y.width);
  for (uint32_t x = 0; x < image_.y.width; ++x) {
    const Neighbors columns = NeighborsOf(x, plane.width);
    (*row)[x] = 0.75f * halved_[columns.near] + 0.25f * halved_[columns.far];
  }
}

void YcbcrRows::Convert(uint32_t y, float* rgb) {
  const auto steps = static_cast<float>(uint32_t{1} << (image_.y.bits - 8));
  const auto max = static_cast<float>(image_.y.max());
  const float black = image_.full_range ? 0 : 16 * steps;
  const float luma_range = image_.full_range ? max : 219 * steps;
  const bool gray = image_.cb.data == nullptr;
  const bool is_rgb = image_.matrix == kRgb;
  const float middle = is_rgb ? black : 128 * steps;
  const float chroma_range = image_.full_range ? max : is_rgb ? luma_range : 224 * steps;
  if (!gray) {
    ReadChroma(image_.cb, y, &cb_);
    ReadChroma(image_.cr, y, &cr_);
  }
  for (uint32_t x = 0; x < image_.y.width; ++x, rgb += 3) {
    const float luma = (image_.y.At(x, y) - black) / luma_range;
    if (gray) {
      std::fill_n(rgb, 3, luma);
      continue;
    }
    const float cb = (cb_[x] - middle) / chroma_range;
    const float cr = (cr_[x] - middle) / chroma_range;
    if (is_rgb) {
      rgb[0] = cr;
      rgb[1] = luma;
      rgb[2] = cb;
    } else if (image_.matrix == kYcgco) {  // cb holds green, cr orange
      rgb[0] = luma - cb + cr;
      rgb[1] = luma + cb;
      rgb[2] = luma - cb - cr;
    } else {
      rgb[0] = luma + 2 * (1 - kr_) * cr;
      rgb[2] = luma + 2 * (1 - kb_) * cb;
      rgb[1] = (luma - kr_ * rgb[0] - kb_ * rgb[2]) / (1 - kr_ - kb_);
    }
  }
}

}  // namespace shardfeed
