#include "decode/images/pixels/augment_geometry.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>
#include <vector>

namespace shardfeed::augment {
namespace {

std::array<uint8_t, 3> Bytes(const Color& color) {
  std::array<uint8_t, 3> bytes;
  for (int c = 0; c < 3; ++c) {
    bytes[c] = static_cast<uint8_t>(static_cast<int>(std::clamp(color[c], 0.0f, 255.0f)));
  }
  return bytes;
}

template <int kChannels>
void FlipRow(uint8_t* row, int width) {
  uint8_t* right = row + static_cast<size_t>(width - 1) * kChannels;
  for (; row < right; row += kChannels, right -= kChannels) {
    uint8_t pixel[kChannels];
    std::memcpy(pixel, row, kChannels);
    std::memcpy(row, right, kChannels);
    std::memcpy(right, pixel, kChannels);
  }
}

// Rounds a number below 2^22 to nearest, ties to even: adding 1.5 * 2^23 leaves the result in the
// lowest bits.
int RoundToInt(float value) { return std::bit_cast<int>(value + 12582912.0f) - 0x4b400000; }
uint8_t Round(float value) { return static_cast<uint8_t>(RoundToInt(value)); }

// Interpolates between four pixels, some of which lie outside.
template <int kChannels>
void Border(const ImageView& from, float x, float y, const float* fill, bool has_fill,
            uint8_t* to) {
  const int x0 = static_cast<int>(std::floor(x));
  const int y0 = static_cast<int>(std::floor(y));
  const float fx = x - static_cast<float>(x0);
  const float fy = y - static_cast<float>(y0);
  float inside = 0;
  float sum[kChannels] = {};
  for (int dy = 0; dy < 2; ++dy) {
    for (int dx = 0; dx < 2; ++dx) {
      const int px = x0 + dx;
      const int py = y0 + dy;
      if (px < 0 || px >= from.width || py < 0 || py >= from.height) continue;
      const float weight = (dx ? fx : 1 - fx) * (dy ? fy : 1 - fy);
      inside += weight;
      const uint8_t* p = from.row(py) + px * kChannels;
      for (int c = 0; c < kChannels; ++c) sum[c] += weight * p[c];
    }
  }
  for (int c = 0; c < kChannels; ++c) {
    // torchvision's blend, which weights the inside part twice.
    const float value = has_fill ? (sum[c] - fill[c]) * inside + fill[c] : sum[c];
    to[c] = Round(std::clamp(value, 0.0f, 255.0f));
  }
}

// The source of the middle of the pixel (i, j), as coordinates of a pixel's center.
struct Center {
  float x;
  float y;
};
template <bool kPerspective>
Center SourceOf(const Transform& m, int i, int j) {
  const double cx = i + 0.5;
  const double cy = j + 0.5;
  double sx = m[0] * cx + (m[1] * cy + m[2]);
  double sy = m[3] * cx + (m[4] * cy + m[5]);
  if constexpr (kPerspective) {
    const double w = m[6] * cx + (m[7] * cy + 1);
    sx /= w;
    sy /= w;
  }
  return {static_cast<float>(sx - 0.5), static_cast<float>(sy - 0.5)};
}

template <int kChannels, bool kBilinear, bool kPerspective>
void WarpRows(const ImageView& from, const ImageView& to, const Transform& m, const float* fill,
              bool has_fill, const uint8_t* fill_bytes) {
  const float width = static_cast<float>(from.width);
  const float height = static_cast<float>(from.height);
  for (int j = 0; j < to.height; ++j) {
    uint8_t* out = to.row(j);
    for (int i = 0; i < to.width; ++i, out += kChannels) {
      const auto [x, y] = SourceOf<kPerspective>(m, i, j);
      // NaNs and numbers too large for an int are outside too.
      if (!(x > -1 && x < width && y > -1 && y < height)) {
        for (int c = 0; c < kChannels; ++c) out[c] = fill_bytes[c];
        continue;
      }
      if constexpr (kBilinear) {
        const int x0 = static_cast<int>(x);
        const int y0 = static_cast<int>(y);
        if (x < 0 || y < 0 || x0 + 1 >= from.width || y0 + 1 >= from.height) {
          Border<kChannels>(from, x, y, fill, has_fill, out);
          continue;
        }
        const float fx = x - static_cast<float>(x0);
        const float fy = y - static_cast<float>(y0);
        const float w11 = fx * fy;
        const float w01 = fx - w11;
        const float w10 = fy - w11;
        const float w00 = 1 - fx - w10;
        const uint8_t* p = from.row(y0) + x0 * kChannels;
        const uint8_t* q = p + from.row_bytes();
        for (int c = 0; c < kChannels; ++c) {
          out[c] = Round(w00 * p[c] + w01 * p[c + kChannels] + w10 * q[c] + w11 * q[c + kChannels]);
        }
      } else {
        const int nx = RoundToInt(x);
        const int ny = RoundToInt(y);
        if (nx < 0 || nx >= from.width || ny < 0 || ny >= from.height) {
          for (int c = 0; c < kChannels; ++c) out[c] = fill_bytes[c];
          continue;
        }
        const uint8_t* p = from.row(ny) + nx * kChannels;
        for (int c = 0; c < kChannels; ++c) out[c] = p[c];
      }
    }
  }
}

template <bool kPerspective>
void FindNearest(const Transform& m, int height, int width, int32_t* sources) {
  for (int j = 0; j < height; ++j) {
    for (int i = 0; i < width; ++i, ++sources) {
      const auto [x, y] = SourceOf<kPerspective>(m, i, j);
      *sources = -1;
      // NaNs and numbers too large for an int are outside too.
      if (!(x > -1 && x < static_cast<float>(width) && y > -1 && y < static_cast<float>(height))) {
        continue;
      }
      const int nx = RoundToInt(x);
      const int ny = RoundToInt(y);
      if (nx >= 0 && nx < width && ny >= 0 && ny < height) *sources = ny * width + nx;
    }
  }
}

}  // namespace

void HorizontalFlip(ImageView image) {
  for (int y = 0; y < image.height; ++y) {
    if (image.channels == 3) {
      FlipRow<3>(image.row(y), image.width);
    } else {
      FlipRow<1>(image.row(y), image.width);
    }
  }
}

void VerticalFlip(ImageView image) {
  for (int y = 0; y < image.height / 2; ++y) {
    std::swap_ranges(image.row(y), image.row(y + 1), image.row(image.height - 1 - y));
  }
}

void Erase(ImageView image, int top, int left, int height, int width, const Color& color) {
  const std::array<uint8_t, 3> bytes = Bytes(color);
  for (int y = top; y < top + height; ++y) {
    uint8_t* p = image.row(y) + static_cast<size_t>(left) * image.channels;
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < image.channels; ++c) *p++ = bytes[c];
    }
  }
}

