#include "pipeline/rows/decode_image.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "media/image_limit.h"
#include "pipeline/dataset.h"
#include "tests/decode/jpeg_images.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::shardfeed::testing::DecodeByLibjpeg;
using ::shardfeed::testing::JpegSpec;
using ::shardfeed::testing::MakeJpeg;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string MakeImage(uint32_t seed) {
  return MakeJpeg({.width = 40 + static_cast<int>(seed) % 7, .height = 32, .seed = seed});
}

// Rows with a number and an image.
Dataset Images(std::vector<std::string> images) {
  auto kept = std::make_shared<const std::vector<std::string>>(std::move(images));
  return Dataset::Range(0, static_cast<int64_t>(kept->size()), 1, "number")
      .Map({{"encoded", DType::kBytes, {}}}, [kept](RowContext& row) {
        row.Out<std::string_view>(0)[0] = (*kept)[row.In<int64_t>(0)[0]];
        return absl::OkStatus();
      });
}

std::vector<std::string> Make(size_t count) {
  std::vector<std::string> images;
  for (uint32_t i = 0; i < count; ++i) images.push_back(MakeImage(i));
  return images;
}

DecodeImageOptions Options(CropKind crop, OnDamage on_damage = OnDamage::kFail) {
  DecodeImageOptions options;
  options.image.width = 16;
  options.image.height = 12;
  options.crop = crop;
  options.on_damage = on_damage;
  options.output = "image";
  return options;
}

// The images' pixels, end to end.
std::vector<uint8_t> Pixels(const Dataset& ds, int threads = 3) {
  std::vector<uint8_t> all;
  absl::StatusOr<std::unique_ptr<Iterator>> it = ds.Start({.threads = threads});
  EXPECT_OK(it);
  while (true) {
    Batch batch;
    absl::Status status = (*it)->Next(&batch);
    EXPECT_OK(status);
    if (!status.ok() || batch.empty()) return all;
    const auto pixels = batch.Values<uint8_t>(batch.Find("image"));
    all.insert(all.end(), pixels.begin(), pixels.end());
  }
}

TEST(DecodeImageTest, WholeImagesInTheirOwnSizeAreLibjpegsPixels) {
  DecodeImageOptions options = Options(CropKind::kNone);
  const std::string image = MakeImage(0);
  options.image.width = 40;
  options.image.height = 32;
  EXPECT_EQ(Pixels(Images({image}).DecodeImage("encoded", options).Batch(4)),
            DecodeByLibjpeg(image).values);
}

TEST(DecodeImageTest, NamesAndShapes) {
  const Dataset ds = Images(Make(1));
  DecodeImageOptions options = Options(CropKind::kCenter, OnDamage::kZero);
  options.image.layout = ImageLayout::kNCHW;
  options.image.dtype = DType::kFloat16;
  options.output = "";
  EXPECT_EQ(RowSpecText(ds.DecodeImage("encoded", options).spec()),
            "number: int64, encoded: float16 [3, 12, 16], encoded/valid: uint8");
  const Dataset named = Dataset::Range(0, 1).Map({{"image/encoded", DType::kBytes, {}}},
                                                 [](RowContext&) { return absl::OkStatus(); });
  EXPECT_EQ(RowSpecText(named.DecodeImage("image/encoded", {}).spec()),
            "value: int64, image: uint8 [224, 224, 3]");
}

TEST(DecodeImageTest, TextTellsAllThatIsNotUsual) {
  DecodeImageOptions options = Options(CropKind::kRandom, OnDamage::kReplace);
  options.flip = 0.5;
  options.seed = 7;
  options.image.dtype = DType::kFloat32;
  options.image.mean = {0.5f, 0.5f, 0.5f};
  EXPECT_EQ(DecodeImageText("encoded", options),
            "encoded, 12x16, crop=random(0.08..1, 0.75..1.33333), flip=0.5, seed=7, dtype=float32, "
            "mean=[0.5, 0.5, 0.5], on_damage=replace, output=image");
  EXPECT_EQ(DecodeImageText("encoded", {}), "encoded, 224x224");
  EXPECT_EQ(DecodeImageText("encoded", {.image = {.dct_scaling = false}}),
            "encoded, 224x224, dct_scaling=false");
}

