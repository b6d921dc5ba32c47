#include "pipeline/stages/mixup.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "decode/features/float16.h"
#include "pipeline/dataset.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

// Row i is an image of values i * 10 with the label i mod 4.
Dataset Images(int64_t rows, DType dtype, std::vector<int64_t> shape) {
  return Dataset::Range(0, rows).Map({{"image", dtype, shape}, {"label", DType::kInt64, {}}},
                                     [dtype](RowContext& row) {
                                       const int64_t i = row.In<int64_t>(0)[0];
                                       const float value = static_cast<float>(i) * 10;
                                       if (dtype == DType::kUInt8) {
                                         for (uint8_t& v : row.Out<uint8_t>(0))
                                           v = static_cast<uint8_t>(value);
                                       } else if (dtype == DType::kFloat32) {
                                         for (float& v : row.Out<float>(0)) v = value;
                                       } else {
                                         for (uint16_t& v : row.Out<uint16_t>(0)) {
                                           v = dtype == DType::kFloat16 ? ToFloat16(value)
                                                                        : ToBFloat16(value);
                                         }
                                       }
                                       row.Out<int64_t>(1)[0] = i % 4;
                                       return absl::OkStatus();
                                     },
                                     {"value"});
}

std::vector<Batch> Collect(const Dataset& ds, int threads = 2) {
  std::vector<Batch> batches;
  auto it = ds.Start({.threads = threads});
  EXPECT_OK(it);
  while (it.ok()) {
    Batch batch;
    EXPECT_OK((*it)->Next(&batch));
    if (batch.empty()) break;
    batches.push_back(std::move(batch));
  }
  return batches;
}

template <typename T>
std::vector<T> Values(const Batch& batch, size_t column) {
  const auto values = batch.Values<T>(column);
  return {values.begin(), values.end()};
}

TEST(MixUpTest, FiguresAreThoseOfTorchvision) {
  const Dataset ds = Images(8, DType::kFloat32, {2, 2, 3}).Batch(3).MixUp("image", "label", 4, 0.4);
  EXPECT_EQ(RowSpecText(ds.spec()), "image: float32 [2, 2, 3], label: float32 [4]");
  const std::vector<Batch> batches = Collect(ds);
  ASSERT_EQ(batches.size(), 3);
  size_t first = 0;
  std::vector<float> lambdas;
  for (const Batch& batch : batches) {
    const size_t n = batch.rows;
    // The lambda of the second row, whose partner has another label.
    const float lambda = batch.Row<float>(1, 1)[(first + 1) % 4];
    lambdas.push_back(lambda);
    const float rest = batch.Row<float>(1, 1)[first % 4];
    EXPECT_NEAR(lambda + rest, 1, 1e-6);
    for (size_t r = 0; r < n; ++r) {
      const size_t own = first + r;
      const size_t partner = first + (r + n - 1) % n;
      // As torchvision computes it: two products, then the sum.
      const float a = static_cast<float>(partner) * 10 * rest;
      const float b = static_cast<float>(own) * 10 * lambda;
      for (float value : batch.Row<float>(0, r)) EXPECT_THAT(value, FloatEq(a + b));
      std::vector<float> label(4);
      label[own % 4] += lambda;
      label[partner % 4] += rest;
      for (int k = 0; k < 4; ++k) EXPECT_NEAR(batch.Row<float>(1, r)[k], label[k], 1e-6);
    }
    first += n;
  }
  EXPECT_NE(lambdas[0], lambdas[1]);
}

TEST(MixUpTest, AllTypesOfImages) {
  // The same random numbers are drawn, so that the labels give lambda.
  for (DType dtype : {DType::kUInt8, DType::kFloat16, DType::kBFloat16}) {
    const auto batches = Collect(Images(4, dtype, {5}).Batch(4).MixUp("image", "label", 4, 1, 9));
    ASSERT_EQ(batches.size(), 1);
    const float lambda = batches[0].Row<float>(1, 1)[1];
    const float rest = batches[0].Row<float>(1, 1)[0];
    for (size_t r = 0; r < 4; ++r) {
      const float value =
          static_cast<float>((r + 3) % 4) * 10 * rest + static_cast<float>(r) * 10 * lambda;
      if (dtype == DType::kUInt8) {
        EXPECT_EQ(batches[0].Row<uint8_t>(0, r)[4], static_cast<int>(value + 0.5f));
      } else {
        EXPECT_EQ(batches[0].Row<uint16_t>(0, r)[4],
                  dtype == DType::kFloat16 ? ToFloat16(value) : ToBFloat16(value));
      }
    }
  }
}

