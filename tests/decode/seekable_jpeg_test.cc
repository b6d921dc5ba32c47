#include "decode/images/jpeg/seekable_jpeg.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "decode/images/jpeg/jpeg_layout.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/decode/jpeg_images.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::AnyOf;
using testing::Coefficients;
using testing::DecodeByLibjpeg;
using testing::FindMarker;
using ::testing::HasSubstr;
using testing::JpegSpec;
using testing::MakeJpeg;
using testing::Pixels;
using testing::Segments;
using ::testing::StartsWith;
using Outcome = SeekableJpeg::Outcome;
using Sampling = std::vector<std::pair<int, int>>;

const std::vector<Sampling> kSamplings = {
    {{1, 1}},
    {{2, 2}},
    {{1, 1}, {1, 1}},
    {{1, 1}, {1, 1}, {1, 1}},
    {{2, 1}, {1, 1}, {1, 1}},
    {{1, 2}, {1, 1}, {1, 1}},
    {{2, 2}, {1, 1}, {1, 1}},
    {{4, 1}, {1, 1}, {1, 1}},
    {{1, 4}, {1, 1}, {1, 1}},
    {{4, 2}, {1, 1}, {1, 1}},
    {{3, 1}, {1, 1}, {1, 1}},
    {{2, 2}, {2, 1}, {1, 2}},
    {{1, 1}, {2, 2}, {1, 1}},
    {{2, 1}, {2, 1}, {2, 1}},
    {{1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{2, 2}, {1, 1}, {1, 1}, {2, 2}},
};

SeekableJpeg Make(const std::string& jpeg, std::string* out,
                  const SeekableJpegOptions& options = {}) {
  // From memory of exactly the size, so that AddressSanitizer detects any read past the end.
  const std::unique_ptr<char[]> exact(new char[jpeg.size()]);
  jpeg.copy(exact.get(), jpeg.size());
  absl::StatusOr<SeekableJpeg> result = MakeSeekable({exact.get(), jpeg.size()}, options, out);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *result : SeekableJpeg();
}

void ExpectKept(const std::string& jpeg, Outcome outcome, const std::string& reason,
                const SeekableJpegOptions& options = {}) {
  std::string out;
  const SeekableJpeg result = Make(jpeg, &out, options);
  EXPECT_EQ(result.outcome, outcome) << result.reason;
  EXPECT_THAT(result.reason, HasSubstr(reason));
}

// Rewrites the image, and checks all properties of the result.
std::string ExpectRewritten(const std::string& jpeg, const std::string& name = "") {
  SCOPED_TRACE(name);
  std::string out = "memory of an image before";
  const SeekableJpeg result = Make(jpeg, &out);
  EXPECT_EQ(result.outcome, Outcome::kRewritten) << result.reason;
  if (result.outcome != Outcome::kRewritten) return "";
  EXPECT_EQ(result.reason, "");
  EXPECT_TRUE(IsSeekable(out));
  EXPECT_TRUE(Coefficients(out) == Coefficients(jpeg));
  EXPECT_FALSE(Coefficients(out).empty());
  EXPECT_TRUE(Segments(out) == Segments(jpeg));
  const absl::StatusOr<JpegLayout> layout = ReadJpegLayout(out);
  EXPECT_TRUE(layout.ok() && layout->one_scan);
  EXPECT_EQ(layout->restart_interval, SeekableRestartInterval(layout->mcus_per_row));
  for (J_COLOR_SPACE color_space : {JCS_RGB, JCS_CMYK, JCS_GRAYSCALE, JCS_YCbCr, JCS_UNKNOWN}) {
    const Pixels pixels = DecodeByLibjpeg(out, color_space);
    EXPECT_TRUE(pixels == DecodeByLibjpeg(jpeg, color_space));
    EXPECT_EQ(pixels.warnings, 0);
  }
  std::string again;
  EXPECT_EQ(Make(out, &again).outcome, Outcome::kAlready);
  return out;
}

std::string NameOf(const Sampling& sampling) {
  std::string name;
  for (const auto& [h, v] : sampling) name += fmt::format(" {}x{}", h, v);
  return name;
}

TEST(SeekableRestartIntervalTest, DividesTheRow) {
  const std::map<uint32_t, uint32_t> expected = {
      {1, 1},   {2, 2},  {3, 3},   {4, 4},  {5, 5},    {6, 3},       {7, 7},    {8, 4},
      {9, 3},   {10, 2}, {11, 11}, {12, 4}, {14, 2},   {25, 5},      {32, 4},   {35, 5},
      {47, 47}, {49, 7}, {63, 3},  {77, 7}, {121, 11}, {4093, 4093}, {4094, 2}, {8191, 8191}};
  for (const auto& [mcus, interval] : expected) {
    EXPECT_EQ(SeekableRestartInterval(mcus), interval) << mcus;
  }
}

TEST(SeekableJpegTest, EverySamplingIsRewritten) {
  for (const Sampling& sampling : kSamplings) {
    for (bool optimized : {false, true}) {
      ExpectRewritten(
          MakeJpeg({.width = 117, .height = 90, .sampling = sampling, .optimized = optimized}),
          NameOf(sampling));
    }
  }
}

TEST(SeekableJpegTest, ProgressiveBecomesSequential) {
  for (const Sampling& sampling : kSamplings) {
    const std::string out = ExpectRewritten(
        MakeJpeg({.width = 117, .height = 90, .sampling = sampling, .progressive = true}),
        NameOf(sampling));
    EXPECT_EQ(FindMarker(out, 0xc2), std::string::npos);
  }
}

TEST(SeekableJpegTest, SeparateScansBecomeOne) {
  for (const Sampling& sampling : kSamplings) {
    if (sampling.size() == 1) continue;
    ExpectRewritten(
        MakeJpeg({.width = 117, .height = 90, .sampling = sampling, .separate_scans = true}),
        NameOf(sampling));
  }
}

TEST(SeekableJpegTest, OtherRestartIntervalsAreReplaced) {
  for (int interval : {5, 7, 16, 1000}) {
    ExpectRewritten(MakeJpeg({.width = 117, .height = 90, .restart_interval = interval}));
  }
  ExpectRewritten(MakeJpeg({.width = 117, .height = 90, .restart_rows = 1}));
  ExpectRewritten(MakeJpeg({.width = 117, .height = 90, .restart_rows = 3}));
  ExpectRewritten(MakeJpeg({.width = 117, .height = 90, .progressive = true, .restart_rows = 1}));
}

TEST(SeekableJpegTest, ColorSpacesStay) {
  ExpectRewritten(
      MakeJpeg({.width = 50, .height = 40, .sampling = {{1, 1}, {1, 1}, {1, 1}}, .rgb = true}));
  for (bool adobe : {false, true}) {
    ExpectRewritten(MakeJpeg(
        {.width = 50, .height = 40, .sampling = {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, .adobe = adobe}));
  }
  ExpectRewritten(MakeJpeg(
      {.width = 50, .height = 40, .sampling = {{2, 2}, {1, 1}, {1, 1}, {2, 2}}, .ycck = true}));
}

TEST(SeekableJpegTest, EverySizeIsRewritten) {
  for (int width = 1; width <= 35; ++width) {
    for (int height : {1, 2, 7, 8, 9, 16, 17, 33}) {
      for (const Sampling& sampling :
           {Sampling{{2, 2}, {1, 1}, {1, 1}}, Sampling{{2, 2}}, Sampling{{1, 2}, {1, 1}, {1, 1}}}) {
        ExpectRewritten(MakeJpeg({.width = width, .height = height, .sampling = sampling}),
                        fmt::format("{} x {}{}", width, height, NameOf(sampling)));
      }
    }
  }
}

TEST(SeekableJpegTest, TheWidestAndTheHighestAreRewritten) {
  ExpectRewritten(MakeJpeg({.width = 65500, .height = 3}));
  ExpectRewritten(MakeJpeg({.width = 65500, .height = 20, .sampling = {{1, 1}}}));
  ExpectRewritten(MakeJpeg({.width = 3, .height = 65500}));
}

TEST(SeekableJpegTest, AllQualitiesAreRewritten) {
  for (int quality : {1, 20, 50, 95, 100}) {
    ExpectRewritten(MakeJpeg({.width = 117, .height = 90, .quality = quality}));
  }
}

// A scan for each coefficient, with the lowest bits last.
std::vector<jpeg_scan_info> ManyScans() {
  std::vector<jpeg_scan_info> scans = {{3, {0, 1, 2}, 0, 0, 0, 2}};
  for (int high : {0, 2, 1}) {
    const int low = high == 0 ? 2 : high - 1;
    if (high > 0) scans.push_back({3, {0, 1, 2}, 0, 0, high, low});
    for (int component = 0; component < 3; ++component) {
      for (int k = 1; k < 64; ++k) scans.push_back({1, {component}, k, k, high, low});
    }
  }
  return scans;
}

TEST(SeekableJpegTest, ScansHaveALimit) {
  const std::string jpeg = MakeJpeg({.width = 60, .height = 40, .scans = ManyScans()});
  std::string out;
  EXPECT_EQ(Make(jpeg, &out, {.max_scans = 570}).outcome, Outcome::kRewritten);
  EXPECT_TRUE(Coefficients(out) == Coefficients(jpeg));
  ExpectKept(jpeg, Outcome::kUnsupported, "more than 500 scans");
  ExpectKept(jpeg, Outcome::kUnsupported, "more than 569 scans", {.max_scans = 569});
}

TEST(SeekableJpegTest, PixelsHaveALimit) {
  const std::string jpeg = MakeJpeg({.width = 60, .height = 40});
  ExpectKept(jpeg, Outcome::kUnsupported, "more than 2399 pixels", {.max_pixels = 2399});
  std::string out;
  EXPECT_EQ(Make(jpeg, &out, {.max_pixels = 2400}).outcome, Outcome::kRewritten);
  // A header of 65,535 x 65,535 pixels takes no memory.
  std::string bomb = jpeg;
  bomb.replace(FindMarker(bomb, 0xc0) + 5, 4, "\xff\xff\xff\xff");
  ExpectKept(bomb, Outcome::kUnsupported, "more than 67108864 pixels");
}

TEST(SeekableJpegTest, SegmentsAreKeptInOrder) {
  const std::string profile(65519, 'p');
  const JpegSpec spec = {.width = 60,
                         .height = 40,
                         .segments = {{JPEG_APP0 + 1, "Exif\0\0II*\0"s},
                                      {JPEG_COM, "first"},
                                      {JPEG_APP0 + 2, "ICC_PROFILE\0\1\2"s + profile},
                                      {JPEG_APP0 + 2, "ICC_PROFILE\0\2\2rest"s},
                                      {JPEG_APP0 + 15, ""},
                                      {JPEG_COM, "second"},
                                      {JPEG_APP0, "JFXX\0\x10thumbnail"s}}};
  const std::string out = ExpectRewritten(MakeJpeg(spec));
  const auto segments = Segments(out);
  ASSERT_EQ(segments.size(), 8);  // JFIF's first
  EXPECT_TRUE(std::equal(spec.segments.begin(), spec.segments.end(), segments.begin() + 1));
}

TEST(SeekableJpegTest, SegmentsBetweenScansAreKept) {
  std::string jpeg = MakeJpeg({.width = 60, .height = 40, .progressive = true});
  const size_t second = jpeg.rfind("\xff\xda");
  jpeg.insert(second, "\xff\xfe\0\x06late"s);
  const auto segments = Segments(ExpectRewritten(jpeg));
  EXPECT_EQ(segments.back().second, "late");
}

TEST(SeekableJpegTest, JfifIsNotMadeUp) {
  std::string jpeg = MakeJpeg({.width = 60, .height = 40});
  const size_t jfif = FindMarker(jpeg, 0xe0);
  jpeg.erase(jfif, 18);
  const std::string out = ExpectRewritten(jpeg);
  EXPECT_EQ(FindMarker(out, 0xe0), std::string::npos);
  EXPECT_EQ(FindMarker(out, 0xee), std::string::npos);
}

TEST(SeekableJpegTest, BytesBehindTheEndAreKept) {
  const std::string jpeg = MakeJpeg({.width = 60, .height = 40});
  const std::string out = ExpectRewritten(jpeg + "\0\0a film of the same moment"s);
  EXPECT_TRUE(out.ends_with("\xff\xd9\0\0a film of the same moment"s));
}

TEST(SeekableJpegTest, SeveralImagesInAFileAreKept) {
  const JpegSpec spec = {.width = 60, .height = 40, .segments = {{JPEG_APP0 + 2, "MPF\0II*\0"s}}};
  ExpectRewritten(MakeJpeg(spec));  // it announces further images, but has none
  ExpectKept(MakeJpeg(spec) + MakeJpeg(spec), Outcome::kUnsupported, "several images in one file");
}

TEST(SeekableJpegTest, KindsThatCannotBeRewrittenAreKept) {
  const std::string jpeg = MakeJpeg({.width = 60, .height = 40});
  const size_t sof = FindMarker(jpeg, 0xc0);
  const auto patched = [&](size_t offset, char value) {
    std::string copy = jpeg;
    copy[sof + offset] = value;
    return copy;
  };
  ExpectKept(MakeJpeg({.width = 60, .height = 40, .arithmetic = true}), Outcome::kUnsupported,
             "arithmetic coding");
  ExpectKept(MakeJpeg({.width = 60, .height = 40, .arithmetic = true, .progressive = true}),
             Outcome::kUnsupported, "arithmetic coding");
  std::string twelve = patched(4, 12);
  ExpectKept(twelve, Outcome::kDamaged,
             "JPEG is damaged at byte " + std::to_string(sof + 4) + ": samples of 12 bits");
  twelve[sof + 1] = '\xc1';
  ExpectKept(twelve, Outcome::kUnsupported, "samples of more than 8 bits");
  ExpectKept(patched(1, '\xc3'), Outcome::kUnsupported, "lossless coding");
  ExpectKept(patched(1, '\xc6'), Outcome::kUnsupported, "hierarchical coding");
  ExpectKept(
      MakeJpeg(
          {.width = 60, .height = 40, .sampling = Sampling(5, {1, 1}), .separate_scans = true}),
      Outcome::kUnsupported, "more than 4 components");
  ExpectKept(MakeJpeg({.width = 60,
                       .height = 40,
                       .sampling = {{2, 2}, {2, 2}, {2, 2}},
                       .separate_scans = true}),
             Outcome::kUnsupported, "sampling factors that need several scans");
  ExpectKept(MakeJpeg({.width = 60, .height = 40, .scans = {{3, {0, 1, 2}, 0, 0, 0, 0}}}),
             Outcome::kUnsupported, "progressive with incomplete coefficients");
}

TEST(SeekableJpegTest, WhatIsSeekableIsNotTouched) {
  // 117 pixels are 8 MCUs in a row.
  for (int interval : {1, 2, 4}) {
    const std::string jpeg = MakeJpeg({.width = 117, .height = 90, .restart_interval = interval});
    EXPECT_TRUE(IsSeekable(jpeg));
    ExpectKept(jpeg, Outcome::kAlready, "");
  }
  for (int interval : {3, 5, 8, 16}) {
    EXPECT_FALSE(IsSeekable(MakeJpeg({.width = 117, .height = 90, .restart_interval = interval})));
  }
  EXPECT_FALSE(IsSeekable(MakeJpeg({.width = 117, .height = 90})));
  EXPECT_FALSE(IsSeekable(
      MakeJpeg({.width = 117, .height = 90, .progressive = true, .restart_interval = 4})));
  EXPECT_FALSE(IsSeekable(
      MakeJpeg({.width = 117, .height = 90, .separate_scans = true, .restart_interval = 4})));
  EXPECT_FALSE(IsSeekable("GIF89a"));
  EXPECT_FALSE(IsSeekable(""));
}

TEST(SeekableJpegTest, SeekableNeedsAllItsMarkers) {
  const std::string jpeg = MakeJpeg({.width = 117, .height = 90, .restart_interval = 4});
  const size_t rst = jpeg.find("\xff\xd3");
  for (char marker : {'\xd4', '\xd9', '\xfe'}) {
    std::string copy = jpeg;
    copy[rst + 1] = marker;
    EXPECT_FALSE(IsSeekable(copy));
    ExpectKept(copy, Outcome::kDamaged, "JPEG is ");
  }
  EXPECT_FALSE(IsSeekable(jpeg.substr(0, jpeg.size() - 2)));
}

TEST(SeekableJpegTest, EveryCutIsDamage) {
  for (const JpegSpec& spec : {JpegSpec{.width = 40, .height = 30},
                               JpegSpec{.width = 40, .height = 30, .progressive = true},
                               JpegSpec{.width = 40, .height = 30, .restart_interval = 3}}) {
    const std::string jpeg = MakeJpeg(spec);
    for (size_t size = 0; size < jpeg.size(); ++size) {
      std::string out;
      const SeekableJpeg result = Make(jpeg.substr(0, size), &out);
      ASSERT_EQ(result.outcome, Outcome::kDamaged) << size;
      ASSERT_THAT(result.reason,
                  AnyOf(fmt::format("JPEG ends in its header, after {} bytes", size),
                        fmt::format("JPEG is cut off: the file ends after {} bytes, before its "
                                    "image",
                                    size),
                        StartsWith("not a JPEG")))
          << size;
    }
  }
}

TEST(SeekableJpegTest, DamageIsTold) {
  const std::string jpeg = MakeJpeg({.width = 60, .height = 40});
  ExpectKept("", Outcome::kDamaged, "not a JPEG: it does not start with ff d8");
  ExpectKept("\x89PNG\r\n", Outcome::kDamaged, "not a JPEG");
  std::string extra = jpeg;
  extra.insert(jpeg.size() - 2, "abc");
  ExpectKept(extra, Outcome::kDamaged, "extraneous bytes before marker 0xd9");
  std::string hole = jpeg;
  const size_t scan = FindMarker(jpeg, 0xda) + 20;
  hole.erase(scan, 100);
  ExpectKept(hole, Outcome::kDamaged, "JPEG is damaged: ");
  std::string tables = jpeg;
  tables.erase(FindMarker(jpeg, 0xdb), 69);
  ExpectKept(tables, Outcome::kDamaged, "JPEG is damaged: Quantization table 0x00 was not defined");
  std::string scans = MakeJpeg({.width = 60, .height = 40, .separate_scans = true});
  scans.replace(scans.rfind("\xff\xda"), std::string::npos, "\xff\xd9");
  ExpectKept(scans, Outcome::kUnsupported, "a component that is in no scan");
  std::string no_size = jpeg;
  no_size.replace(FindMarker(jpeg, 0xc0) + 5, 2, "\0\0"s);
  ExpectKept(no_size, Outcome::kDamaged, "tells its height only after its first scan");
}

// A rewritten image has the coefficients that libjpeg finds in the original, and nothing crashes.
TEST(SeekableJpegTest, SurvivesMutations) {
  std::mt19937 random(1);
  int rewritten = 0;
  for (const JpegSpec& spec : {JpegSpec{.width = 40, .height = 30},
                               JpegSpec{.width = 40, .height = 30, .progressive = true},
                               JpegSpec{.width = 40, .height = 30, .separate_scans = true},
                               JpegSpec{.width = 40, .height = 30, .restart_interval = 3}}) {
    const std::string jpeg = MakeJpeg(spec);
    for (int i = 0; i < 2000; ++i) {
      std::string mutant = jpeg;
      for (int change = static_cast<int>(random() % 3); change >= 0; --change) {
        const size_t at = 2 + random() % (mutant.size() - 2);
        mutant[at] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
      }
      std::string out;
      const SeekableJpeg result = Make(mutant, &out, {.max_pixels = 1 << 20});
      if (result.outcome != Outcome::kRewritten) continue;
      ++rewritten;
      ASSERT_TRUE(Coefficients(out) == Coefficients(mutant));
      ASSERT_TRUE(DecodeByLibjpeg(out, JCS_YCbCr) == DecodeByLibjpeg(mutant, JCS_YCbCr));
    }
  }
  EXPECT_GT(rewritten, 100);
}

}  // namespace
}  // namespace shardfeed