int PaddedSource(int i, int size, PaddingMode mode) {
  if (i >= 0 && i < size) return i;
  switch (mode) {
    case PaddingMode::kConstant:
      return -1;
    case PaddingMode::kEdge:
      return i < 0 ? 0 : size - 1;
    case PaddingMode::kReflect:
      return i < 0 ? -i : 2 * (size - 1) - i;
    case PaddingMode::kSymmetric:
      return i < 0 ? -1 - i : 2 * size - 1 - i;
  }
  return -1;
}

void PadBorders(ImageView from, ImageView to, int left, int top, PaddingMode mode,
                const Color& fill) {
  const std::array<uint8_t, 3> bytes = Bytes(fill);
  const int channels = from.channels;
  for (int y = 0; y < to.height; ++y) {
    const int source = PaddedSource(y - top, from.height, mode);
    uint8_t* out = to.row(y);
    if (source >= 0) std::memcpy(out + left * channels, from.row(source), from.row_bytes());
    for (int x = 0; x < to.width; ++x) {
      if (source >= 0 && x == left) x += from.width;
      if (x >= to.width) break;
      const int column = source < 0 ? -1 : PaddedSource(x - left, from.width, mode);
      for (int c = 0; c < channels; ++c) {
        out[x * channels + c] =
            column < 0 ? bytes[c] : from.row(source)[static_cast<size_t>(column) * channels + c];
      }
    }
  }
}

