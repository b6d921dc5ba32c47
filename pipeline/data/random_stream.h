// The random numbers of the steps of a chain.

#ifndef SHARDFEED_PIPELINE_DATA_RANDOM_STREAM_H_
#define SHARDFEED_PIPELINE_DATA_RANDOM_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shardfeed/batch.h"
#include "shardfeed/functions.h"

namespace shardfeed {

// Every kind of step that draws random numbers has a stream of its own, so that steps with the same
// seed (0 by default) draw independently: a flip on the GPU does not depend on the crop made on the
// CPU. The values are part of fingerprints and of the numbers that a seed gives: they must never
// change.
enum class RandomStream : uint64_t {
  kMap = 0,
  kFilter = 0x66696c7465720000,
  kDecodeImage = 0x6465636f64650000,
  kAugment = 0x6175676d656e7400,
  kMixUp = 0x6d69787570000000,
  kCutMix = 0x6375746d69780000,
  kMix = 0x6d69785f64730000,
  kRejectionResample = 0x726573616d706c65,
  kShuffleWindow = 0x73687566666c6500,
  kSlices = 0x736c696365730000,
  kDeviceFlip = 0x676c697000000000,
  kDeviceMixing = 0x6d69780000000000,
};

// The seed of a stream, for Random(StreamSeed(...), ...).
constexpr uint64_t StreamSeed(RandomStream stream, uint64_t seed) {
  return seed ^ static_cast<uint64_t>(stream);
}

// A Fisher-Yates shuffle.
template <typename T>
void ShuffleBy(Random random, std::vector<T>* values) {
  for (size_t i = values->size(); i > 1; --i) {
    std::swap((*values)[i - 1], (*values)[random.Below(i)]);
  }
}

// The numbers of the row at `origin`, which depend on its record and epoch.
inline Random RandomOf(uint64_t stream_seed, const RowOrigin& origin) {
  return Random(stream_seed, origin.source, origin.epoch + origin.later, origin.position);
}

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_RANDOM_STREAM_H_