TEST(DecodeImageTest, RandomCropsAreTheSameForAnyNumberOfThreadsAndBatchSize) {
  DecodeImageOptions options = Options(CropKind::kRandom);
  options.flip = 0.5;
  const Dataset ds = Images(Make(50)).DecodeImage("encoded", options);
  const std::vector<uint8_t> expected = Pixels(ds.Batch(8), 1);
  EXPECT_EQ(expected.size(), 50 * 16 * 12 * 3);
  EXPECT_EQ(Pixels(ds.Batch(8), 4), expected);
  EXPECT_EQ(Pixels(ds.Batch(7), 2), expected);
  options.seed = 1;
  EXPECT_NE(Pixels(Images(Make(50)).DecodeImage("encoded", options).Batch(8)), expected);
}

TEST(DecodeImageTest, RandomCropsDifferFromEpochToEpochAndRepeatAfterLoad) {
  const Dataset ds =
      Images(Make(20)).DecodeImage("encoded", Options(CropKind::kRandom)).Batch(5).Repeat(2);
  const std::vector<uint8_t> all = Pixels(ds);
  const auto half = static_cast<std::ptrdiff_t>(all.size() / 2);
  EXPECT_FALSE(std::equal(all.begin(), all.begin() + half, all.begin() + half));
  absl::StatusOr<std::unique_ptr<Iterator>> it = ds.Start({.threads = 2});
  ASSERT_OK(it);
  Batch batch;
  for (int i = 0; i < 5; ++i) ASSERT_OK((*it)->Next(&batch));
  const absl::StatusOr<std::string> state = (*it)->StateDict();
  ASSERT_OK(state);
  absl::StatusOr<std::unique_ptr<Iterator>> again = ds.Start({.threads = 3});
  ASSERT_OK(again);
  ASSERT_OK((*again)->LoadStateDict(*state));
  ASSERT_OK((*again)->Next(&batch));
  const auto pixels = batch.Values<uint8_t>(batch.Find("image"));
  EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), all.begin() + 5 * 5 * 16 * 12 * 3));
}

std::vector<std::string> WithBroken() {
  std::vector<std::string> images = Make(6);
  images[0] = "";
  images[2].resize(images[2].size() / 2);
  images[3] = "GIF89a";
  return images;
}