TEST(CutMixTest, PastesOneRectangleOfThePartner) {
  constexpr int kHeight = 12;
  constexpr int kWidth = 10;
  for (const bool channels_first : {false, true}) {
    const std::vector<int64_t> shape = channels_first ? std::vector<int64_t>{3, kHeight, kWidth}
                                                      : std::vector<int64_t>{kHeight, kWidth, 3};
    const auto batches =
        Collect(Images(64, DType::kUInt8, shape).Batch(4).CutMix("image", "label", 4));
    ASSERT_EQ(batches.size(), 16);
    std::set<float> lambdas;
    for (size_t b = 0; b < batches.size(); ++b) {
      const Batch& batch = batches[b];
      const auto at = [&](size_t row, int c, int y, int x) {
        const auto values = batch.Row<uint8_t>(0, row);
        return values[channels_first ? (c * kHeight + y) * kWidth + x : (y * kWidth + x) * 3 + c];
      };
      int top = kHeight;
      int left = kWidth;
      int bottom = 0;
      int right = 0;
      for (size_t r = 0; r < 4; ++r) {
        const uint8_t own = static_cast<uint8_t>((4 * b + r) * 10);
        const uint8_t partner = static_cast<uint8_t>((4 * b + (r + 3) % 4) * 10);
        int pasted = 0;
        for (int y = 0; y < kHeight; ++y) {
          for (int x = 0; x < kWidth; ++x) {
            for (int c = 1; c < 3; ++c) ASSERT_EQ(at(r, c, y, x), at(r, 0, y, x));
            if (at(r, 0, y, x) == own) continue;
            ASSERT_EQ(at(r, 0, y, x), partner);
            ++pasted;
            top = std::min(top, y);
            left = std::min(left, x);
            bottom = std::max(bottom, y + 1);
            right = std::max(right, x + 1);
          }
        }
        // All rows have the same rectangle, and its area matches the label.
        EXPECT_EQ(pasted, std::max(0, bottom - top) * std::max(0, right - left));
        const float lambda = static_cast<float>(1 - pasted / (1.0 * kHeight * kWidth));
        EXPECT_NEAR(batch.Row<float>(1, r)[r], lambda, 1e-6);
        EXPECT_NEAR(batch.Row<float>(1, r)[(r + 3) % 4], 1 - lambda, 1e-6);
        lambdas.insert(lambda);
      }
    }
    EXPECT_GT(lambdas.size(), 8);
  }
}

TEST(MixUpTest, RepeatsForAnyNumberOfThreadsAndAfterAResume) {
  const Dataset ds = Images(40, DType::kUInt8, {8, 8, 3})
                         .Batch(4)
                         .CutMix("image", "label", 4, 1, 1)
                         .MixUp("image", "label", 4, 0.2, 2);
  EXPECT_THAT(ds.Text(), HasSubstr(".cutmix(image, label, num_classes=4, alpha=1, seed=1)"
                                   ".mixup(image, label, num_classes=4, alpha=0.2, seed=2)"));
  std::vector<std::vector<uint8_t>> all;
  for (const Batch& batch : Collect(ds, 1)) all.push_back(Values<uint8_t>(batch, 0));
  ASSERT_EQ(all.size(), 10);
  auto it = ds.Start({.threads = 4});
  ASSERT_OK(it);
  for (size_t i = 0; i < 6; ++i) {
    Batch batch;
    ASSERT_OK((*it)->Next(&batch));
    EXPECT_EQ(Values<uint8_t>(batch, 0), all[i]);
  }
  auto resumed = ds.Start({.threads = 2});
  ASSERT_OK((*resumed)->LoadStateDict(*(*it)->StateDict()));
  for (size_t i = 6; i < 10; ++i) {
    Batch batch;
    ASSERT_OK((*resumed)->Next(&batch));
    EXPECT_EQ(Values<uint8_t>(batch, 0), all[i]);
  }
}

