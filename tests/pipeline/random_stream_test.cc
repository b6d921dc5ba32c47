// Steps that draw at random are independent of one another, on the CPU and for the GPU, although
// they all have the same seed.

#include "pipeline/data/random_stream.h"

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/normalize.h"
#include "fmt/format.h"
#include "opencv2/imgcodecs.hpp"
#include "pipeline/dataset.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

constexpr int64_t kRows = 4000;
constexpr uint64_t kSeed = 0;
constexpr int64_t kSide = 16;

// One number per row, or per pair of rows.
using Draws = std::vector<double>;

Dataset Rows() { return Dataset::Range(0, kRows, 1, "number"); }

std::vector<Batch> Run(const Dataset& ds) {
  std::vector<Batch> batches;
  auto it = ds.Start({.threads = 2});
  EXPECT_OK(it);
  while (it.ok()) {
    Batch batch;
    const absl::Status status = (*it)->Next(&batch);
    EXPECT_OK(status);
    if (!status.ok() || batch.empty()) break;
    batches.push_back(std::move(batch));
  }
  return batches;
}

// The result of `number_of` for each row.
Draws OfRows(const Dataset& ds, const std::function<double(const Batch&, size_t)>& number_of) {
  Draws draws;
  for (const Batch& batch : Run(ds)) {
    for (size_t row = 0; row < batch.rows; ++row) draws.push_back(number_of(batch, row));
  }
  return draws;
}

// 1 for each number that `ds` delivers, else 0.
Draws Delivered(const Dataset& ds) {
  Draws draws(kRows, 0);
  for (const Batch& batch : Run(ds)) {
    for (int64_t number : batch.Values<int64_t>(batch.Find("number"))) draws[number] = 1;
  }
  return draws;
}

// Adds a column of images whose pixels grow from left to right.
Dataset WithImage(const Dataset& ds) {
  return ds.Map({{"image", DType::kUInt8, {kSide, kSide, 3}}}, [](RowContext& row) {
    size_t i = 0;
    for (uint8_t& value : row.Out<uint8_t>(0)) value = static_cast<uint8_t>(i++ / 3 % kSide * 8);
    return absl::OkStatus();
  });
}

Dataset WithPng(const Dataset& ds) {
  cv::Mat image(kSide, kSide, CV_8UC3);
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) image.at<cv::Vec3b>(y, x) = cv::Vec3b::all(x * 8);
  }
  std::vector<uint8_t> png;
  cv::imencode(".png", image, png);
  return ds.Map({{"encoded", DType::kBytes, {}}},
                [png = std::string(png.begin(), png.end())](RowContext& row) {
                  row.Out<std::string_view>(0)[0] = png;
                  return absl::OkStatus();
                });
}

double Mean(const Batch& batch, size_t row) {
  double sum = 0;
  const auto pixels = batch.Row<uint8_t>(batch.Find("image"), row);
  for (uint8_t value : pixels) sum += value;
  return sum / static_cast<double>(pixels.size());
}

double IsMirrored(const Batch& batch, size_t row) {
  const auto pixels = batch.Row<uint8_t>(batch.Find("image"), row);
  return pixels[0] > pixels[3 * (kSide - 1)] ? 1 : 0;
}

