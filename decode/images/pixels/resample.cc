#include "decode/images/pixels/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode/images/pixels/resample.cc"
// Compiles this file once for each kind of processor.
#include "base/rounding.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace shardfeed {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Weights are fixed-point numbers with `weight_bits` (14 or 15) fractional bits.

// Sets out[i] to the sum of rows[k][i] * weights[k], in 64ths, for `n` values.
void MixRows(const uint8_t* first_row, size_t row_bytes, const int16_t* HWY_RESTRICT weights,
             uint32_t num_rows, int weight_bits, size_t n, int16_t* HWY_RESTRICT out) {
  const hn::ScalableTag<int16_t> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const size_t lanes = hn::Lanes(d);
  // MulFixedPoint15 multiplies numbers of 15 fractional bits.
  const int shift = 6 + 15 - weight_bits;
  const auto value = [&](const uint8_t* p) HWY_ATTR {
    return hn::ShiftLeftSame(hn::PromoteTo(d, hn::LoadU(bytes, p)), shift);
  };
  const auto one = [&](size_t i) HWY_ATTR {
    auto sum = hn::Zero(d);
    const uint8_t* p = first_row + i;
    for (uint32_t k = 0; k < num_rows; ++k, p += row_bytes) {
      sum = hn::Add(sum, hn::MulFixedPoint15(value(p), hn::Set(d, weights[k])));
    }
    hn::StoreU(sum, d, out + i);
  };
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    auto a = hn::Zero(d);
    auto b = a;
    auto c = a;
    auto e = a;
    const uint8_t* p = first_row + i;
    for (uint32_t k = 0; k < num_rows; ++k, p += row_bytes) {
      const auto w = hn::Set(d, weights[k]);
      a = hn::Add(a, hn::MulFixedPoint15(value(p), w));
      b = hn::Add(b, hn::MulFixedPoint15(value(p + lanes), w));
      c = hn::Add(c, hn::MulFixedPoint15(value(p + 2 * lanes), w));
      e = hn::Add(e, hn::MulFixedPoint15(value(p + 3 * lanes), w));
    }
    hn::StoreU(a, d, out + i);
    hn::StoreU(b, d, out + i + lanes);
    hn::StoreU(c, d, out + i + 2 * lanes);
    hn::StoreU(e, d, out + i + 3 * lanes);
  }
  for (; i + lanes <= n; i += lanes) one(i);
  if (i == n) return;
  if (n >= lanes) {
    one(n - lanes);  // computes some values twice
    return;
  }
  for (; i < n; ++i) {
    int32_t sum = 0;
    for (uint32_t k = 0; k < num_rows; ++k) {
      sum += ((first_row[k * row_bytes + i] << shift) * weights[k] + (1 << 14)) >> 15;
    }
    out[i] = static_cast<int16_t>(sum);
  }
}

