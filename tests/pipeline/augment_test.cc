#include "pipeline/rows/augment.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "pipeline/dataset.h"
#include "tests/testing/files.h"

namespace shardfeed::augment {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Rows of images that differ from row to row.
Dataset Images(int64_t rows, int64_t height = 20, int64_t width = 24, int64_t channels = 3) {
  return Dataset::Range(0, rows).Map({{"image", DType::kUInt8, {height, width, channels}}},
                                     [](RowContext& row) {
                                       Random random(row.In<int64_t>(0)[0]);
                                       for (uint8_t& value : row.Out<uint8_t>(0))
                                         value = static_cast<uint8_t>(random());
                                       return absl::OkStatus();
                                     });
}

// (With vectors, g++ 12 warns of comparisons that do not exist.)
using Image = std::basic_string<uint8_t>;

std::vector<Image> Collect(Iterator& it, size_t most = SIZE_MAX) {
  std::vector<Image> images;
  while (images.size() < most) {
    Batch batch;
    EXPECT_OK(it.Next(&batch));
    if (batch.empty()) break;
    const int image = batch.Find("image");
    for (size_t r = 0; r < batch.rows; ++r) {
      const auto row = batch.Row<uint8_t>(image, r);
      images.emplace_back(row.begin(), row.end());
    }
  }
  return images;
}

std::vector<Image> Collect(const Dataset& ds, int threads = 2) {
  auto it = ds.Start({.threads = threads});
  EXPECT_OK(it);
  return it.ok() ? Collect(**it) : std::vector<Image>();
}

std::vector<Augmentation> Everything() {
  return {ColorJitter{.brightness = {0.6, 1.4},
                      .contrast = {0.6, 1.4},
                      .saturation = {0.6, 1.4},
                      .hue = {-0.1, 0.1}},
          RandomGrayscale{},
          GaussianBlur{.kernel_size = {5, 3}},
          RandomHorizontalFlip{},
          RandomVerticalFlip{},
          Pad{.padding = {1, 2, 3, 4}, .padding_mode = PaddingMode::kReflect},
          RandomRotation{.degrees = {-30, 30}},
          RandomAffine{.degrees = {-10, 10},
                       .translate = {0.1, 0.2},
                       .scale = {0.8, 1.2},
                       .shear = {{{-5, 5}, {-5, 5}}},
                       .interpolation = Sampling::kBilinear},
          RandomPerspective{},
          RandomInvert{},
          RandomPosterize{},
          RandomSolarize{},
          RandomAutocontrast{},
          RandomEqualize{},
          RandomAdjustSharpness{},
          RandAugment{},
          TrivialAugmentWide{},
          RandomApply{{RandomInvert{.p = 1}}},
          RandomErasing{.random_value = true}};
}

TEST(AugmentTest, RepeatsForAnyNumberOfThreadsAndAfterAResume) {
  const Dataset ds = Images(64).Augment("image", Everything(), 5).Batch(8);
  EXPECT_EQ(RowSpecText(ds.spec()), "value: int64, image: uint8 [26, 28, 3]");
  const std::vector<Image> all = Collect(ds, 1);
  ASSERT_EQ(all.size(), 64);
  EXPECT_EQ(std::set<Image>(all.begin(), all.end()).size(), 64);
  EXPECT_EQ(Collect(ds, 4), all);
  auto it = ds.Start({.threads = 3});
  ASSERT_OK(it);
  EXPECT_EQ(Collect(**it, 24).size(), 24);
  const auto state = (*it)->StateDict();
  ASSERT_OK(state);
  auto resumed = ds.Start({.threads = 2});
  ASSERT_OK((*resumed)->LoadStateDict(*state));
  EXPECT_EQ(Collect(**resumed), std::vector<Image>(all.begin() + 24, all.end()));
  // Another seed or another epoch gives other images.
  EXPECT_NE(Collect(Images(64).Augment("image", Everything(), 6).Batch(8)), all);
  const std::vector<Image> two =
      Collect(Images(8).Augment("image", {RandAugment{}}, 5).Batch(8).Repeat(2));
  EXPECT_NE(std::vector<Image>(two.begin(), two.begin() + 8),
            std::vector<Image>(two.begin() + 8, two.end()));
}

TEST(AugmentTest, GrayImagesToo) {
  EXPECT_EQ(Collect(Images(8, 20, 24, 1).Augment("image", Everything()).Batch(4)).size(), 8);
}

TEST(AugmentTest, StepsFollowEachOther) {
  // The input is not modified, although the second step works in the first one's memory.
  const Dataset ds = Images(4);
  const std::vector<Image> plain = Collect(ds);
  const Dataset flipped = ds.Augment("image", {RandomHorizontalFlip{.p = 1}})
                              .Augment("image", {RandomHorizontalFlip{.p = 1}}, 1);
  EXPECT_EQ(Collect(flipped.Batch(3)), plain);
  auto it = ds.Batch(4).Start();
  Batch batch;
  ASSERT_OK((*it)->Next(&batch));
  const Dataset rows = Dataset::FromArrays(batch);
  EXPECT_NE(Collect(rows.Augment("image", {RandomInvert{.p = 1}})), plain);
  EXPECT_EQ(Collect(rows), plain);
  EXPECT_EQ(Collect(rows.Augment("image", {})), plain);
}

TEST(AugmentTest, TextAndFingerprintHaveAllParameters) {
  const Dataset ds = Images(4);
  const Dataset a =
      ds.Augment("image", {ColorJitter{.hue = {-0.1, 0.1}}, RandomErasing{.p = 0.25}}, 3);
  EXPECT_THAT(a.Text(),
              HasSubstr(".augment(image, [ColorJitter(brightness=[1, 1], contrast=[1, 1], "
                        "saturation=[1, 1], hue=[-0.1, 0.1]), RandomErasing(p=0.25, "
                        "scale=[0.02, 0.33], ratio=[0.3, 3.3], value=[0])], seed=3)"));
  const auto fingerprint = [&](std::vector<Augmentation> steps, uint64_t seed = 0) {
    return *ds.Augment("image", std::move(steps), seed).Fingerprint();
  };
  const std::set<uint64_t> all = {
      fingerprint({RandAugment{}}),
      fingerprint({RandAugment{}}, 1),
      fingerprint({RandAugment{.magnitude = 8}}),
      fingerprint({RandAugment{.interpolation = Sampling::kBilinear}}),
      fingerprint({RandAugment{.fill = {1, 2, 3}}}),
      fingerprint({RandomAffine{.shear = {{{0, 1}, {0, 0}}}}}),
      fingerprint({RandomAffine{.shear = {{{0, 0}, {0, 1}}}}}),
      fingerprint({RandomApply{{RandomInvert{}}}}),
      fingerprint({RandomApply{{RandomInvert{.p = 0.25}}}}),
  };
  EXPECT_EQ(all.size(), 9);
}

TEST(AugmentTest, WhatCannotBeIsRefused) {
  const Dataset ds = Images(4);
  const auto expect = [&](Augmentation step, std::string_view text) {
    EXPECT_FAILS(ds.Augment("image", {RandomInvert{}, step}).status(), kInvalidArgument,
                 std::string(text));
  };
  expect(RandomHorizontalFlip{.p = 1.5},
         "augment: RandomHorizontalFlip(p=1.5): p must be from 0 to 1");
  expect(RandomInvert{.p = NAN}, "p must be from 0 to 1");
  expect(ColorJitter{.brightness = {-1, 1}},
         "brightness must be two numbers from 0 to 1000000 in ascending order");
  expect(ColorJitter{.contrast = {1, INFINITY}}, "contrast must be two numbers");
  expect(ColorJitter{.saturation = {2, 1}}, "saturation must be two numbers");
  expect(ColorJitter{.hue = {-0.6, 0}}, "hue must be two numbers from -0.5 to 0.5");
  expect(GaussianBlur{.kernel_size = {4, 3}}, "kernel_size must be odd and positive");
  expect(GaussianBlur{.kernel_size = {3, 41}},
         "half a kernel must be smaller than the image, which is 24 x 20");
  expect(GaussianBlur{.sigma = {0, 1}}, "sigma must be two numbers from 0.001 to 1000000");
  expect(RandomErasing{.scale = {0, 2}}, "scale must be two numbers from 0 to 1");
  expect(RandomErasing{.ratio = {0, 2}}, "ratio must be");
  expect(RandomErasing{.value = {1, 2}}, "value must be one number or, for these images, 3; got 2");
  expect(RandomErasing{.value = {300}}, "value must be from 0 to 255");
  expect(Pad{.padding = {-1, 0, 0, 0}}, "padding must be from 0 to 1048576");
  expect(Pad{.padding = {24, 0, 0, 0}, .padding_mode = PaddingMode::kReflect},
         "padding must be less than the image's size, 24 x 20");
  expect(Pad{.padding = {0, 21, 0, 0}, .padding_mode = PaddingMode::kSymmetric},
         "padding must be at most the image's size, 24 x 20");
  expect(RandomRotation{.degrees = {0, INFINITY}}, "degrees must be");
  expect(RandomRotation{.center = {{NAN, 0}}}, "center must be finite");
  expect(RandomAffine{.translate = {0, 2}}, "translate must be from 0 to 1");
  expect(RandomAffine{.scale = {0, 1}}, "scale must be");
  expect(RandomPerspective{.distortion_scale = 2}, "distortion_scale must be from 0 to 1");
  expect(RandomPosterize{.bits = 9}, "bits must be from 0 to 8");
  expect(RandomSolarize{.threshold = 256}, "threshold must be from 0 to 255");
  expect(RandomAdjustSharpness{.sharpness_factor = -1},
         "sharpness_factor must be from 0 to 1000000");
  expect(RandAugment{.num_ops = -1}, "num_ops must be from 0 to 1000");
  expect(RandAugment{.magnitude = 31}, "magnitude must be at least 0 and less than");
  expect(TrivialAugmentWide{.num_magnitude_bins = 1}, "num_magnitude_bins must be at least 2");
  expect(RandomApply{{RandomInvert{.p = 2}}}, "augment: RandomInvert(p=2): p must be");
  expect(RandomApply{{Pad{.padding = {1, 1, 1, 1}}}}, "must not be within RandomApply");
  EXPECT_FAILS(ds.Augment("photo", {}).status(), kInvalidArgument,
               "augment: there is no column 'photo'; there are: value: int64, image: uint8");
  EXPECT_FAILS(ds.Augment("value", {}).status(), kInvalidArgument,
               "expected uint8 images of [height, width, 1 or 3], got value: int64");
  EXPECT_FAILS(Images(1, 4, 4, 2).Augment("image", {}).status(), kInvalidArgument,
               "got image: uint8 [4, 4, 2]");
  EXPECT_FAILS(ds.Batch(2).Augment("image", {}).status(), kInvalidArgument,
               "augment: expected rows");
}

// ---- Columns that change with the image

// Rows of an image, its mask (the first channel), boxes (as many as the row's number, modulo 3)
// and their labels.
Dataset Annotated(int64_t rows) {
  return Images(rows).Map({{"mask", DType::kUInt8, {20, 24}},
                           {"boxes", DType::kFloat32, {4}, true},
                           {"labels", DType::kInt64, {}, true},
                           {"points", DType::kFloat32, {2, 2}}},
                          [](RowContext& row) {
                            const int64_t number = row.In<int64_t>(0)[0];
                            for (size_t i = 0; i < 20 * 24; ++i)
                              row.Out<uint8_t>(0)[i] = row.In<uint8_t>(1)[3 * i];
                            for (int64_t b = 0; b < number % 3; ++b) {
                              const float box[] = {2, 3, 10, static_cast<float>(8 + b)};
                              std::ranges::copy(box, row.Extend<float>(1, 1).begin());
                              row.Extend<int64_t>(2, 1)[0] = 10 * number + b;
                            }
                            const float points[] = {2, 3, 30, 3};
                            std::ranges::copy(points, row.Out<float>(3).begin());
                            return absl::OkStatus();
                          });
}

TEST(AugmentTest, ColumnsChangeWithTheImage) {
  const Dataset ds = Annotated(12).Augment("image", {RandomHorizontalFlip{.p = 1}}, 1,
                                           {.masks = {"mask"},
                                            .boxes = {"boxes"},
                                            .min_area = 44,
                                            .box_columns = {"labels"},
                                            .points = {"points"}});
  EXPECT_EQ(RowSpecText(ds.spec()),
            "value: int64, image: uint8 [20, 24, 3], mask: uint8 [20, 24], boxes: float32 ragged "
            "[4], points: float32 [2, 2], points/visible: uint8 [2], labels: int64 ragged");
  auto it = ds.Batch(12).Start({.threads = 3});
  ASSERT_OK(it);
  Batch batch;
  ASSERT_OK((*it)->Next(&batch));
  for (size_t r = 0; r < 12; ++r) {
    const auto image = batch.Row<uint8_t>(1, r);
    const auto mask = batch.Row<uint8_t>(2, r);
    for (size_t i = 0; i < mask.size(); ++i) ASSERT_EQ(mask[i], image[3 * i]);
    // The first box has 40 pixels, the second 48.
    const auto boxes = batch.Row<float>(3, r);
    const auto labels = batch.Row<int64_t>(6, r);
    ASSERT_EQ(boxes.size(), r % 3 == 2 ? 4 : 0);
    ASSERT_EQ(labels.size(), r % 3 == 2 ? 1 : 0);
    if (r % 3 == 2) {
      EXPECT_THAT(boxes, ElementsAre(14, 3, 22, 9));
      EXPECT_THAT(labels, ElementsAre(10 * r + 1));
    }
    EXPECT_THAT(batch.Row<float>(4, r), ElementsAre(22, 3, -6, 3));
    EXPECT_THAT(batch.Row<uint8_t>(5, r), ElementsAre(1, 0));
  }
}

TEST(AugmentTest, ColumnsThatCannotChangeAreRefused) {
  const Dataset ds = Annotated(1);
  EXPECT_FAILS(ds.Augment("image", {}, 0, {.masks = {"points"}}).status(), kInvalidArgument,
               "augment: masks: expected [20, 24] or [20, 24, channels] as the image, got points");
  EXPECT_FAILS(ds.Augment("image", {}, 0, {.boxes = {"labels"}}).status(), kInvalidArgument,
               "augment: boxes: expected a column with elements [4], or four columns, got labels");
  EXPECT_FAILS(ds.Augment("image", {}, 0, {.boxes = {"boxes"}, .min_area = NAN}).status(),
               kInvalidArgument, "augment: min_area must be a number of pixels, got nan");
}

// ---- Distributions of random numbers

// The largest difference between the distribution of `draws` and `cdf`.
template <typename Cdf>
double KolmogorovSmirnov(std::vector<double> draws, Cdf cdf) {
  std::sort(draws.begin(), draws.end());
  const double n = static_cast<double>(draws.size());
  double most = 0;
  for (size_t i = 0; i < draws.size(); ++i) {
    const double expected = cdf(draws[i]);
    most = std::max({most, std::abs(expected - static_cast<double>(i) / n),
                     std::abs(expected - static_cast<double>(i + 1) / n)});
  }
  return most;
}

// What `read` returns for each of `n` images that the steps made of `image`.
template <typename Read>
std::vector<double> Draws(std::vector<Augmentation> steps, const Image& image, int height,
                          int width, int channels, int n, Read read) {
  const auto augmenter = ImageAugmenter::Make(std::move(steps), height, width, channels);
  EXPECT_OK(augmenter);
  std::vector<double> draws;
  ImageAugmenter::Memory memory;
  Image to(image.size(), 0);
  for (int i = 0; i < n; ++i) {
    Random random(7, i);
    (*augmenter)->Run(image.data(), to.data(), random, &memory);
    draws.push_back(read(to));
  }
  return draws;
}

TEST(AugmentDistributionTest, Probabilities) {
  Image image = {0, 255};
  const auto share = [&](Augmentation step, auto read) {
    const std::vector<double> draws = Draws({step}, image, 1, 2, 1, 100000, read);
    double sum = 0;
    for (double draw : draws) sum += draw;
    return sum / 100000;
  };
  const auto changed = [&](const Image& to) { return std::ranges::equal(to, image) ? 0.0 : 1.0; };
  // Five standard deviations of 100,000 draws are below 0.008.
  EXPECT_NEAR(share(RandomHorizontalFlip{}, changed), 0.5, 0.008);
  EXPECT_NEAR(share(RandomHorizontalFlip{.p = 0.1}, changed), 0.1, 0.008);
  EXPECT_NEAR(share(RandomInvert{.p = 0.8}, changed), 0.8, 0.008);
  EXPECT_NEAR(share(RandomApply{{RandomInvert{.p = 0.5}}, 0.5}, changed), 0.25, 0.008);
  EXPECT_EQ(share(RandomInvert{.p = 0}, changed), 0);
  EXPECT_EQ(share(RandomInvert{.p = 1}, changed), 1);
}

TEST(AugmentDistributionTest, FactorsAreDrawnEvenly) {
  // Truncated to 250 levels, so that a step of the distribution is 1/250.
  const std::vector<double> draws = Draws({ColorJitter{.brightness = {0, 1}}}, {250}, 1, 1, 1,
                                          100000, [](const Image& to) { return to[0] / 250.0; });
  EXPECT_LT(KolmogorovSmirnov(draws, [](double x) { return std::clamp(x, 0.0, 1.0); }),
            1.0 / 250 + 0.006);
}

TEST(AugmentDistributionTest, ColorJitterTakesAllOrders) {
  // Brightness by 2, then contrast at 0 (the mean), or the other way round.
  const Image image = {100, 200};
  const std::vector<double> draws =
      Draws({ColorJitter{.brightness = {2, 2}, .contrast = {0, 0}}}, image, 1, 2, 1, 20000,
            [](const Image& to) { return to[0]; });
  // (200 + 255) / 2 truncated, and 2 * 150 clipped.
  EXPECT_EQ(std::set<double>(draws.begin(), draws.end()), (std::set<double>{227, 255}));
  EXPECT_NEAR(std::count(draws.begin(), draws.end(), 227), 10000, 400);
}

TEST(AugmentDistributionTest, ErasingFollowsScaleRatioAndPlace) {
  constexpr int kSize = 100;
  const Image image(kSize * kSize, 9);
  std::vector<double> ratios;
  std::vector<double> tops;
  const std::vector<double> areas =
      Draws({RandomErasing{.p = 1, .scale = {0.1, 0.3}, .ratio = {0.5, 2}}}, image, kSize, kSize, 1,
            20000, [&](const Image& to) {
              const size_t first = std::find(to.begin(), to.end(), 0) - to.begin();
              int width = 0;
              while (first % kSize + width < kSize && to[first + width] == 0) ++width;
              const auto area = std::count(to.begin(), to.end(), 0);
              const double height = static_cast<double>(area) / width;
              ratios.push_back(std::log(height / width) / std::log(2));
              tops.push_back(static_cast<double>(first / kSize) / (kSize - height));
              return static_cast<double>(area) / to.size();
            });
  // Sides are rounded, which adds something to the 1.95 / sqrt(20000) of a probability of 0.001.
  EXPECT_LT(KolmogorovSmirnov(areas, [](double x) { return std::clamp((x - 0.1) / 0.2, 0., 1.); }),
            0.03);
  EXPECT_LT(KolmogorovSmirnov(ratios, [](double x) { return std::clamp((x + 1) / 2, 0., 1.); }),
            0.03);
  EXPECT_LT(KolmogorovSmirnov(tops, [](double x) { return std::clamp(x, 0., 1.); }), 0.03);
}

TEST(AugmentDistributionTest, TrivialAugmentDrawsOperationsAndMagnitudes) {
  // Only one operation is tested completely: solarizing a ramp. Others rarely make the same images:
  // below 31 thresholds of 14 operations.
  Image ramp(256, 0);
  for (int i = 0; i < 256; ++i) ramp[i] = static_cast<uint8_t>(i);
  std::map<Image, int> seen;
  Draws({TrivialAugmentWide{}}, ramp, 1, 256, 1, 62000, [&](const Image& to) {
    ++seen[to];
    return 0.0;
  });
  for (int bin = 1; bin < 31; ++bin) {
    Image expected = ramp;
    for (uint8_t& v : expected) v = v >= 255 * (1 - bin / 30.0) ? 255 - v : v;
    // 62,000 / 14 / 31 = 143, standard deviation 12.
    EXPECT_NEAR(seen[expected], 143, 60) << bin;
  }
  // Identity, operations without effect here, and magnitudes of 0.
  EXPECT_GT(seen[ramp], 62000 / 14);
}

TEST(AugmentDistributionTest, RandAugmentHasOneMagnitude) {
  Image ramp(256, 0);
  for (int i = 0; i < 256; ++i) ramp[i] = static_cast<uint8_t>(i);
  std::set<Image> seen;
  Draws({RandAugment{.num_ops = 1}}, ramp, 1, 256, 1, 5000, [&](const Image& to) {
    seen.insert(to);
    return 0.0;
  });
  // Each operation makes one image or, with a sign, two; some have no effect on one gray row.
  EXPECT_GE(seen.size(), 9);
  EXPECT_LE(seen.size(), 4 + 2 * 9);
  Image expected = ramp;
  for (uint8_t& v : expected) v &= 0xfe;  // posterized to 8 - round(9 / 7.5) = 7 bits
  EXPECT_TRUE(seen.contains(expected));
}

}  // namespace
}  // namespace shardfeed::augment