TEST(MixUpTest, TheBatchThatCameInIsNotChanged) {
  auto it = Images(4, DType::kUInt8, {2, 2, 1}).Batch(4).Start();
  Batch batch;
  ASSERT_OK((*it)->Next(&batch));
  const std::vector<uint8_t> before = Values<uint8_t>(batch, 0);
  Batch mixed = batch;
  ASSERT_OK(MakeMixFn({.image = 0, .label = 1, .num_classes = 4})(mixed));
  EXPECT_EQ(Values<uint8_t>(batch, 0), before);
  EXPECT_EQ(Values<int64_t>(batch, 1), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(MixUpTest, OneRowIsItsOwnPartner) {
  const auto batches =
      Collect(Images(2, DType::kUInt8, {3}).Skip(1).Batch(1).MixUp("image", "label", 2));
  ASSERT_EQ(batches.size(), 1);
  EXPECT_THAT(Values<uint8_t>(batches[0], 0), ElementsAre(10, 10, 10));
  EXPECT_THAT(batches[0].Row<float>(1, 0)[1], FloatEq(1));
}

TEST(MixUpTest, LambdaIsOfABetaDistribution) {
  for (double alpha : {0.01, 0.2, 1.0, 4.0}) {
    Random random(3);
    constexpr int kDraws = 100000;
    double mean = 0;
    double square = 0;
    int low = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = DrawBeta(alpha, random);
      ASSERT_TRUE(x >= 0 && x <= 1) << x;
      mean += x / kDraws;
      square += (x - 0.5) * (x - 0.5) / kDraws;
      low += x < 0.25;
    }
    EXPECT_NEAR(mean, 0.5, 0.008) << alpha;
    EXPECT_NEAR(square, 1 / (4 * (2 * alpha + 1)), 0.003) << alpha;
    if (alpha == 1) {
      EXPECT_NEAR(low, kDraws / 4, 700);
    } else if (alpha == 4) {
      EXPECT_NEAR(low, 0.0706 * kDraws, 450);  // the incomplete beta function at 1/4
    }
  }
}

TEST(MixUpTest, WhatCannotBeIsRefused) {
  const Dataset rows = Images(4, DType::kUInt8, {2, 2, 3});
  const Dataset ds = rows.Batch(2);
  EXPECT_FAILS(rows.MixUp("image", "label", 4).status(), kInvalidArgument,
               "mixup: expected batches, but the elements here are rows: batch first");
  EXPECT_FAILS(ds.CutMix("photo", "label", 4).status(), kInvalidArgument,
               "cutmix: there is no column 'photo'; there are: image: uint8 [2, 2, 3]");
  EXPECT_FAILS(ds.MixUp("image", "label", 0).status(), kInvalidArgument,
               "mixup: num_classes must be at least 1, got 0");
  EXPECT_FAILS(ds.MixUp("image", "label", 4, 0).status(), kInvalidArgument,
               "alpha must be positive and finite, got 0");
  EXPECT_FAILS(ds.MixUp("label", "image", 4).status(), kInvalidArgument,
               "images must be uint8, float16, bfloat16 or float32 and of one size, got label: "
               "int64");
  EXPECT_FAILS(ds.MixUp("image", "image", 4).status(), kInvalidArgument,
               "must be different columns");
  EXPECT_FAILS(Images(4, DType::kUInt8, {4}).Batch(2).CutMix("image", "label", 4).status(),
               kInvalidArgument, "images must be [height, width, channels] or");
  EXPECT_FAILS(ds.MixUp("image", "label", 4).MixUp("image", "label", 5).status(), kInvalidArgument,
               "labels must be numbers of classes (uint8, int32 or int64) or float32 [5], got "
               "label: float32 [4]");
  auto it = ds.MixUp("image", "label", 3).Start();
  Batch batch;
  ASSERT_OK((*it)->Next(&batch));
  EXPECT_FAILS((*it)->Next(&batch), kInvalidArgument,
               "row 1 of the batch has the label 3, but there are 3 classes, numbered from 0");
}

}  // namespace
}  // namespace shardfeed
