// Tests images that are normalized, flipped and mixed on the device.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "decode/features/float16.h"
#include "gtest/gtest.h"
#include "shardfeed/cuda.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/cuda/device_iterator_fixture.h"

namespace shardfeed::testing {
namespace {

class NormalizeTest : public DeviceIteratorFixture {};

constexpr int64_t kHeight = 5;
constexpr int64_t kWidth = 7;

uint8_t Pixel(int64_t row, int64_t i) { return static_cast<uint8_t>(row * 37 + i * 11); }

Dataset Images(int64_t rows, int64_t channels) {
  return Dataset::Range(0, rows).Map({{"image", DType::kUInt8, {kHeight, kWidth, channels}}},
                                     [](RowContext& row) {
                                       const int64_t value = row.In<int64_t>(0)[0];
                                       int64_t i = 0;
                                       for (uint8_t& out : row.Out<uint8_t>(0))
                                         out = Pixel(value, i++);
                                       return absl::OkStatus();
                                     },
                                     {"value"});
}

float Value(DType dtype, const std::vector<uint8_t>& bytes, size_t i) {
  if (dtype == DType::kFloat32) {
    float value;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes.data() + 2 * i, 2);
  if (dtype == DType::kBFloat16) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  const int exponent = bits >> 10 & 31;
  const float mantissa = static_cast<float>(bits & 1023);
  const float size =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

struct ImagesRead {
  std::vector<float> values;
  std::vector<uint8_t> bytes;
  float lambda = 1;
};

ImagesRead ReadImages(const DeviceBatch& batch, TestStream& stream) {
  const DeviceTensor& tensor = batch.tensors[0];
  size_t count = 1;
  for (int64_t n : tensor.shape) count *= static_cast<size_t>(n);
  const auto bytes = stream.Read<uint8_t>(tensor.data, count * DTypeSize(tensor.dtype));
  stream.Wait();
  ImagesRead read = {{}, *bytes, tensor.lam};
  for (size_t i = 0; i < count; ++i) read.values.push_back(Value(tensor.dtype, *bytes, i));
  return read;
}

TEST_F(NormalizeTest, ImagesAreNormalized) {
  const std::vector<float> mean = {0.4f, 0.5f, 0.6f, 0.1f};
  const std::vector<float> stddev = {0.2f, 0.25f, 0.3f, 1.5f};
  for (int64_t channels : {1, 3, 4}) {
    for (DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
      for (ImageLayout layout : {ImageLayout::kNCHW, ImageLayout::kNHWC}) {
        Normalize how;
        how.dtype = dtype;
        how.layout = layout;
        how.mean.assign(mean.begin(), mean.begin() + channels);
        how.std.assign(stddev.begin(), stddev.begin() + channels);
        auto it = Start(Images(5, channels).Batch(3), {.normalize = {{"image", how}}});
        TestStream stream(device_);
        int64_t first = 0;
        for (DeviceBatch batch; it->Next(&batch, stream.get()).ok() && !batch.empty();) {
          const bool planar = layout == ImageLayout::kNCHW;
          const auto rows = static_cast<int64_t>(batch.rows);
          EXPECT_EQ(batch.tensors[0].shape,
                    planar ? (std::vector<int64_t>{rows, channels, kHeight, kWidth})
                           : (std::vector<int64_t>{rows, kHeight, kWidth, channels}));
          EXPECT_EQ(batch.tensors[0].dtype, dtype);
          const ImagesRead read = ReadImages(batch, stream);
          for (int64_t n = 0; n < rows; ++n) {
            for (int64_t p = 0; p < kHeight * kWidth; ++p) {
              for (int64_t c = 0; c < channels; ++c) {
                const int64_t at = planar ? (n * channels + c) * kHeight * kWidth + p
                                          : (n * kHeight * kWidth + p) * channels + c;
                const float x = Pixel(first + n, p * channels + c);
                const float want = std::fmaf(x, static_cast<float>(1 / (255.0 * stddev[c])),
                                             static_cast<float>(-double(mean[c]) / stddev[c]));
                const float have = read.values[at];
                if (dtype == DType::kFloat32) {
                  ASSERT_EQ(have, want);
                } else if (dtype == DType::kFloat16) {
                  uint16_t bits;
                  std::memcpy(&bits, read.bytes.data() + 2 * at, 2);
                  ASSERT_EQ(bits, ToFloat16(want));
                } else {
                  uint16_t bits;
                  std::memcpy(&bits, read.bytes.data() + 2 * at, 2);
                  ASSERT_EQ(bits, ToBFloat16(want));
                }
              }
            }
          }
          first += rows;
        }
        EXPECT_EQ(first, 5);
      }
    }
  }
}

// Reads float32 images, channels last, in steps of 1/255, so that the bytes can be recovered.
std::vector<ImagesRead> Read(DeviceIterator& it, TestStream& stream) {
  std::vector<ImagesRead> all;
  for (DeviceBatch batch; it.Next(&batch, stream.get()).ok() && !batch.empty();) {
    all.push_back(ReadImages(batch, stream));
  }
  return all;
}

Normalize Plain() { return {.dtype = DType::kFloat32, .layout = ImageLayout::kNHWC}; }

TEST_F(NormalizeTest, FlipsDependOnTheRowAlone) {
  Normalize how = Plain();
  how.flip = 0.5;
  how.seed = 3;
  TestStream stream(device_);
  std::vector<std::vector<bool>> flips;
  for (uint64_t size : {4, 7}) {
    auto it = Start(Images(40, 3).Batch(size), {.normalize = {{"image", how}}});
    std::vector<bool>& flipped = flips.emplace_back();
    int64_t row = 0;
    for (const ImagesRead& read : Read(*it, stream)) {
      for (size_t at = 0; at < read.values.size(); at += kHeight * kWidth * 3, ++row) {
        const auto pixel = [&](int64_t y, int64_t x, int64_t c) {
          return std::lround(read.values[at + (y * kWidth + x) * 3 + c] * 255);
        };
        flipped.push_back(pixel(0, 0, 0) != Pixel(row, 0));
        for (int64_t x = 0; x < kWidth; ++x) {
          const int64_t from = flipped.back() ? kWidth - 1 - x : x;
          ASSERT_EQ(pixel(2, x, 1), Pixel(row, (2 * kWidth + from) * 3 + 1));
        }
      }
    }
    EXPECT_EQ(row, 40);
  }
  EXPECT_EQ(flips[0], flips[1]);
  const auto flipped = std::count(flips[0].begin(), flips[0].end(), true);
  EXPECT_GT(flipped, 8);
  EXPECT_LT(flipped, 32);
}

TEST_F(NormalizeTest, RowsOfACacheAreFlippedAnewEachEpoch) {
  Normalize how = Plain();
  how.flip = 0.5;
  how.mixing = Mixing::kMixup;
  TestStream stream(device_);
  auto it = Start(Images(40, 3).Cache().Repeat(2).Batch(40), {.normalize = {{"image", how}}});
  const std::vector<ImagesRead> epochs = Read(*it, stream);
  ASSERT_EQ(epochs.size(), 2);
  EXPECT_NE(epochs[0].bytes, epochs[1].bytes);
  EXPECT_NE(epochs[0].lambda, epochs[1].lambda);
}

TEST_F(NormalizeTest, ImagesAreMixedWithTheRowBefore) {
  TestStream stream(device_);
  for (Mixing mixing : {Mixing::kMixup, Mixing::kCutmix}) {
    Normalize how = Plain();
    how.mixing = mixing;
    how.seed = 5;
    const Dataset ds = Images(12, 3).Batch(4);
    auto it = Start(ds, {.normalize = {{"image", how}}});
    const std::vector<ImagesRead> all = Read(*it, stream);
    ASSERT_EQ(all.size(), 3);
    EXPECT_NE(all[0].lambda, all[1].lambda);
    const int64_t values = kHeight * kWidth * 3;
    for (size_t b = 0; b < all.size(); ++b) {
      const float lambda = all[b].lambda;
      EXPECT_GE(lambda, 0);
      EXPECT_LE(lambda, 1);
      for (int64_t r = 0; r < 4; ++r) {
        const auto row = static_cast<int64_t>(4 * b) + r;
        const int64_t partner = static_cast<int64_t>(4 * b) + (r + 3) % 4;
        int64_t own = 0;
        for (int64_t i = 0; i < values; ++i) {
          const float have = all[b].values[r * values + i] * 255;
          const float x = Pixel(row, i);
          const float y = Pixel(partner, i);
          if (mixing == Mixing::kMixup) {
            ASSERT_NEAR(have, lambda * x + (1 - lambda) * y, 1e-3);
          } else {
            ASSERT_TRUE(std::lround(have) == x || std::lround(have) == y);
            own += std::lround(have) == x ? 1 : 0;
          }
        }
        if (mixing == Mixing::kCutmix) {
          EXPECT_NEAR(own, lambda * values, 0.5);
        }
      }
    }
    // The same after resuming from a state.
    auto again = Start(ds, {.normalize = {{"image", how}}});
    DeviceBatch batch;
    ASSERT_OK(again->Next(&batch, stream.get()));
    const auto state = again->StateDict();
    ASSERT_OK(state);
    auto resumed = Start(ds, {.normalize = {{"image", how}}});
    ASSERT_OK(resumed->LoadStateDict(*state));
    const std::vector<ImagesRead> rest = Read(*resumed, stream);
    ASSERT_EQ(rest.size(), 2);
    EXPECT_EQ(rest[0].bytes, all[1].bytes);
    EXPECT_EQ(rest[1].lambda, all[2].lambda);
  }
}

TEST_F(NormalizeTest, NormalizeThatCannotBeIsAnError) {
  const auto error = [&](auto change) {
    Normalize how;
    change(how);
    return StartError(Images(4, 3).Batch(2), {.normalize = {{"image", how}}});
  };
  EXPECT_FAILS(error([](Normalize& n) { n.dtype = DType::kInt32; }), kInvalidArgument,
               "dtype must be float16, bfloat16 or float32, got int32");
  EXPECT_FAILS(error([](Normalize& n) {
                 n.mean = {1, 2};
               }),
               kInvalidArgument, "mean has 2 values, but the images have 3 channels");
  EXPECT_FAILS(error([](Normalize& n) { n.std = {0}; }), kInvalidArgument,
               "std has 0, expected a number above 0");
  EXPECT_FAILS(error([](Normalize& n) { n.flip = 2; }), kInvalidArgument,
               "flip must be in [0, 1], got 2");
  EXPECT_FAILS(error([](Normalize& n) {
                 n.mixing = Mixing::kMixup;
                 n.mix_alpha = 0;
               }),
               kInvalidArgument, "mix_alpha is 0, expected a finite number above 0");
}

}  // namespace
}  // namespace shardfeed::testing
