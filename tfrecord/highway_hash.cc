#include "tfrecord/highway_hash.h"

#include <bit>
#include <cstddef>
#include <cstring>

// The compiler does not know the size of SVE's vectors, so these cannot be members of Half. NEON
// has the two lanes that are needed, too.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tfrecord/highway_hash.cc"
// Compiles this file once for each kind of processor.
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace shardfeed {
namespace HWY_NAMESPACE {

constexpr size_t kPacketBytes = 32;
constexpr int kFinalRounds = 4;

// The first digits of pi, as in Blowfish, and of what follows them.
HWY_ALIGN constexpr uint64_t kInit0[4] = {0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0,
                                          0x13198a2e03707344, 0x243f6a8885a308d3};
HWY_ALIGN constexpr uint64_t kInit1[4] = {0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c,
                                          0xbe5466cf34e90c6c, 0x452821e638d01377};

// Where the bytes come from when two lanes of v0 are mixed into v1, or the reverse.
HWY_ALIGN constexpr uint8_t kZipper[16] = {3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7};

#if HWY_TARGET == HWY_SCALAR

// Two lanes.
struct V64 {
  uint64_t low, high;
};

HWY_INLINE V64 Load(const void* at) {
  V64 v;
  std::memcpy(&v, at, sizeof(v));
  return v;
}
HWY_INLINE V64 Add(V64 a, V64 b) { return {a.low + b.low, a.high + b.high}; }
HWY_INLINE V64 Xor(V64 a, V64 b) { return {a.low ^ b.low, a.high ^ b.high}; }
HWY_INLINE uint64_t FirstLane(V64 v) { return v.low; }

HWY_INLINE V64 Zipper(V64 v) {
  uint8_t from[16];
  uint8_t to[16];
  std::memcpy(from, &v, sizeof(v));
  for (size_t i = 0; i < sizeof(to); ++i) to[i] = from[kZipper[i]];
  return Load(to);
}

// Multiplies the lower halves of the lanes of `a` by the upper halves of those of `b`.
HWY_INLINE V64 MulLowHigh(V64 a, V64 b) {
  return {(a.low & 0xffffffff) * (b.low >> 32), (a.high & 0xffffffff) * (b.high >> 32)};
}

HWY_INLINE V64 Rotate32(V64 v) { return {std::rotl(v.low, 32), std::rotl(v.high, 32)}; }

// Rotates each half of the lanes by 1 to 31 bits.
HWY_INLINE V64 RotateHalves(V64 v, int bits) {
  const auto rotate = [bits](uint64_t lane) {
    return uint64_t{std::rotl(static_cast<uint32_t>(lane), bits)} |
           uint64_t{std::rotl(static_cast<uint32_t>(lane >> 32), bits)} << 32;
  };
  return {rotate(v.low), rotate(v.high)};
}

HWY_INLINE V64 Set(uint64_t lane) { return {lane, lane}; }

#else

namespace hn = hwy::HWY_NAMESPACE;

using D64 = hn::FixedTag<uint64_t, 2>;
using D32 = hn::FixedTag<uint32_t, 4>;
using D8 = hn::FixedTag<uint8_t, 16>;
using V64 = hn::Vec<D64>;

HWY_INLINE V64 Load(const void* at) {
  return hn::BitCast(D64(), hn::LoadU(D8(), static_cast<const uint8_t*>(at)));
}
using hn::Add;
using hn::Xor;
HWY_INLINE uint64_t FirstLane(V64 v) { return hn::GetLane(v); }

HWY_INLINE V64 Zipper(V64 v) {
  return hn::TableLookupBytes(v, hn::BitCast(D64(), hn::Load(D8(), kZipper)));
}

// Multiplies the lower halves of the lanes of `a` by the upper halves of those of `b`.
HWY_INLINE V64 MulLowHigh(V64 a, V64 b) {
  return hn::MulEven(hn::BitCast(D32(), a), hn::BitCast(D32(), hn::ShiftRight<32>(b)));
}

HWY_INLINE V64 Rotate32(V64 v) {
  return hn::BitCast(D64(), hn::Shuffle2301(hn::BitCast(D32(), v)));
}

// Rotates each half of the lanes by 1 to 31 bits.
HWY_INLINE V64 RotateHalves(V64 v, int bits) {
  const auto halves = hn::BitCast(D32(), v);
  return hn::BitCast(
      D64(), hn::Or(hn::ShiftLeftSame(halves, bits), hn::ShiftRightSame(halves, 32 - bits)));
}

HWY_INLINE V64 Set(uint64_t lane) { return hn::Set(D64(), lane); }

#endif

// Two of the four lanes of the state.
struct Half {
  V64 v0, v1, mul0, mul1;

  // Explicit: the compiler would make a constructor for the basic processor, into which it cannot
  // inline NEON's.
  HWY_INLINE Half(const uint64_t* key, size_t at)
      : v0(Xor(Load(kInit0 + at), Load(key + at))),
        v1(Xor(Load(kInit1 + at), Rotate32(Load(key + at)))),
        mul0(Load(kInit0 + at)),
        mul1(Load(kInit1 + at)) {}

  HWY_INLINE void Update(V64 packet) {
    v1 = Add(v1, Add(mul0, packet));
    mul0 = Xor(mul0, MulLowHigh(v1, v0));
    v0 = Add(v0, mul1);
    mul1 = Xor(mul1, MulLowHigh(v0, v1));
    v0 = Add(v0, Zipper(v1));
    v1 = Add(v1, Zipper(v0));
  }

  // Mixes in how many bytes the last packet has: 1 to 31.
  HWY_INLINE void AddSize(uint64_t size) {
    v0 = Add(v0, Set(size << 32 | size));
    v1 = RotateHalves(v1, static_cast<int>(size));
  }
};

uint64_t Hash(const uint64_t* key, const uint8_t* bytes, size_t size) {
  Half low(key, 0);
  Half high(key, 2);
  for (; size >= kPacketBytes; size -= kPacketBytes, bytes += kPacketBytes) {
    low.Update(Load(bytes));
    high.Update(Load(bytes + kPacketBytes / 2));
  }
  if (size > 0) {
    // The last packet has its whole words at its beginning. The other bytes follow at its end, or
    // in the middle if there are fewer than four words.
    HWY_ALIGN uint8_t packet[kPacketBytes] = {};
    const size_t words = size & ~size_t{3};
    const size_t rest = size & 3;
    std::memcpy(packet, bytes, words);
    if (size >= 16) {
      std::memcpy(packet + kPacketBytes - 4, bytes + size - 4, 4);
    } else if (rest > 0) {
      packet[16] = bytes[words];
      packet[17] = bytes[words + rest / 2];
      packet[18] = bytes[size - 1];
    }
    low.AddSize(size);
    high.AddSize(size);
    low.Update(Load(packet));
    high.Update(Load(packet + kPacketBytes / 2));
  }
  for (int round = 0; round < kFinalRounds; ++round) {
    const V64 to_high = Rotate32(low.v0);
    low.Update(Rotate32(high.v0));
    high.Update(to_high);
  }
  return FirstLane(Add(Add(low.v0, low.v1), Add(low.mul0, low.mul1)));
}

}  // namespace HWY_NAMESPACE
}  // namespace shardfeed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace shardfeed {

HWY_EXPORT(Hash);

uint64_t HighwayHash64(const HighwayHashKey& key, std::string_view bytes) {
  return HWY_DYNAMIC_DISPATCH(Hash)(key.data(), reinterpret_cast<const uint8_t*>(bytes.data()),
                                    bytes.size());
}

}  // namespace shardfeed

#endif  // HWY_ONCE
