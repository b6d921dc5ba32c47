#include "decode/images/pixels/augment_color.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace shardfeed::augment {
namespace {

using Table = std::array<uint8_t, 256>;

template <typename Function>
Table MakeTable(Function function) {
  Table table;
  for (int v = 0; v < 256; ++v) table[v] = static_cast<uint8_t>(function(v));
  return table;
}

void Replace(const Table& table, ImageView image) {
  uint8_t* const end = image.data + image.bytes();
  for (uint8_t* p = image.data; p < end; ++p) *p = table[*p];
}

// Each channel has a table of its own.
void Replace(const std::array<Table, 3>& tables, ImageView image) {
  if (image.channels == 1) return Replace(tables[0], image);
  uint8_t* const end = image.data + image.bytes();
  for (uint8_t* p = image.data; p < end; p += 3) {
    for (int c = 0; c < 3; ++c) p[c] = tables[c][p[c]];
  }
}

float Clamp(float value) { return std::min(std::max(value, 0.0f), 255.0f); }

// Pixels are processed in stretches that fit the L1 cache, with one array for each channel, so that
// the loops over them are vectorized.
constexpr int kStretch = 256;
struct Stretch {
  float r[kStretch];
  float g[kStretch];
  float b[kStretch];
};

template <typename Function>
void ForEachStretch(ImageView image, Function function) {
  Stretch s;
  const size_t pixels = image.bytes() / 3;
  for (size_t begin = 0; begin < pixels; begin += kStretch) {
    const int n = static_cast<int>(std::min<size_t>(kStretch, pixels - begin));
    uint8_t* const p = image.data + 3 * begin;
    for (int i = 0; i < n; ++i) {
      s.r[i] = p[3 * i];
      s.g[i] = p[3 * i + 1];
      s.b[i] = p[3 * i + 2];
    }
    // The rest is processed too, so that the loops have a fixed length.
    for (int i = n; i < kStretch; ++i) s.r[i] = s.g[i] = s.b[i] = 0;
    function(s, n);
    for (int i = 0; i < n; ++i) {
      p[3 * i] = static_cast<uint8_t>(static_cast<int>(s.r[i]));
      p[3 * i + 1] = static_cast<uint8_t>(static_cast<int>(s.g[i]));
      p[3 * i + 2] = static_cast<uint8_t>(static_cast<int>(s.b[i]));
    }
  }
}

// Rounds once, as a fused multiply-add does, because `product` is exact.
float Add(double product, float value) { return static_cast<float>(product + value); }

// Truncated to an integer. The weighted sum of integers is exact, so only the last product is
// rounded.
float Gray(float r, float g, float b) {
  return static_cast<float>(static_cast<int>((2989 * r + 5870 * g + 1140 * b) * 1e-4f));
}

// `condition ? a : b` without a branch, which would keep a loop from being vectorized.
float Choose(bool condition, float a, float b) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return std::bit_cast<float>((std::bit_cast<uint32_t>(a) & mask) |
                              (std::bit_cast<uint32_t>(b) & ~mask));
}

}  // namespace

void AdjustBrightness(ImageView image, double factor) {
  const float f = static_cast<float>(factor);
  Replace(MakeTable([&](int v) { return Clamp(static_cast<float>(v) * f); }), image);
}

void AdjustContrast(ImageView image, double factor) {
  if (image.bytes() == 0) return;
  uint64_t sum = 0;
  const size_t pixels = image.bytes() / image.channels;
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t* p = image.data + i * image.channels;
    sum += image.channels == 1
               ? p[0]
               : static_cast<unsigned>(static_cast<float>(2989 * p[0] + 5870 * p[1] + 1140 * p[2]) *
                                       1e-4f);
  }
  const float mean = static_cast<float>(static_cast<double>(sum) / static_cast<double>(pixels));
  const float ratio = static_cast<float>(factor);
  const float rest = static_cast<float>(1 - factor);
  Replace(
      MakeTable([&](int v) { return Clamp(std::fma(mean, rest, static_cast<float>(v) * ratio)); }),
      image);
}

void AdjustSaturation(ImageView image, double factor) {
  if (image.channels == 1) return;
  const float ratio = static_cast<float>(factor);
  const float rest = static_cast<float>(1 - factor);
  ForEachStretch(image, [&](Stretch& s, int) {
    for (int i = 0; i < kStretch; ++i) {
      const double gray = double{Gray(s.r[i], s.g[i], s.b[i])} * rest;
      s.r[i] = Clamp(Add(gray, s.r[i] * ratio));
      s.g[i] = Clamp(Add(gray, s.g[i] * ratio));
      s.b[i] = Clamp(Add(gray, s.b[i] * ratio));
    }
  });
}