TEST(DecodeImageTest, FailNamesTheRecordAndTheReason) {
  std::vector<std::string> images = Make(6);
  images[4].resize(images[4].size() - 20);
  absl::StatusOr<std::unique_ptr<Iterator>> it =
      Images(images).DecodeImage("encoded", Options(CropKind::kNone)).Batch(6).Start();
  ASSERT_OK(it);
  Batch batch;
  const absl::Status status = (*it)->Next(&batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("element 4"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("feature 'encoded': JPEG"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cut off"));
}

TEST(DecodeImageTest, ReplaceRepeatsAnotherRowOfTheBatch) {
  const Dataset ds = Images(WithBroken())
                         .DecodeImage("encoded", Options(CropKind::kNone, OnDamage::kReplace))
                         .Batch(6);
  absl::StatusOr<std::unique_ptr<Iterator>> it = ds.Start({.threads = 3});
  ASSERT_OK(it);
  Batch batch;
  ASSERT_OK((*it)->Next(&batch));
  EXPECT_THAT(batch.Values<int64_t>(batch.Find("number")), ElementsAre(1, 1, 1, 1, 4, 5));
  EXPECT_THAT(batch.Values<uint8_t>(batch.Find("image/valid")), ElementsAre(0, 1, 0, 0, 1, 1));
  const auto first = batch.Row<uint8_t>(batch.Find("image"), 1);
  for (size_t row : {0, 2, 3}) {
    EXPECT_TRUE(std::ranges::equal(batch.Row<uint8_t>(batch.Find("image"), row), first));
  }
  EXPECT_EQ((*it)->stats().stages.back().invalid, 3);
}

TEST(DecodeImageTest, ABatchWithoutAGoodImageIsZeros) {
  const Dataset ds = Images({"", "x"})
                         .DecodeImage("encoded", Options(CropKind::kNone, OnDamage::kReplace))
                         .Batch(2);
  absl::StatusOr<std::unique_ptr<Iterator>> it = ds.Start({.threads = 3});
  ASSERT_OK(it);
  Batch batch;
  ASSERT_OK((*it)->Next(&batch));
  ASSERT_EQ(batch.rows, 2);
  EXPECT_THAT(batch.Values<uint8_t>(batch.Find("image/valid")), ElementsAre(0, 0));
  EXPECT_THAT(batch.Values<uint8_t>(batch.Find("image")), ::testing::Each(0));
  EXPECT_THAT(batch.Values<int64_t>(batch.Find("number")), ElementsAre(0, 1));
}

TEST(DecodeImageTest, ZeroKeepsTheOtherColumns) {
  const Dataset ds = Images(WithBroken())
                         .DecodeImage("encoded", Options(CropKind::kNone, OnDamage::kZero))
                         .Batch(6);
  absl::StatusOr<std::unique_ptr<Iterator>> it = ds.Start({.threads = 3});
  ASSERT_OK(it);
  Batch batch;
  ASSERT_OK((*it)->Next(&batch));
  EXPECT_THAT(batch.Values<int64_t>(batch.Find("number")), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(batch.Values<uint8_t>(batch.Find("image/valid")), ElementsAre(0, 1, 0, 0, 1, 1));
  EXPECT_THAT(batch.Row<uint8_t>(batch.Find("image"), 2), ::testing::Each(0));
  EXPECT_EQ((*it)->stats().stages.back().invalid, 3);
}

// Keeps rows with even numbers.
bool IsEven(RowContext& row) { return row.In<int64_t>(0)[0] % 2 == 0; }

// Replaces all columns by what a function sees in the number, the pixels and image/valid.
Dataset Seen(const Dataset& ds, int64_t fails = -1) {
  const auto column = [&](std::string_view name) { return FindColumn(ds.spec(), name); };
  std::vector<std::string> drops;
  for (const ColumnSpec& spec : ds.spec()) drops.push_back(spec.name);
  return ds.Map(
      {{"number", DType::kInt64, {}}, {"any", DType::kUInt8, {}}, {"ok", DType::kUInt8, {}}},
      [number = column("number"), image = column("image"), ok = column("image/valid"),
       fails](RowContext& row) -> absl::Status {
        const auto pixels = row.In<uint8_t>(image);
        row.Out<int64_t>(0)[0] = row.In<int64_t>(number)[0];
        row.Out<uint8_t>(1)[0] =
            std::ranges::any_of(pixels, [](uint8_t level) { return level > 0; });
        row.Out<uint8_t>(2)[0] = row.In<uint8_t>(ok)[0];
        if (row.Out<int64_t>(0)[0] == fails) return absl::DataLossError("not this one");
        return absl::OkStatus();
      },
      drops);
}

// Adds columns with the names that Seen sees, and one with the name of a hidden column.
Dataset Named(const Dataset& seen) {
  const auto copy = [](RowContext& row) {
    row.Out<uint8_t>(0)[0] = row.In<uint8_t>(1)[0];
    row.Out<uint8_t>(1)[0] = row.In<uint8_t>(2)[0];
    row.Out<uint8_t>(2)[0] = 7;
    return absl::OkStatus();
  };
  return seen.Map({{"image", DType::kUInt8, {}},
                   {"image/valid", DType::kUInt8, {}},
                   {"(ignore_errors)", DType::kUInt8, {}}},
                  copy);
}

// The columns of Seen, of all rows, and how many were counted as invalid.
struct Told {
  std::vector<int64_t> numbers;
  std::vector<int> any;
  std::vector<int> ok;
  uint64_t invalid = 0;
  uint64_t ignored = 0;
};

Told Tell(const Dataset& ds, int threads) {
  Told told;
  absl::StatusOr<std::unique_ptr<Iterator>> it = ds.Start({.threads = threads});
  EXPECT_OK(it);
  while (it.ok()) {
    Batch batch;
    absl::Status status = (*it)->Next(&batch);
    EXPECT_OK(status);
    if (!status.ok() || batch.empty()) break;
    for (int64_t n : batch.Values<int64_t>(batch.Find("number"))) told.numbers.push_back(n);
    for (uint8_t n : batch.Values<uint8_t>(batch.Find("any"))) told.any.push_back(n);
    for (uint8_t n : batch.Values<uint8_t>(batch.Find("ok"))) told.ok.push_back(n);
  }
  for (const StageStats& stage : (*it)->stats().stages) told.invalid += stage.invalid;
  told.ignored = (*it)->stats().ignored;
  return told;
}

TEST(DecodeImageTest, FunctionsSeeWhatTakesTheRowsPlace) {
  const Dataset ds =
      Images(WithBroken()).DecodeImage("encoded", Options(CropKind::kNone, OnDamage::kReplace));
  for (const int threads : {1, 3}) {
    for (const Dataset& seen : {Seen(ds).Batch(6), Seen(Named(Seen(ds))).Batch(6),
                                Seen(ds).Repeat(1).Batch(6), Seen(ds.Take(6)).Batch(2)}) {
      const Told told = Tell(seen, threads);
      EXPECT_THAT(told.numbers, ElementsAre(1, 1, 1, 1, 4, 5));
      EXPECT_THAT(told.any, ::testing::Each(1));
      EXPECT_THAT(told.ok, ElementsAre(0, 1, 0, 0, 1, 1));
      EXPECT_EQ(told.invalid, 3);
    }
    // The batches of the chain are those in which rows are replaced.
    EXPECT_THAT(Tell(Seen(ds).Batch(2), threads).numbers, ElementsAre(1, 1, 2, 3, 4, 5));
    EXPECT_THAT(Tell(Seen(ds).Batch(2), threads).any, ElementsAre(1, 1, 0, 0, 1, 1));
    EXPECT_THAT(Tell(Seen(ds).Batch(2), threads).ok, ElementsAre(0, 1, 0, 0, 1, 1));
    EXPECT_EQ(Tell(Seen(ds).Batch(2), threads).invalid, 3);
  }
}

TEST(DecodeImageTest, ReplacedRowsAreCountedWhateverFollows) {
  const Dataset images = Images(WithBroken());
  const DecodeImageOptions replace = Options(CropKind::kNone, OnDamage::kReplace);
  const DecodeImageOptions zero = Options(CropKind::kNone, OnDamage::kZero);
  for (const int threads : {1, 3}) {
    // A filter sees the rows that take the place of others.
    Told told = Tell(Seen(images.DecodeImage("encoded", replace)).Filter(IsEven).Batch(6), threads);
    EXPECT_THAT(told.numbers, ElementsAre(4));
    EXPECT_THAT(told.ok, ElementsAre(1));
    EXPECT_EQ(told.invalid, 3);
    told = Tell(Seen(images.DecodeImage("encoded", replace).Filter(IsEven)).Batch(6), threads);
    EXPECT_THAT(told.numbers, ElementsAre(4));
    EXPECT_EQ(told.invalid, 3);
    // Of rows that a filter drops, none takes the place of another.
    told = Tell(Seen(images.Filter(IsEven).DecodeImage("encoded", replace)).Batch(6), threads);
    EXPECT_THAT(told.numbers, ElementsAre(4, 4, 4));
    EXPECT_THAT(told.any, ::testing::Each(1));
    EXPECT_THAT(told.ok, ElementsAre(0, 0, 1));
    EXPECT_EQ(told.invalid, 2);
    told = Tell(Seen(images.DecodeImage("encoded", zero)).Batch(6), threads);
    EXPECT_THAT(told.numbers, ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(told.any, ElementsAre(0, 1, 0, 0, 1, 1));
    EXPECT_THAT(told.ok, ElementsAre(0, 1, 0, 0, 1, 1));
    EXPECT_EQ(told.invalid, 3);
    told = Tell(Seen(images.DecodeImage("encoded", zero)).Filter(IsEven).Batch(6), threads);
    EXPECT_THAT(told.numbers, ElementsAre(0, 2, 4));
    EXPECT_EQ(told.invalid, 3);
  }
}

TEST(DecodeImageTest, IgnoredErrorsGoTogetherWithReplacing) {
  std::vector<std::string> broken = WithBroken();
  const auto images = [&](int64_t fails) {
    return Images(broken).Map({{"copy", DType::kBytes, {}}},
                              [fails](RowContext& row) -> absl::Status {
                                if (row.In<int64_t>(0)[0] == fails)
                                  return absl::DataLossError("before");
                                row.Out<std::string_view>(0)[0] = row.In<std::string_view>(1)[0];
                                return absl::OkStatus();
                              });
  };
  const SkipCeiling all = {.at_least = 100};
  DecodeImageOptions options = Options(CropKind::kNone, OnDamage::kReplace);
  for (const int threads : {1, 3}) {
    // Row 1 fails before rows are replaced, and takes no other's place; row 5 fails after it.
    Told told = Tell(Seen(images(1).DecodeImage("encoded", options), 5).IgnoreErrors(all).Batch(6),
                     threads);
    EXPECT_THAT(told.numbers, ElementsAre(4, 4, 4, 4));
    EXPECT_THAT(told.any, ::testing::Each(1));
    EXPECT_THAT(told.ok, ElementsAre(0, 0, 0, 1));
    EXPECT_EQ(told.invalid, 3);
    EXPECT_EQ(told.ignored, 2);
    // Rows of two images, one of which replaces rows again; a column has the catch step's name.
    const auto twice = [&](const Dataset& ds) {
      DecodeImageOptions other = options;
      other.output = "other";
      const Dataset both = ds.DecodeImage("encoded", options).DecodeImage("copy", other);
      return Seen(Named(Seen(both)), 5).IgnoreErrors(all).Batch(6);
    };
    told = Tell(twice(images(1)), threads);
    EXPECT_THAT(told.numbers, ElementsAre(4, 4, 4, 4));
    EXPECT_THAT(told.ok, ElementsAre(0, 0, 0, 1));
    EXPECT_EQ(told.invalid, 3);
    EXPECT_EQ(told.ignored, 2);
  }
  auto it = *Seen(images(1).DecodeImage("encoded", options), 5).IgnoreErrors(all).Start();
  Batch batch;
  while (it->Next(&batch).ok() && !batch.empty()) {
  }
  EXPECT_THAT(it->stats().first_ignored,
              ElementsAre("element 1 of epoch 0: before", "element 5 of epoch 0: not this one"));
}

TEST(DecodeImageTest, AcceptTakesWhatDecodes) {
  std::vector<std::string> images = Make(2);
  images[1].resize(images[1].size() - 20);
  const Dataset ds =
      Images(images).DecodeImage("encoded", Options(CropKind::kNone, OnDamage::kAccept)).Batch(2);
  EXPECT_EQ(Pixels(ds).size(), 2 * 16 * 12 * 3);
}

TEST(DecodeImageTest, WrongUseIsNamedBeforeItStarts) {
  const Dataset ds = Images(Make(1));
  const auto message = [](const Dataset& d) { return std::string(d.status().message()); };
  EXPECT_THAT(message(ds.DecodeImage("photo")),
              HasSubstr("decode_image: there is no column 'photo'; there are: number: int64"));
  EXPECT_THAT(message(ds.DecodeImage("number")),
              HasSubstr("decode_image: column 'number' does not have one bytes value per row"));
  EXPECT_THAT(message(ds.Batch(2).DecodeImage("encoded")), HasSubstr("put it before batch"));
  DecodeImageOptions options;
  options.scale[0] = 0;
  EXPECT_THAT(message(ds.DecodeImage("encoded", options)),
              HasSubstr("fractions of the area in ascending order, got (0, 1)"));
  options = {};
  options.ratio[0] = 2;
  EXPECT_THAT(message(ds.DecodeImage("encoded", options)),
              HasSubstr("aspect ratios in ascending order, got (2, "));
  options = {};
  options.center_fraction = 1.5;
  EXPECT_THAT(message(ds.DecodeImage("encoded", options)),
              HasSubstr("center_fraction must be above 0 and at most 1, got 1.5"));
  options = {};
  options.flip = -1;
  EXPECT_THAT(message(ds.DecodeImage("encoded", options)),
              HasSubstr("flip must be from 0 to 1, got -1"));
  options = {};
  options.image.dtype = DType::kInt64;
  EXPECT_THAT(
      message(ds.DecodeImage("encoded", options)),
      HasSubstr("decode_image: dtype must be uint8, float16, bfloat16 or float32, got int64"));
}

TEST(DecodeImageTest, RawSamplesHaveOptionsOfTheirOwn) {
  const Dataset ds = Images(Make(2));
  const auto message = [&](const DecodeImageOptions& o) {
    return std::string(ds.DecodeImage("encoded", o).status().message());
  };
  DecodeImageOptions options = Options(CropKind::kNone);
  options.image.raw = true;
  EXPECT_THAT(message(options), HasSubstr("interpolation of raw samples must be nearest"));
  options.image.interpolation = Interpolation::kNearest;
  EXPECT_EQ(message(options), "");
  options.image.dtype = DType::kInt64;
  EXPECT_THAT(message(options), HasSubstr("dtype of raw samples must be uint8, uint16, int32 or"));
  options.image.dtype = DType::kUInt16;
  options.image.mean = {0.5f};
  EXPECT_THAT(message(options), HasSubstr("mean: raw samples are not normalized"));
  options.image.mean.clear();
  options.image.channels = 0;
  EXPECT_THAT(message(options), HasSubstr("the number that the files store, 1 to 1024, got 0"));
  options.image.channels = 4;
  EXPECT_EQ(DecodeImageText("encoded", options),
            "encoded, 12x16, raw=true, channels=4, interpolation=nearest, dtype=uint16, "
            "output=image");
}

TEST(DecodeImageTest, OptionsThatDoNotFitAnImageAreNoDamage) {
  for (const OnDamage on_damage :
       {OnDamage::kFail, OnDamage::kReplace, OnDamage::kZero, OnDamage::kAccept}) {
    DecodeImageOptions options = Options(CropKind::kNone, on_damage);
    options.image.raw = true;
    options.image.interpolation = Interpolation::kNearest;
    options.image.channels = 4;
    absl::StatusOr<std::unique_ptr<Iterator>> it =
        Images(Make(2)).DecodeImage("encoded", options).Batch(2).Start();
    ASSERT_OK(it);
    Batch batch;
    EXPECT_FAILS((*it)->Next(&batch), kInvalidArgument,
                 "feature 'encoded': jpeg stores 3 channels, but channels is 4");
  }
}

// As images of a kind that cannot be decoded; the error says that the system is not to blame.
TEST(DecodeImageTest, ImagesThatAreTooLargeAreToldOrFilledIn) {
  std::vector<std::string> images = Make(2);
  images.push_back(MakeJpeg({.width = 64, .height = 40}));
  DecodeImageOptions options = Options(CropKind::kNone);
  options.image.jpeg.max_pixels = 46 * 32;
  const auto batch_of = [&](OnDamage on_damage, Batch* batch) {
    options.on_damage = on_damage;
    absl::StatusOr<std::unique_ptr<Iterator>> it =
        Images(images).DecodeImage("encoded", options).Batch(3).Start();
    return it.ok() ? (*it)->Next(batch) : it.status();
  };
  Batch batch;
  const absl::Status status = batch_of(OnDamage::kFail, &batch);
  EXPECT_FAILS(status, kResourceExhausted,
               "element 2 of epoch 0: feature 'encoded': jpeg of 64 x 40 pixels is too large: the "
               "limit is 1472 in all (max_pixels)");
  EXPECT_TRUE(IsImageLimit(status));
  ASSERT_OK(batch_of(OnDamage::kZero, &batch));
  EXPECT_THAT(batch.Values<uint8_t>(batch.Find("image/valid")), ElementsAre(1, 1, 0));
}

TEST(DecodeImageTest, RawAndLevelsAreTheSamePart) {
  DecodeImageOptions options = Options(CropKind::kRandom);
  options.flip = 0.5;
  options.image.interpolation = Interpolation::kNearest;
  const std::vector<uint8_t> levels =
      Pixels(Images(Make(30)).DecodeImage("encoded", options).Batch(8));
  options.image.raw = true;
  const std::vector<uint8_t> raw =
      Pixels(Images(Make(30)).DecodeImage("encoded", options).Batch(8));
  ASSERT_EQ(raw.size(), levels.size());
  size_t equal = 0;
  for (size_t i = 0; i < raw.size(); ++i) equal += raw[i] == levels[i];
  // Where a middle lies between two pixels of a flipped part, the two may round apart.
  EXPECT_GT(equal, raw.size() * 9 / 10);
}

// ---- RandomResizedCrop, beside its definition in torchvision's documentation

ImageBox ReferenceCrop(uint32_t width, uint32_t height, std::mt19937& random) {
  std::uniform_real_distribution<double> scale(0.08, 1);
  std::uniform_real_distribution<double> log_ratio(std::log(0.75), std::log(4.0 / 3));
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = scale(random) * width * height;
    const double ratio = std::exp(log_ratio(random));
    const auto w = static_cast<uint32_t>(std::lround(std::sqrt(area * ratio)));
    const auto h = static_cast<uint32_t>(std::lround(std::sqrt(area / ratio)));
    if (w == 0 || h == 0 || w > width || h > height) continue;
    std::uniform_int_distribution<uint32_t> y(0, height - h);
    std::uniform_int_distribution<uint32_t> x(0, width - w);
    const uint32_t top = y(random);
    return {x(random), top, w, h};
  }
  ImageBox box = {0, 0, width, height};
  const double shape = 1.0 * width / height;
  if (shape < 0.75) box.height = static_cast<uint32_t>(std::lround(width / 0.75));
  if (shape > 4.0 / 3) box.width = static_cast<uint32_t>(std::lround(height * 4.0 / 3));
  box.x = (width - box.width) / 2;
  box.y = (height - box.height) / 2;
  return box;
}

// The two-sample Kolmogorov-Smirnov statistic.
double KolmogorovSmirnov(std::vector<double> a, std::vector<double> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  double worst = 0;
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    const double x = std::min(a[i], b[j]);
    while (i < a.size() && a[i] == x) ++i;
    while (j < b.size() && b[j] == x) ++j;
    worst = std::max(worst, std::abs(1.0 * i / a.size() - 1.0 * j / b.size()));
  }
  return worst;
}

TEST(RandomResizedCropTest, IsDistributedAsTorchvisions) {
  constexpr size_t kDraws = 100'000;
  // Critical value of the statistic for two samples of that size, at 0.1 %.
  const double critical = 1.95 * std::sqrt(2.0 / kDraws);
  for (const ImageSize size : {ImageSize{500, 375}, {333, 500}, {300, 40}, {24, 400}}) {
    std::mt19937 reference(42);
    std::vector<double> mine[5];
    std::vector<double> theirs[5];
    const auto add = [](const ImageBox& box, std::vector<double>* all) {
      all[0].push_back(1.0 * box.width * box.height);
      all[1].push_back(1.0 * box.width / box.height);
      all[2].push_back(box.x);
      all[3].push_back(box.y);
      all[4].push_back(box.x + 2.0 * box.width + 3.0 * box.y + 5.0 * box.height);
    };
    for (size_t i = 0; i < kDraws; ++i) {
      Random random(9, 0, 0, i);
      const double scale[2] = {0.08, 1};
      const double ratio[2] = {0.75, 4.0 / 3};
      const ImageBox box = RandomResizedCrop(size, scale, ratio, random);
      ASSERT_LE(box.x + box.width, size.width);
      ASSERT_LE(box.y + box.height, size.height);
      add(box, mine);
      add(ReferenceCrop(size.width, size.height, reference), theirs);
    }
    for (int k = 0; k < 5; ++k) EXPECT_LT(KolmogorovSmirnov(mine[k], theirs[k]), critical) << k;
  }
}

}  // namespace
}  // namespace shardfeed
