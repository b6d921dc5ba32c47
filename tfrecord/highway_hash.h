// HighwayHash64, the hash of Riegeli/records files.
//
// Source: google/highwayhash, whose test vectors tests/tfrecord/highway_hash_test.cc has.

#ifndef SHARDFEED_TFRECORD_HIGHWAY_HASH_H_
#define SHARDFEED_TFRECORD_HIGHWAY_HASH_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace shardfeed {

using HighwayHashKey = std::array<uint64_t, 4>;

// Uses the processor's best instructions. Thread-safe.
uint64_t HighwayHash64(const HighwayHashKey& key, std::string_view bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_HIGHWAY_HASH_H_