void AdjustHue(ImageView image, double factor) {
  if (image.channels == 1) return;
  const float turn = static_cast<float>(factor);
  ForEachStretch(image, [&](Stretch& s, int) {
    constexpr float kUnit = 1.0f / 255;
    for (int i = 0; i < kStretch; ++i) {
      const float r = s.r[i] * kUnit;
      const float g = s.g[i] * kUnit;
      const float b = s.b[i] * kUnit;
      const float v = std::max(r, std::max(g, b));
      const float range = v - std::min(r, std::min(g, b));
      const float divisor = Choose(range == 0, 1, range);
      const float saturation = range / Choose(range == 0, 1, v);
      const float rc = (v - r) / divisor;
      const float gc = (v - g) / divisor;
      const float bc = (v - b) / divisor;
      float h = Choose(v == r, bc - gc, Choose(v == g, rc + 2 - bc, gc + 4 - rc));
      h = h * (1.0f / 6) + 1;  // in [5/6, 11/6]
      h -= static_cast<float>(static_cast<int>(h));
      h += turn;  // in [-0.5, 1.5)
      h += Choose(h < 0, 1, 0);
      h -= static_cast<float>(static_cast<int>(h));
      const float h6 = h * 6;
      const int sector = static_cast<int>(h6);
      const float sf = saturation * (h6 - static_cast<float>(sector));
      const float q = (1 - sf) * v;
      const float t = (sf + (1 - saturation)) * v;
      const float p = (1 - saturation) * v;
      // Red goes through v q p p t v, green and blue follow.
      const auto at = [&](int k) { return sector == k; };
      const float red = Choose(at(1), q, Choose(at(4), t, Choose(at(2) | at(3), p, v)));
      const float green = Choose(at(3), q, Choose(at(0), t, Choose(at(1) | at(2), v, p)));
      const float blue = Choose(at(5), q, Choose(at(2), t, Choose(at(3) | at(4), v, p)));
      s.r[i] = Clamp(red * 255.999f);
      s.g[i] = Clamp(green * 255.999f);
      s.b[i] = Clamp(blue * 255.999f);
    }
  });
}

void ToGrayscale(ImageView image) {
  if (image.channels == 1) return;
  uint8_t* const end = image.data + image.bytes();
  for (uint8_t* p = image.data; p < end; p += 3) {
    const int sum = 2989 * p[0] + 5870 * p[1] + 1140 * p[2];
    p[0] = p[1] = p[2] = static_cast<uint8_t>(static_cast<int>(static_cast<float>(sum) * 1e-4f));
  }
}

void Invert(ImageView image) {
  uint8_t* const end = image.data + image.bytes();
  for (uint8_t* p = image.data; p < end; ++p) *p = static_cast<uint8_t>(~*p);
}

void Posterize(ImageView image, int bits) {
  const uint8_t mask = static_cast<uint8_t>(0xff << (8 - bits));
  uint8_t* const end = image.data + image.bytes();
  for (uint8_t* p = image.data; p < end; ++p) *p &= mask;
}

void Solarize(ImageView image, double threshold) {
  Replace(MakeTable([&](int v) { return v >= threshold ? 255 - v : v; }), image);
}

void AutoContrast(ImageView image) {
  if (image.bytes() == 0) return;
  std::array<uint8_t, 3> least = {255, 255, 255};
  std::array<uint8_t, 3> most = {0, 0, 0};
  uint8_t* const end = image.data + image.bytes();
  for (const uint8_t* p = image.data; p < end; p += image.channels) {
    for (int c = 0; c < image.channels; ++c) {
      least[c] = std::min(least[c], p[c]);
      most[c] = std::max(most[c], p[c]);
    }
  }
  std::array<Table, 3> tables;
  for (int c = 0; c < image.channels; ++c) {
    const bool flat = least[c] == most[c];
    const float from = flat ? 0 : least[c];
    const float scale =
        flat ? 1 : static_cast<float>(most[c] - least[c]) * static_cast<float>(1.0 / 255);
    tables[c] = MakeTable([&](int v) { return Clamp((static_cast<float>(v) - from) / scale); });
  }
  Replace(tables, image);
}

void Equalize(ImageView image) {
  std::array<std::array<uint32_t, 256>, 3> counts = {};
  uint8_t* const end = image.data + image.bytes();
  for (const uint8_t* p = image.data; p < end; p += image.channels) {
    for (int c = 0; c < image.channels; ++c) ++counts[c][p[c]];
  }
  std::array<Table, 3> tables;
  for (int c = 0; c < image.channels; ++c) {
    uint32_t total = 0;
    uint32_t last = 0;  // count of the largest value present
    for (uint32_t count : counts[c]) {
      total += count;
      if (count > 0) last = count;
    }
    const uint32_t step = (total - last) / 255;
    uint32_t sum = step / 2;
    tables[c] = MakeTable([&](int v) {
      if (step == 0) return static_cast<uint32_t>(v);
      const uint32_t to = std::min(sum / step, 255u);
      sum += counts[c][v];
      return to;
    });
  }
  Replace(tables, image);
}

}  // namespace shardfeed::augment
