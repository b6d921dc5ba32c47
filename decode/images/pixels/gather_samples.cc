#include "decode/images/pixels/gather_samples.h"

#include <cstring>

namespace shardfeed {
namespace {

// `out` may be at any address.
template <typename Sample, typename Value>
void Gather(const SampleGather& gather, ImageLayout layout, char* out) {
  const size_t channels = gather.channels;
  const auto copy = [&](size_t number, size_t to) {
    Sample sample;
    std::memcpy(&sample, gather.samples + number * sizeof(Sample), sizeof(Sample));
    const auto value = static_cast<Value>(sample);
    std::memcpy(out + to * sizeof(Value), &value, sizeof(Value));
  };
  size_t to = 0;
  if (layout == ImageLayout::kNHWC) {
    for (size_t row : gather.rows) {
      for (size_t column : gather.columns) {
        for (size_t c = 0; c < channels; ++c) copy(row + column + c, to++);
      }
    }
    return;
  }
  for (size_t c = 0; c < channels; ++c) {
    for (size_t row : gather.rows) {
      for (size_t column : gather.columns) copy(row + column + c, to++);
    }
  }
}

template <typename Value>
void GatherAs(const SampleGather& gather, ImageLayout layout, void* out) {
  auto* const to = static_cast<char*>(out);
  if (gather.sample_bytes == 1) {
    Gather<uint8_t, Value>(gather, layout, to);
  } else {
    Gather<uint16_t, Value>(gather, layout, to);
  }
}

}  // namespace

void GatherSamples(const SampleGather& gather, ImageLayout layout, DType dtype, void* out) {
  switch (dtype) {
    case DType::kUInt16:
      return GatherAs<uint16_t>(gather, layout, out);
    case DType::kInt32:
      return GatherAs<int32_t>(gather, layout, out);
    case DType::kFloat32:
      return GatherAs<float>(gather, layout, out);
    default:
      return GatherAs<uint8_t>(gather, layout, out);
  }
}

std::vector<uint32_t> NearestPixels(uint32_t begin, uint32_t size, uint32_t out) {
  return NearestPixels(begin, size, out, 0, out);
}

std::vector<uint32_t> NearestPixels(uint32_t begin, uint32_t size, uint32_t out, uint32_t first,
                                    uint32_t count) {
  std::vector<uint32_t> pixels(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t middle = 2 * (uint64_t{first} + i) + 1;
    pixels[i] = begin + static_cast<uint32_t>(middle * size / (2 * uint64_t{out}));
  }
  return pixels;
}

}  // namespace shardfeed