// Computes two output pixels at a time, each in a block of 8 lanes. Every step adds to a block the
// next 8 values of the row times 8 weights: 2 pixels of 3 channels (the last 2 weights are 0), or 8
// pixels of one channel. kSteps is the number of steps if known at compile time, else 0
// (`num_steps`).
template <int kChannels, uint32_t kSteps>
void MixColumns(const int16_t* HWY_RESTRICT row, const uint32_t* HWY_RESTRICT starts,
                uint32_t num_steps, const int16_t* HWY_RESTRICT weights, int weight_bits,
                uint32_t width, uint8_t* HWY_RESTRICT out) {
  constexpr size_t kStride = kChannels == 3 ? 6 : 8;
  const uint32_t steps = kSteps > 0 ? kSteps : num_steps;
  const int shift = 6 + weight_bits - 15;
  const auto half = static_cast<int16_t>(1 << (shift - 1));
#if HWY_TARGET == HWY_SCALAR
  for (uint32_t x = 0; x < width; ++x) {
    const int16_t* v = row + starts[x];
    const int16_t* w = weights + (x / 2 * size_t{steps} * 16 + x % 2 * 8);
    int32_t sum[kChannels] = {};
    for (uint32_t s = 0; s < steps; ++s, v += kStride, w += 16) {
      for (size_t i = 0; i < kStride; ++i) sum[i % kChannels] += (v[i] * w[i] + (1 << 14)) >> 15;
    }
    for (int c = 0; c < kChannels; ++c) {
      out[x * kChannels + c] = static_cast<uint8_t>(std::clamp((sum[c] + half) >> shift, 0, 255));
    }
  }
#else
  const hn::Full128<int16_t> block;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define SHARDFEED_TWO_BLOCKS
  const hn::FixedTag<int16_t, 16> d;
#else
  const hn::Full128<int16_t> d;
#endif
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const hn::Repartition<uint64_t, decltype(bytes)> words;
  // Sums up each block and returns its pixel as bytes, one word for each block.
  const auto pixels = [&](auto sum) HWY_ATTR {
    if constexpr (kChannels == 3) {
      sum = hn::Add(sum, hn::ShiftRightBytes<6>(d, sum));
    } else {
      sum = hn::Add(sum, hn::ShiftRightBytes<8>(d, sum));
      sum = hn::Add(sum, hn::ShiftRightBytes<4>(d, sum));
      sum = hn::Add(sum, hn::ShiftRightBytes<2>(d, sum));
    }
    sum = hn::ShiftRightSame(hn::Add(sum, hn::Set(d, half)), shift);
    return hn::BitCast(words, hn::DemoteTo(bytes, sum));
  };
  for (uint32_t x = 0; x < width; x += 2, weights += 16 * steps) {
    const int16_t* a = row + starts[x];
    const int16_t* b = row + starts[x + 1];
    uint64_t first;
    uint64_t second;
#ifdef SHARDFEED_TWO_BLOCKS
    const auto product = [&](uint32_t s) HWY_ATTR {
      const auto v =
          hn::Combine(d, hn::LoadU(block, b + s * kStride), hn::LoadU(block, a + s * kStride));
      return hn::MulFixedPoint15(v, hn::LoadU(d, weights + s * 16));
    };
    auto sum = product(0);
    for (uint32_t s = 1; s < steps; ++s) sum = hn::Add(sum, product(s));
    const auto both = pixels(sum);
    first = hn::GetLane(both);
    second = hn::ExtractLane(both, 1);
#undef SHARDFEED_TWO_BLOCKS
#else
    const auto product = [&](const int16_t* v, const int16_t* w) HWY_ATTR {
      return hn::MulFixedPoint15(hn::LoadU(block, v), hn::LoadU(block, w));
    };
    auto sum_a = product(a, weights);
    auto sum_b = product(b, weights + 8);
    for (uint32_t s = 1; s < steps; ++s) {
      sum_a = hn::Add(sum_a, product(a + s * kStride, weights + s * 16));
      sum_b = hn::Add(sum_b, product(b + s * kStride, weights + s * 16 + 8));
    }
    first = hn::GetLane(pixels(sum_a));
    second = hn::GetLane(pixels(sum_b));
#endif
    uint8_t* p = out + x * kChannels;
    if (x + 2 < width) {
      // Stores one byte too many, which the next pixel overwrites: that takes one store instead of
      // two.
      constexpr size_t kStored = kChannels == 3 ? 4 : 1;
      std::memcpy(p, &first, kStored);
      std::memcpy(p + kChannels, &second, kStored);
    } else {
      std::memcpy(p, &first, kChannels);
      if (x + 1 < width) std::memcpy(p + kChannels, &second, kChannels);
    }
  }
#endif
}

// Rounds `n` values in 64ths to levels.
void RoundRow(const int16_t* HWY_RESTRICT row, size_t n, uint8_t* HWY_RESTRICT out) {
  const hn::ScalableTag<int16_t> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto rounded = hn::ShiftRight<6>(hn::Add(hn::LoadU(d, row + i), hn::Set(d, 32)));
    hn::StoreU(hn::DemoteTo(bytes, rounded), bytes, out + i);
  }
  for (; i < n; ++i) out[i] = static_cast<uint8_t>(std::clamp((row[i] + 32) >> 6, 0, 255));
}

