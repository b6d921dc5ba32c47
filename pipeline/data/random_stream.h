// Random numbers of the steps of a chain.

#ifndef SHARDFEED_PIPELINE_DATA_RANDOM_STREAM_H_
#define SHARDFEED_PIPELINE_DATA_RANDOM_STREAM_H_

#include <cstdint>

#include "shardfeed/batch.h"
#include "shardfeed/functions.h"

namespace shardfeed {

// Everything that draws random numbers has a stream of its own, so that steps with the same seed
// (all seeds are 0 by default) draw independently of one another: a flip on the GPU says nothing
// about the crop that was made on the CPU. The values are part of the numbers that a seed gives,
// and of fingerprints: they must never change.
enum class RandomStream : uint64_t {
  kMap = 0,
  kFilter = 0x66696c7465720000,
  kDecodeImage = 0x6465636f64650000,
  kAugment = 0x6175676d656e7400,
  kMixUp = 0x6d69787570000000,  // CutMix as well
  kMix = 0x6d69785f64730000,
  kRejectionResample = 0x726573616d706c65,
  kShuffleWindow = 0x73687566666c6500,
  kDeviceFlip = 0x676c697000000000,
  kDeviceMixing = 0x6d69780000000000,
};

// The seed of a stream: Random(StreamSeed(...), ...) draws from it.
constexpr uint64_t StreamSeed(RandomStream stream, uint64_t seed) {
  return seed ^ static_cast<uint64_t>(stream);
}

// The numbers of the row at `origin`: those of the record that it came from and of the epoch.
inline Random RandomOf(uint64_t stream_seed, const RowOrigin& origin) {
  return Random(stream_seed, origin.source, origin.epoch + origin.later, origin.position);
}

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_RANDOM_STREAM_H_
