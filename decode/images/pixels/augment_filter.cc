#include "decode/images/pixels/augment_filter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace shardfeed::augment {
namespace {

// The half of a symmetric kernel from the middle on.
std::vector<float> HalfGaussian(int size, double sigma) {
  std::vector<double> weights(size / 2 + 1);
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double x = static_cast<double>(i) / sigma;
    weights[i] = std::exp(-0.5 * x * x);
    sum += i == 0 ? weights[i] : 2 * weights[i];
  }
  std::vector<float> half(weights.size());
  for (size_t i = 0; i < half.size(); ++i) half[i] = static_cast<float>(weights[i] / sum);
  return half;
}

// ... 2 1 0 1 2 ... n-2 n-1 n-2 ...
int Reflect(int i, int n) {
  if (i < 0) return -i;
  return i < n ? i : 2 * (n - 1) - i;
}

// Rounds a number in [0, 255] to nearest, ties to even: adding 1.5 * 2^23 leaves the result in the
// lowest bits.
uint8_t Round(float value) {
  return static_cast<uint8_t>(std::bit_cast<uint32_t>(value + 12582912.0f));
}

// to[i] = half[0] * at(0)[i] + half[k] * (at(-k)[i] + at(k)[i]), `n` values, in blocks that stay in
// registers.
template <typename At>
void Convolve(const std::vector<float>& half, size_t n, At at, float* to) {
  constexpr size_t kBlock = 16;
  for (size_t begin = 0; begin < n; begin += kBlock) {
    float sum[kBlock];
    const float* middle = at(0) + begin;
    const size_t m = std::min(kBlock, n - begin);
    if (m == kBlock) {
      for (size_t i = 0; i < kBlock; ++i) sum[i] = half[0] * middle[i];
      for (int k = 1; k < static_cast<int>(half.size()); ++k) {
        const float weight = half[k];
        const float* before = at(-k) + begin;
        const float* behind = at(k) + begin;
        for (size_t i = 0; i < kBlock; ++i) sum[i] += weight * (before[i] + behind[i]);
      }
      std::memcpy(to + begin, sum, sizeof(sum));
    } else {
      for (size_t i = 0; i < m; ++i) {
        sum[i] = half[0] * middle[i];
        for (int k = 1; k < static_cast<int>(half.size()); ++k) {
          sum[i] += half[k] * (at(-k)[begin + i] + at(k)[begin + i]);
        }
        to[begin + i] = sum[i];
      }
    }
  }
}

}  // namespace

void BlurGaussian(ImageView image, int kernel_width, int kernel_height, double sigma,
                  std::vector<float>* memory) {
  const std::vector<float> across = HalfGaussian(kernel_width, sigma);
  const std::vector<float> down = HalfGaussian(kernel_height, sigma);
  const int reach = kernel_width / 2;
  const size_t n = image.row_bytes();
  // Holds all rows convolved horizontally, then one row with its borders, which later takes
  // results.
  memory->resize(n * image.height + n + 2 * reach * image.channels);
  float* const rows = memory->data();
  float* const padded = rows + n * image.height;
  float* const inner = padded + reach * image.channels;
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* from = image.row(y);
    for (size_t i = 0; i < n; ++i) inner[i] = from[i];
    for (int x = 1; x <= reach; ++x) {
      for (int c = 0; c < image.channels; ++c) {
        inner[-x * image.channels + c] = inner[Reflect(-x, image.width) * image.channels + c];
        const int right = image.width - 1 + x;
        inner[right * image.channels + c] = inner[Reflect(right, image.width) * image.channels + c];
      }
    }
    Convolve(
        across, n, [&](int k) { return inner + k * image.channels; }, rows + y * n);
  }
  for (int y = 0; y < image.height; ++y) {
    Convolve(
        down, n, [&](int k) { return rows + Reflect(y + k, image.height) * n; }, padded);
    uint8_t* to = image.row(y);
    for (size_t i = 0; i < n; ++i) to[i] = Round(padded[i]);
  }
}

void AdjustSharpness(ImageView image, double factor, std::vector<uint8_t>* memory) {
  if (image.height <= 2 || image.width <= 2) return;
  const float rest = static_cast<float>(1 - factor);
  const size_t n = image.row_bytes();
  const int channels = image.channels;
  // The original values of the row above and of this row.
  memory->resize(2 * n);
  uint8_t* above = memory->data();
  uint8_t* here = above + n;
  std::memcpy(above, image.row(0), n);
  for (int y = 1; y < image.height - 1; ++y) {
    uint8_t* to = image.row(y);
    std::memcpy(here, to, n);
    const uint8_t* below = image.row(y + 1);
    for (size_t i = channels; i < n - channels; ++i) {
      const int sum = above[i - channels] + above[i] + above[i + channels] + here[i - channels] +
                      5 * here[i] + here[i + channels] + below[i - channels] + below[i] +
                      below[i + channels];
      // Rounded to nearest; with an odd divisor there are no ties.
      const float smooth = static_cast<float>(
          static_cast<int>((static_cast<float>(sum) + 6.5f) * static_cast<float>(1.0 / 13)));
      const float value = here[i];
      // Rounded once: the product is exact.
      const float mixed = static_cast<float>(value + double{smooth - value} * rest);
      to[i] = static_cast<uint8_t>(static_cast<int>(std::min(std::max(mixed, 0.0f), 255.0f)));
    }
    std::swap(above, here);
  }
}

}  // namespace shardfeed::augment