Transform AffineTransform(const AffineParameters& p, int height, int width) {
  constexpr double kRadians = std::numbers::pi / 180;
  const double angle = p.angle * kRadians;
  const double shear_x = p.shear_x * kRadians;
  const double shear_y = p.shear_y * kRadians;
  const double cx = p.center ? (*p.center)[0] : width * 0.5;
  const double cy = p.center ? (*p.center)[1] : height * 0.5;
  // [a b; c d] rotates and shears, and has the determinant 1.
  const double a = std::cos(angle - shear_y) / std::cos(shear_y);
  const double b = -a * std::tan(shear_x) - std::sin(angle);
  const double c = std::sin(angle - shear_y) / std::cos(shear_y);
  const double d = std::cos(angle) - c * std::tan(shear_x);
  // Invert it, since a Transform maps the result to the source.
  Transform m = {d / p.scale, -b / p.scale, 0, -c / p.scale, a / p.scale, 0, 0, 0};
  const double tx = cx + p.translate_x;
  const double ty = cy + p.translate_y;
  m[2] = cx - m[0] * tx - m[1] * ty;
  m[5] = cy - m[3] * tx - m[4] * ty;
  return m;
}

std::optional<Transform> PerspectiveTransform(const std::array<std::array<double, 2>, 4>& corners,
                                              int height, int width) {
  const double right = width - 1;
  const double bottom = height - 1;
  const double start[4][2] = {{0, 0}, {right, 0}, {right, bottom}, {0, bottom}};
  // Two equations for each corner, in the eight coefficients; the ninth column is the right side.
  double e[8][9] = {};
  for (int i = 0; i < 4; ++i) {
    const auto [x, y] = corners[i];
    for (int k = 0; k < 2; ++k) {
      double* row = e[2 * i + k];
      row[3 * k] = x;
      row[3 * k + 1] = y;
      row[3 * k + 2] = 1;
      row[6] = -start[i][k] * x;
      row[7] = -start[i][k] * y;
      row[8] = start[i][k];
    }
  }
  // Gaussian elimination with partial pivoting.
  for (int k = 0; k < 8; ++k) {
    int pivot = k;
    for (int i = k + 1; i < 8; ++i) {
      if (std::abs(e[i][k]) > std::abs(e[pivot][k])) pivot = i;
    }
    if (std::abs(e[pivot][k]) < 1e-9) return std::nullopt;
    if (pivot != k) std::swap(e[pivot], e[k]);
    for (int i = 0; i < 8; ++i) {
      if (i == k) continue;
      const double factor = e[i][k] / e[k][k];
      for (int j = k; j < 9; ++j) e[i][j] -= factor * e[k][j];
    }
  }
  Transform m;
  for (int k = 0; k < 8; ++k) m[k] = e[k][8] / e[k][k];
  return m;
}

void NearestSources(const Transform& transform, int height, int width, int32_t* sources) {
  const bool perspective = transform[6] != 0 || transform[7] != 0;
  (perspective ? FindNearest<true> : FindNearest<false>)(transform, height, width, sources);
}

void Warp(ImageView from, ImageView to, const Transform& transform, Sampling interpolation,
          const std::optional<Color>& fill) {
  const Color color = fill.value_or(Color{});
  const std::array<uint8_t, 3> bytes = [&] {
    std::array<uint8_t, 3> rounded;
    for (int c = 0; c < 3; ++c) rounded[c] = Round(std::clamp(color[c], 0.0f, 255.0f));
    return rounded;
  }();
  const bool perspective = transform[6] != 0 || transform[7] != 0;
  const bool bilinear = interpolation == Sampling::kBilinear;
  const auto warp = [&](auto rows) {
    rows(from, to, transform, color.data(), fill.has_value(), bytes.data());
  };
  if (from.channels == 3) {
    if (perspective) return warp(bilinear ? WarpRows<3, true, true> : WarpRows<3, false, true>);
    return warp(bilinear ? WarpRows<3, true, false> : WarpRows<3, false, false>);
  }
  if (perspective) return warp(bilinear ? WarpRows<1, true, true> : WarpRows<1, false, true>);
  warp(bilinear ? WarpRows<1, true, false> : WarpRows<1, false, false>);
}

}  // namespace shardfeed::augment