void MixColumnsOf(int channels, const int16_t* row, const uint32_t* starts, uint32_t steps,
                  const int16_t* weights, int weight_bits, uint32_t width, uint8_t* out) {
  const auto mix = channels == 1 ? MixColumns<1, 0>
                   : steps == 1  ? MixColumns<3, 1>
                   : steps == 2  ? MixColumns<3, 2>
                   : steps == 3  ? MixColumns<3, 3>
                   : steps == 4  ? MixColumns<3, 4>
                                 : MixColumns<3, 0>;
  mix(row, starts, steps, weights, weight_bits, width, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace shardfeed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace shardfeed {

HWY_EXPORT(MixRows);
HWY_EXPORT(MixColumnsOf);
HWY_EXPORT(RoundRow);

namespace {

// Replacements for std::floor and std::lround, which are function calls without SSE 4.1.
int64_t Floor(double x) {
  const auto whole = static_cast<int64_t>(x);
  return whole - (x < static_cast<double>(whole) ? 1 : 0);
}
int64_t Ceil(double x) { return -Floor(-x); }
int32_t Round(float x) { return static_cast<int32_t>(x + (x < 0 ? -0.5f : 0.5f)); }

float Triangle(float x) { return std::max(0.0f, 1.0f - std::abs(x)); }

float Cubic(float x, float a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// If an image shrinks by more than this, an output pixel has so many weights (two to four for each
// pixel by which the image shrinks) that they and their products must not be rounded: a constant
// image would change its level.
constexpr double kMaxFixedShrink = 16;

// What rounding may make of the middle between two pixels. Where images have at most 65536 pixels
// along each axis, no other center of a pixel is so close to one.
constexpr double kTie = 1e-7;

uint8_t Level(float value) { return static_cast<uint8_t>(std::clamp(Round(value), 0, 255)); }

// Weights lie between 0 and 1, except those of the cubic filter, which lie between -1 and 2.
int WeightBits(Interpolation interpolation) {
  return interpolation == Interpolation::kBicubic ? 14 : 15;
}

}  // namespace

void Resampler::FindTaps(uint32_t source, double begin, double size, uint32_t out,
                         const ResampleOptions& options, bool earlier, bool keep_exact,
                         Taps* taps) {
  const Interpolation interpolation = options.interpolation;
  const bool antialias = options.antialias;
  taps->first.resize(out);
  taps->count.resize(out);
  taps->offset.resize(out);
  taps->weights.clear();
  taps->exact.clear();
  const double scale = size / out;
  const auto last = static_cast<int64_t>(source) - 1;
  const double stretch = antialias ? std::max(scale, 1.0) : 1.0;
  const bool cubic = interpolation == Interpolation::kBicubic;
  const double support = (cubic ? 2 : 1) * stretch;
  const float a = antialias ? -0.5f : -0.75f;
  const auto one = static_cast<int32_t>(1) << WeightBits(interpolation);
  std::vector<float> exact;
  for (uint32_t i = 0; i < out; ++i) {
    const double left = begin + i * scale;
    const double center = begin + (i + 0.5) * scale;
    int64_t first;
    if (interpolation == Interpolation::kBilinear && !antialias) {
      // The two pixels around the center, or the one at the edge. A fast path, because weights are
      // computed again for every image.
      const double at = std::clamp(center - 0.5, 0.0, static_cast<double>(last));
      first = Floor(at);
      const auto second = Round(static_cast<float>((at - static_cast<double>(first)) * one));
      taps->first[i] = static_cast<uint32_t>(first);
      taps->count[i] = second > 0 ? 2 : 1;
      taps->offset[i] = static_cast<uint32_t>(taps->weights.size());
      taps->weights.push_back(static_cast<int16_t>(std::min(one - second, 32767)));
      if (second > 0) taps->weights.push_back(static_cast<int16_t>(std::min(second, 32767)));
      if (keep_exact) {
        const auto part = static_cast<float>(second) / static_cast<float>(one);
        taps->exact.push_back(1 - part);
        if (second > 0) taps->exact.push_back(part);
      }
      continue;
    }
    exact.clear();
    if (interpolation == Interpolation::kNearest) {
      first = earlier ? Ceil(center - kTie) - 1 : Floor(center + kTie);
      first = std::clamp<int64_t>(first, 0, last);
      exact.push_back(1);
    } else if (interpolation == Interpolation::kArea) {
      first = std::clamp<int64_t>(Floor(left), 0, last);
      for (int64_t k = first; k <= last && (k == first || k < left + scale); ++k) {
        const double part = std::min<double>(k + 1, left + scale) - std::max<double>(k, left);
        exact.push_back(static_cast<float>(std::max(part, 0.0)));
      }
    } else {
      const auto lo = Floor(center - support + 0.5);
      const auto hi = Floor(center + support + 0.5);
      first = std::clamp<int64_t>(lo, 0, last);
      exact.assign(std::clamp<int64_t>(hi, first + 1, last + 1) - first, 0);
      for (int64_t k = lo; k < hi; ++k) {
        if (antialias && (k < 0 || k > last)) continue;
        const auto x = static_cast<float>((k - center + 0.5) / stretch);
        // Without antialiasing, what lies outside is like the pixel at the edge.
        const int64_t at = std::clamp<int64_t>(k, first, first + exact.size() - 1);
        exact[at - first] += cubic ? Cubic(x, a) : Triangle(x);
      }
    }
    // Drop zero weights at both ends.
    size_t begin_at = 0;
    while (begin_at + 1 < exact.size() && exact[begin_at] == 0) ++begin_at;
    size_t count = exact.size() - begin_at;
    while (count > 1 && exact[begin_at + count - 1] == 0) --count;
    float sum = 0;
    for (size_t k = 0; k < count; ++k) sum += exact[begin_at + k];
    const float factor = sum == 0 ? 0 : static_cast<float>(one) / sum;
    taps->first[i] = static_cast<uint32_t>(first + begin_at);
    taps->count[i] = static_cast<uint32_t>(count);
    taps->offset[i] = static_cast<uint32_t>(taps->weights.size());
    if (keep_exact) {
      for (size_t k = 0; k < count; ++k) {
        taps->exact.push_back(sum == 0 ? 0 : exact[begin_at + k] / sum);
      }
    }
    int32_t total = 0;
    size_t largest = 0;
    for (size_t k = 0; k < count; ++k) {
      const auto w = Round(exact[begin_at + k] * factor);
      total += w;
      if (exact[begin_at + k] > exact[begin_at + largest]) largest = k;
      // The largest is corrected below for the rounding of the others.
      taps->weights.push_back(static_cast<int16_t>(std::min(w, 32767)));
    }
    int16_t& w = taps->weights[taps->offset[i] + largest];
    const auto exact_w = Round(exact[begin_at + largest] * factor);
    w = static_cast<int16_t>(std::min(exact_w + one - total, 32767));
  }
}

void Resampler::MixRowsInFloat(const uint8_t* from, size_t row_bytes, uint32_t y) {
  std::fill(exact_row_.begin(), exact_row_.end(), 0.0f);
  for (uint32_t k = 0; k < rows_.count[y]; ++k, from += row_bytes) {
    const float weight = rows_.exact[rows_.offset[y] + k];
    for (size_t i = 0; i < exact_row_.size(); ++i) exact_row_[i] += weight * from[i];
  }
}

template <typename Value>
void Resampler::MixColumnsInFloat(const Value* row, int channels, bool flip, uint32_t width,
                                  uint8_t* out) const {
  for (uint32_t x = 0; x < width; ++x) {
    const uint32_t pixel = flip ? width - 1 - x : x;
    const Value* from = row + size_t{columns_.first[pixel]} * channels;
    const float* weights = &columns_.exact[columns_.offset[pixel]];
    for (int c = 0; c < channels; ++c) {
      float sum = 0;
      for (uint32_t k = 0; k < columns_.count[pixel]; ++k)
        sum += weights[k] * from[k * channels + c];
      *out++ = Level(sum);
    }
  }
}

void Resampler::ResizeInFloat(const PixelRows& source, int channels, bool flip, uint32_t width,
                              uint32_t height, uint8_t* out, size_t row_bytes) {
  exact_row_.resize(size_t{source.width} * channels);
  for (uint32_t y = 0; y < height; ++y, out += row_bytes) {
    MixRowsInFloat(source.data + rows_.first[y] * source.row_bytes, source.row_bytes, y);
    MixColumnsInFloat(exact_row_.data(), channels, flip, width, out);
  }
}

void Resampler::ResizeRowsFirst(const PixelRows& source, int channels, bool flip, bool in_float,
                                uint32_t width, uint32_t height, uint8_t* out, size_t row_bytes) {
  uint32_t top = source.height;
  uint32_t bottom = 0;
  for (uint32_t y = 0; y < height; ++y) {
    top = std::min(top, rows_.first[y]);
    bottom = std::max(bottom, rows_.first[y] + rows_.count[y]);
  }
  const size_t n = size_t{width} * channels;
  between_.resize(n * (bottom - top));
  const int weight_bits = WeightBits(Interpolation::kBicubic);
  size_t used = 0;
  const size_t begin = in_float ? 0 : StartColumns(source, channels, width, flip, &used);
  for (uint32_t y = top; y < bottom; ++y) {
    const uint8_t* from = source.data + y * source.row_bytes;
    uint8_t* to = &between_[n * (y - top)];
    if (!in_float) {
      const auto one = static_cast<int16_t>(1 << weight_bits);
      HWY_DYNAMIC_DISPATCH(MixRows)
      (from + begin, source.row_bytes, &one, 1, weight_bits, used, row_.data());
      HWY_DYNAMIC_DISPATCH(MixColumnsOf)
      (channels, row_.data(), starts_.data(), steps_, spread_.data(), weight_bits, width, to);
      continue;
    }
    MixColumnsInFloat(from, channels, flip, width, to);
  }
  row_.resize(std::max(row_.size(), n));
  exact_row_.resize(in_float ? n : 0);
  for (uint32_t y = 0; y < height; ++y, out += row_bytes) {
    const uint8_t* from = &between_[n * (rows_.first[y] - top)];
    if (!in_float) {
      HWY_DYNAMIC_DISPATCH(MixRows)
      (from, n, &rows_.weights[rows_.offset[y]], rows_.count[y], weight_bits, n, row_.data());
      HWY_DYNAMIC_DISPATCH(RoundRow)(row_.data(), n, out);
      continue;
    }
    MixRowsInFloat(from, n, y);
    for (size_t i = 0; i < n; ++i) out[i] = Level(exact_row_[i]);
  }
}

void Resampler::SpreadWeights(int channels, uint32_t width, bool flip) {
  const uint32_t per_step = channels == 3 ? 2 : 8;
  const uint32_t max_count = *std::max_element(columns_.count.begin(), columns_.count.end());
  steps_ = CeilDivide(max_count, per_step);
  const uint32_t even = width + width % 2;
  starts_.resize(even);
  spread_.assign(size_t{even} / 2 * steps_ * 16, 0);
  for (uint32_t x = 0; x < even; ++x) {
    const uint32_t at = std::min(x, width - 1);
    const uint32_t pixel = flip ? width - 1 - at : at;
    starts_[x] = columns_.first[pixel] * channels;
    const int16_t* weights = &columns_.weights[columns_.offset[pixel]];
    int16_t* to = &spread_[x / 2 * size_t{steps_} * 16 + x % 2 * 8];
    for (uint32_t k = 0; k < columns_.count[pixel]; ++k) {
      for (int c = 0; c < channels; ++c)
        to[k / per_step * 16 + k % per_step * channels + c] = weights[k];
    }
  }
}

size_t Resampler::StartColumns(const PixelRows& source, int channels, uint32_t width, bool flip,
                               size_t* n) {
  SpreadWeights(channels, width, flip);
  // Only the columns that are needed are mixed.
  uint32_t left = source.width;
  uint32_t right = 0;
  for (uint32_t x = 0; x < width; ++x) {
    left = std::min(left, columns_.first[x]);
    right = std::max(right, columns_.first[x] + columns_.count[x]);
  }
  *n = size_t{right - left} * channels;
  for (uint32_t& start : starts_) start -= left * channels;
  // Steps may read past the end, where weights are 0.
  row_.assign(*n + 8 * size_t{steps_} + 8, 0);
  return size_t{left} * channels;
}

void Resampler::Resize(const PixelRows& source, int channels, const ResampleOptions& options,
                       uint32_t width, uint32_t height, uint8_t* out, size_t row_bytes) {
  const bool all = options.width == 0 || options.height == 0;
  const int weight_bits = WeightBits(options.interpolation);
  const double part_width = all ? source.width : options.width;
  const double part_height = all ? source.height : options.height;
  const bool stretched = options.interpolation == Interpolation::kArea ||
                         (options.antialias && options.interpolation != Interpolation::kNearest);
  const bool in_float =
      stretched && std::max(part_width / width, part_height / height) > kMaxFixedShrink;
  FindTaps(source.width, all ? 0 : options.x, part_width, width, options, options.earlier_in_row,
           in_float, &columns_);
  FindTaps(source.height, all ? 0 : options.y, part_height, height, options,
           options.earlier_in_column, in_float, &rows_);
  if (options.antialias && options.interpolation == Interpolation::kBicubic) {
    ResizeRowsFirst(source, channels, options.flip, in_float, width, height, out, row_bytes);
    return;
  }
  if (in_float) {
    ResizeInFloat(source, channels, options.flip, width, height, out, row_bytes);
    return;
  }
  size_t n = 0;
  const size_t begin = StartColumns(source, channels, width, options.flip, &n);
  for (uint32_t y = 0; y < height; ++y) {
    const uint8_t* first = source.data + rows_.first[y] * source.row_bytes + begin;
    HWY_DYNAMIC_DISPATCH(MixRows)
    (first, source.row_bytes, &rows_.weights[rows_.offset[y]], rows_.count[y], weight_bits, n,
     row_.data());
    HWY_DYNAMIC_DISPATCH(MixColumnsOf)
    (channels, row_.data(), starts_.data(), steps_, spread_.data(), weight_bits, width,
     out + y * row_bytes);
  }
}

}  // namespace shardfeed

#endif  // HWY_ONCE
