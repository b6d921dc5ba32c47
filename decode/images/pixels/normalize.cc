#include "decode/images/pixels/normalize.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode/images/pixels/normalize.cc"
// Compiles this file once for each kind of processor.
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace shardfeed {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void SplitChannels(const uint8_t* HWY_RESTRICT pixels, size_t n, uint8_t* HWY_RESTRICT red,
                   uint8_t* HWY_RESTRICT green, uint8_t* HWY_RESTRICT blue) {
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto r = hn::Zero(d);
    auto g = r;
    auto b = r;
    hn::LoadInterleaved3(d, pixels + 3 * i, r, g, b);
    hn::StoreU(r, d, red + i);
    hn::StoreU(g, d, green + i);
    hn::StoreU(b, d, blue + i);
  }
  for (; i < n; ++i) {
    red[i] = pixels[3 * i];
    green[i] = pixels[3 * i + 1];
    blue[i] = pixels[3 * i + 2];
  }
}

// Applies `pattern`: 3 * lanes scales and, `pattern_size` further on, as many biases of consecutive
// values.
template <class D, class Store>
void Scale(D d, const uint8_t* HWY_RESTRICT in, size_t n, const float* HWY_RESTRICT pattern,
           size_t pattern_size, const Store& store) {
  const hn::Rebind<int32_t, D> integers;
  const hn::Rebind<uint8_t, D> bytes;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  size_t at = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadU(bytes, in + i)));
    store(hn::MulAdd(v, hn::LoadU(d, pattern + at), hn::LoadU(d, pattern + pattern_size + at)), i);
    at += lanes;
    if (at == 3 * lanes) at = 0;
  }
  if (i == n) return;
  HWY_ALIGN uint8_t rest[HWY_MAX_BYTES] = {};
  std::memcpy(rest, in + i, n - i);
  const auto v = hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadU(bytes, rest)));
  store(hn::MulAdd(v, hn::LoadU(d, pattern + at), hn::LoadU(d, pattern + pattern_size + at)), i);
}

size_t FloatLanes() { return hn::Lanes(hn::ScalableTag<float>()); }

// Converts `n` values of `in` to `dtype`.
void Convert(DType dtype, const uint8_t* in, size_t n, const float* pattern, size_t pattern_size,
             void* out) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  // The last values of a row are stored through a buffer, since a full vector would exceed the row.
  const auto put = [&](auto tag, auto v, auto* to, size_t i) HWY_ATTR {
    if (i + lanes <= n) {
      hn::StoreU(v, tag, to + i);
      return;
    }
    HWY_ALIGN std::remove_pointer_t<decltype(to)> rest[HWY_MAX_BYTES / sizeof(float)];
    hn::StoreU(v, tag, rest);
    std::memcpy(static_cast<void*>(to + i), rest, (n - i) * sizeof(*rest));
  };
  if (dtype == DType::kFloat32) {
    Scale(d, in, n, pattern, pattern_size,
          [&](auto v, size_t i) HWY_ATTR { put(d, v, static_cast<float*>(out), i); });
  } else if (dtype == DType::kFloat16) {
    const hn::Rebind<hwy::float16_t, decltype(d)> halves;
    Scale(d, in, n, pattern, pattern_size, [&](auto v, size_t i) HWY_ATTR {
      put(halves, hn::DemoteTo(halves, v), static_cast<hwy::float16_t*>(out), i);
    });
  } else {
    const hn::Rebind<uint32_t, decltype(d)> words;
    const hn::Rebind<int32_t, decltype(d)> integers;
    const hn::Rebind<uint16_t, decltype(d)> halves;
    Scale(d, in, n, pattern, pattern_size, [&](auto v, size_t i) HWY_ATTR {
      const auto bits = hn::BitCast(words, v);
      const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
      const auto upper = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fff))));
      put(halves, hn::DemoteTo(halves, hn::BitCast(integers, upper)), static_cast<uint16_t*>(out),
          i);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace shardfeed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace shardfeed {

HWY_EXPORT(SplitChannels);
HWY_EXPORT(FloatLanes);
HWY_EXPORT(Convert);

Normalizer::Normalizer(ImageLayout layout, DType dtype, int channels,
                       const std::vector<float>& mean, const std::vector<float>& std)
    : layout_(layout), dtype_(dtype), channels_(channels) {
  for (int c = 0; c < channels; ++c) {
    scale_[c] = 1 / (255 * std[c]);
    bias_[c] = -mean[c] / std[c];
  }
  if (dtype == DType::kUInt8) return;
  const size_t period = 3 * HWY_DYNAMIC_DISPATCH(FloatLanes)();
  const int planes = layout == ImageLayout::kNCHW ? channels : 1;
  for (int p = 0; p < planes; ++p) {
    for (const auto& values : {scale_, bias_}) {
      for (size_t i = 0; i < period; ++i) {
        pattern_.push_back(values[planes > 1 ? p : i % channels]);
      }
    }
  }
}

void Normalizer::Write(const PixelRows& pixels, void* out) {
  const size_t width = pixels.width;
  const size_t row = width * channels_;
  auto* const bytes = static_cast<uint8_t*>(out);
  const size_t value = DTypeSize(dtype_);
  if (layout_ == ImageLayout::kNHWC || channels_ == 1) {
    for (uint32_t y = 0; y < pixels.height; ++y) {
      const uint8_t* from = pixels.data + y * pixels.row_bytes;
      uint8_t* to = bytes + y * row * value;
      if (dtype_ == DType::kUInt8) {
        std::memcpy(to, from, row);
      } else {
        HWY_DYNAMIC_DISPATCH(Convert)
        (dtype_, from, row, pattern_.data(), pattern_.size() / 2, to);
      }
    }
    return;
  }
  const size_t plane = width * pixels.height;
  plane_.resize(row);
  for (uint32_t y = 0; y < pixels.height; ++y) {
    const uint8_t* from = pixels.data + y * pixels.row_bytes;
    uint8_t* to[3];
    for (int c = 0; c < 3; ++c) {
      to[c] = dtype_ == DType::kUInt8 ? bytes + c * plane + y * width : &plane_[c * width];
    }
    HWY_DYNAMIC_DISPATCH(SplitChannels)(from, width, to[0], to[1], to[2]);
    if (dtype_ == DType::kUInt8) continue;
    const size_t period = pattern_.size() / 6;
    for (int c = 0; c < 3; ++c) {
      HWY_DYNAMIC_DISPATCH(Convert)
      (dtype_, to[c], width, &pattern_[2 * c * period], period,
       bytes + (c * plane + y * width) * value);
    }
  }
}

}  // namespace shardfeed

#endif  // HWY_ONCE