std::map<std::string, Draws> DrawsOfAllSteps() {
  std::map<std::string, Draws> all;
  for (int draw = 0; draw < 3; ++draw) {
    const Dataset ds = Rows().Map(
        {{"drawn", DType::kFloat64, {}}},
        [draw](RowContext& row) {
          for (int i = 0; i < draw; ++i) row.random().Uniform();
          row.Out<double>(0)[0] = row.random().Uniform();
          return absl::OkStatus();
        },
        {}, kSeed);
    all[fmt::format("map, draw {}", draw)] =
        OfRows(ds, [](const Batch& batch, size_t row) { return batch.Row<double>(1, row)[0]; });
  }
  all["filter"] =
      Delivered(Rows().Filter([](RowContext& row) { return row.random().Uniform() < 0.5; }, kSeed));

  DecodeImageOptions crop;
  crop.image.width = crop.image.height = kSide;
  crop.crop = CropKind::kRandom;
  crop.seed = kSeed;
  crop.output = "image";
  all["decode_image, crop"] = OfRows(WithPng(Rows()).DecodeImage("encoded", crop), Mean);
  DecodeImageOptions flip = crop;
  flip.flip = 0.5;
  all["decode_image, flip"] = OfRows(WithPng(Rows()).DecodeImage("encoded", flip), IsMirrored);
  flip.crop = CropKind::kNone;
  all["decode_image, flip alone"] =
      OfRows(WithPng(Rows()).DecodeImage("encoded", flip), IsMirrored);

  all["augment, flip"] =
      OfRows(WithImage(Rows()).Augment("image", {augment::RandomHorizontalFlip{.p = 0.5}}, kSeed),
             IsMirrored);
  all["augment, brightness"] = OfRows(
      WithImage(Rows()).Augment("image", {augment::ColorJitter{.brightness = {0.5, 1.5}}}, kSeed),
      Mean);

  // The label of a row of class 1 after one of class 0 is the batch's lambda.
  const Dataset labels = WithImage(Rows()).Map({{"label", DType::kInt64, {}}}, [](RowContext& row) {
    row.Out<int64_t>(0)[0] = row.In<int64_t>(0)[0] % 2;
    return absl::OkStatus();
  });
  for (const Batch& batch : Run(labels.Batch(2).MixUp("image", "label", 2, 1, kSeed))) {
    all["mixup"].push_back(batch.Row<float>(batch.Find("label"), 1)[1]);
  }
  for (const Batch& batch : Run(labels.Batch(2).CutMix("image", "label", 2, 1, kSeed))) {
    all["cutmix"].push_back(batch.Row<float>(batch.Find("label"), 1)[1]);
  }

  all["mix"] = OfRows(
      Dataset::Mix({Rows(), Dataset::Range(kRows, 2 * kRows, 1, "number")}, {1, 1}, kSeed)
          .Take(kRows),
      [](const Batch& batch, size_t row) { return batch.Row<int64_t>(0, row)[0] < kRows ? 0 : 1; });
  all["rejection_resample"] = Delivered(Rows().RejectionResample(
      [](RowContext&) { return int64_t{1}; }, {0.5, 0.25}, {0.5, 0.5}, kSeed));
  all["slices"] = OfRows(Dataset::Slices(std::vector<uint64_t>(kRows, 1), kSeed, 0, 1),
                         [](const Batch& batch, size_t row) {
                           return static_cast<double>(batch.Row<int64_t>(0, row)[0]);
                         });
  all["shuffle"] = OfRows(Rows().Shuffle(kSeed, 500), [](const Batch& batch, size_t row) {
    return static_cast<double>(batch.Row<int64_t>(0, row)[0] % 500);
  });

  Normalize normalize;
  normalize.flip = 0.5;
  normalize.seed = kSeed;
  for (const Batch& batch : Run(WithImage(Rows()).Batch(100))) {
    const ColumnSpec column = (*batch.spec)[batch.Find("image")];
    std::vector<uint8_t> flips;
    float lambda = 1;
    EXPECT_OK(MakeNormalizeArgs(column, normalize, batch, &flips, &lambda));
    all["device, flip"].insert(all["device, flip"].end(), flips.begin(), flips.end());
  }
  normalize.flip = 0;
  normalize.mixing = Mixing::kMixup;
  for (const Batch& batch : Run(WithImage(Rows()).Batch(2))) {
    const ColumnSpec column = (*batch.spec)[batch.Find("image")];
    std::vector<uint8_t> flips;
    float lambda = 1;
    EXPECT_OK(MakeNormalizeArgs(column, normalize, batch, &flips, &lambda));
    all["device, mixing"].push_back(lambda);
  }
  return all;
}

// For the rows that both have: those with even numbers, if one has a number for two rows.
double Correlation(const Draws& a, const Draws& b) {
  const size_t n = std::min(a.size(), b.size());
  double sum_a = 0, sum_b = 0, sum_aa = 0, sum_bb = 0, sum_ab = 0;
  for (size_t i = 0; i < n; ++i) {
    const double x = a[i * (a.size() / n)];
    const double y = b[i * (b.size() / n)];
    sum_a += x, sum_b += y, sum_aa += x * x, sum_bb += y * y, sum_ab += x * y;
  }
  const auto count = static_cast<double>(n);
  return (count * sum_ab - sum_a * sum_b) /
         std::sqrt((count * sum_aa - sum_a * sum_a) * (count * sum_bb - sum_b * sum_b));
}

TEST(RandomStreamTest, StepsOfOneSeedDrawIndependently) {
  const std::map<std::string, Draws> all = DrawsOfAllSteps();
  ASSERT_EQ(all.size(), 17);
  for (auto a = all.begin(); a != all.end(); ++a) {
    ASSERT_TRUE(a->second.size() == kRows || a->second.size() == kRows / 2) << a->first;
    EXPECT_NEAR(Correlation(a->second, a->second), 1, 1e-9) << a->first;
    for (auto b = std::next(a); b != all.end(); ++b) {
      // One step, with and without a crop before its flip.
      if (a->first == "decode_image, flip" && b->first == "decode_image, flip alone") continue;
      // The standard deviation for 2,000 independent pairs is 0.022.
      EXPECT_NEAR(Correlation(a->second, b->second), 0, 0.09) << a->first << "; " << b->first;
    }
  }
}

TEST(RandomStreamTest, StepsOfOneKindAndSeedDrawTheSame) {
  const auto drawn = [](RowContext& row) {
    row.Out<double>(0)[0] = row.random().Uniform();
    return absl::OkStatus();
  };
  const Dataset ds = Rows()
                         .Take(10)
                         .Map({{"a", DType::kFloat64, {}}}, drawn, {}, 5)
                         .Map({{"b", DType::kFloat64, {}}}, drawn, {}, 5)
                         .Map({{"c", DType::kFloat64, {}}}, drawn, {}, 6);
  const Draws differences = OfRows(ds, [](const Batch& batch, size_t row) {
    return batch.Row<double>(1, row)[0] - batch.Row<double>(2, row)[0];
  });
  EXPECT_EQ(differences, Draws(10, 0));
  const Draws others = OfRows(ds, [](const Batch& batch, size_t row) {
    return batch.Row<double>(1, row)[0] == batch.Row<double>(3, row)[0];
  });
  EXPECT_EQ(others, Draws(10, 0));
}

}  // namespace
}  // namespace shardfeed
