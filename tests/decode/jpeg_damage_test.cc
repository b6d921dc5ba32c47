// libjpeg decides which JPEGs are damaged: it is the reference, from the first byte of a file to
// the end of its image (EOI).
//
//   bazel test --config=opt //tests/decode:jpeg_damage_test --test_env=JPEG_MUTANTS=20000
//
// tests that many mutants of each of ten kinds of JPEG, instead of 1,200.

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "decode/images/jpeg/jpeg.h"
#include "decode/images/jpeg/seekable_jpeg.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "media/image_header.h"
#include "tests/decode/jpeg_images.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::DecodeByLibjpeg;
using testing::FindMarker;
using ::testing::HasSubstr;
using testing::JpegSpec;
using testing::MakeJpeg;
using testing::Pixels;

constexpr uint64_t kMaxPixels = 1 << 22;

JpegCrop Whole(const Pixels& pixels, int scale_denominator = 1) {
  const auto scaled = [&](uint32_t size) {
    return (size + scale_denominator - 1) / scale_denominator;
  };
  return {.scale_denominator = scale_denominator,
          .width = scaled(pixels.width),
          .height = scaled(pixels.height)};
}

struct Decoded {
  absl::Status status;
  std::vector<uint8_t> pixels;
};

Decoded Decode(JpegDecoder& decoder, const std::string& jpeg, const JpegCrop& crop) {
  Decoded decoded;
  const size_t row_bytes = size_t{3} * crop.width;
  decoded.pixels.resize(row_bytes * crop.height);
  decoded.status = decoder.DecodeCrop(jpeg, crop, decoded.pixels.data(), row_bytes);
  return decoded;
}

std::string Mutant(const std::string& jpeg, std::mt19937& random, std::string* how) {
  std::string mutant = jpeg;
  const size_t at = 2 + random() % (jpeg.size() - 2);
  const auto byte = [&] { return static_cast<char>(random() % 4 == 0 ? 0xff : random()); };
  switch (random() % 8) {
    case 0:
    case 1:
    case 2:
      mutant[at] = static_cast<char>(mutant[at] ^ (1 << random() % 8));
      *how = fmt::format("a bit of byte {} flipped", at);
      break;
    case 3:
      mutant[at] = byte();
      *how = fmt::format("byte {} changed", at);
      break;
    case 4:
      mutant.resize(at);
      *how = fmt::format("cut after {} bytes", at);
      break;
    case 5:
      for (uint64_t n = 1 + random() % 3; n > 0; --n) mutant.insert(mutant.begin() + at, byte());
      *how = fmt::format("bytes put in at {}", at);
      break;
    case 6:
      mutant.erase(at, 1 + random() % 5);
      *how = fmt::format("bytes left out at {}", at);
      break;
    case 7: {
      // Near the end, where the bytes after the last MCU matter.
      const size_t near = mutant.size() - 1 - random() % std::min<size_t>(24, mutant.size() - 2);
      mutant[near] = static_cast<char>(mutant[near] ^ (1 << random() % 8));
      *how = fmt::format("a bit of byte {} flipped", near);
      break;
    }
  }
  return mutant;
}

class JpegDamageTest : public ::testing::Test {
 protected:
  // Counts how many mutants were intact, damaged, and undecodable.
  struct Verdicts {
    int sound = 0;
    int damaged = 0;
    int unreadable = 0;
  };

  void Judge(const std::string& jpeg, Verdicts* verdicts) {
    const absl::StatusOr<ImageHeader> header = ReadImageHeader(jpeg);
    if (header.ok() && uint64_t{header->width} * header->height > kMaxPixels) return;
    const Pixels referee = DecodeByLibjpeg(jpeg);
    const bool decodes = referee.error.empty();
    const bool sound = decodes && referee.warnings == 0;
    ++(sound ? verdicts->sound : decodes ? verdicts->damaged : verdicts->unreadable);
    if (decodes) {
      ASSERT_TRUE(header.ok()) << header.status();
      ASSERT_EQ(header->width, referee.width);
      ASSERT_EQ(header->height, referee.height);
    }
    const Pixels size = {.width = header.ok() ? header->width : 1,
                         .height = header.ok() ? header->height : 1};
    for (int denominator : {1, 8}) {
      const Decoded decoded = Decode(strict_, jpeg, Whole(size, denominator));
      ASSERT_EQ(decoded.status.ok(), sound)
          << "1/" << denominator << " " << decoded.status << "; libjpeg: " << referee.error << " "
          << referee.warnings;
      if (sound && denominator == 1) {
        ASSERT_TRUE(decoded.pixels == referee.values);
      }
    }
    const Decoded accepted = Decode(tolerant_, jpeg, Whole(size));
    if (decodes) {
      ASSERT_OK(accepted.status);
      ASSERT_TRUE(accepted.pixels == referee.values);
    }
    std::string seekable;
    const absl::StatusOr<SeekableJpeg> rewritten = MakeSeekable(jpeg, {}, &seekable);
    ASSERT_OK(rewritten);
    using Outcome = SeekableJpeg::Outcome;
    if (sound) {
      ASSERT_NE(rewritten->outcome, Outcome::kDamaged) << rewritten->reason;
    } else if (decodes) {
      ASSERT_EQ(rewritten->outcome, Outcome::kDamaged);
    }
  }

  Verdicts JudgeMutants(const JpegSpec& spec, int count) {
    const std::string jpeg = MakeJpeg(spec);
    std::mt19937 random(spec.seed);
    Verdicts verdicts;
    Judge(jpeg, &verdicts);
    EXPECT_EQ(verdicts.sound, 1);
    for (int i = 0; i < count && !HasFailure(); ++i) {
      std::string how;
      const std::string mutant = Mutant(jpeg, random, &how);
      SCOPED_TRACE(fmt::format("mutant {} of {} bytes: {}", i, jpeg.size(), how));
      Judge(mutant, &verdicts);
    }
    return verdicts;
  }

  JpegDecoder strict_{{.max_pixels = kMaxPixels}};
  JpegDecoder tolerant_{{.max_pixels = kMaxPixels, .accept_damaged = true}};
};

TEST_F(JpegDamageTest, LibjpegsVerdictOnMutantsIsOurs) {
  const std::vector<std::pair<int, int>> gray = {{1, 1}};
  const std::vector<std::pair<int, int>> full = {{1, 1}, {1, 1}, {1, 1}};
  const char* const more = std::getenv("JPEG_MUTANTS");
  Verdicts all;
  for (const JpegSpec& spec :
       {JpegSpec{.width = 40, .height = 30}, JpegSpec{.width = 57, .height = 43, .sampling = gray},
        JpegSpec{.width = 33, .height = 50, .sampling = full, .optimized = true},
        JpegSpec{.width = 64, .height = 48, .restart_interval = 4},
        JpegSpec{.width = 64, .height = 48, .sampling = gray, .restart_interval = 3},
        JpegSpec{.width = 40, .height = 30, .progressive = true},
        JpegSpec{.width = 40, .height = 30, .progressive = true, .restart_interval = 2},
        JpegSpec{.width = 40, .height = 30, .separate_scans = true},
        JpegSpec{.width = 40, .height = 30, .arithmetic = true},
        JpegSpec{.width = 40, .height = 30, .rgb = true}}) {
    const Verdicts verdicts = JudgeMutants(spec, more == nullptr ? 1200 : std::atoi(more));
    ASSERT_FALSE(HasFailure()) << spec.width << " " << spec.restart_interval;
    all.sound += verdicts.sound;
    all.damaged += verdicts.damaged;
    all.unreadable += verdicts.unreadable;
  }
  EXPECT_GT(all.sound, 2000);
  EXPECT_GT(all.damaged, 2000);
  EXPECT_GT(all.unreadable, 500);
}

// Large enough to be skimmed, see JpegSkimmer.
TEST_F(JpegDamageTest, LibjpegsVerdictOnLargeMutantsIsOurs) {
  const Verdicts verdicts = JudgeMutants({.width = 900, .height = 800}, 250);
  EXPECT_GT(verdicts.sound, 20);
  EXPECT_GT(verdicts.damaged, 20);
}

TEST_F(JpegDamageTest, WhatFollowsTheLastMcuIsJudged) {
  const std::string jpeg = MakeJpeg({.width = 40, .height = 30});
  const JpegCrop all = {.width = 40, .height = 30};
  const size_t eoi = jpeg.size() - 2;
  const auto message = [&](const std::string& damaged) {
    return std::string(Decode(strict_, damaged, all).status.message());
  };
  EXPECT_THAT(message(jpeg.substr(0, eoi)), HasSubstr("JPEG is cut off: the file ends after"));
  EXPECT_THAT(message(jpeg.substr(0, eoi) + std::string(9, '\x12') + "\xff\xd9"),
              HasSubstr("extraneous bytes before marker 0xd9"));
  EXPECT_EQ(message(jpeg.substr(0, eoi) + "\xff\xff\xff\xd9"), "");
  EXPECT_EQ(message(jpeg + "behind the image there may be anything"), "");
  // A comment between the image and its end.
  EXPECT_EQ(message(jpeg.substr(0, eoi) + std::string("\xff\xfe\0\x04hi", 6) + "\xff\xd9"), "");
  // A crop that does not reach the end does not check it.
  EXPECT_OK(Decode(strict_, jpeg.substr(0, eoi), {.width = 40, .height = 10}).status);
}

TEST_F(JpegDamageTest, JunkInTheHeaderIsDamageThatCanBeAccepted) {
  const std::string jpeg = MakeJpeg({.width = 40, .height = 30});
  const JpegCrop all = {.width = 40, .height = 30};
  const size_t at = FindMarker(jpeg, 0xc0);
  std::string junk = jpeg;
  junk.insert(at, "junk");
  EXPECT_EQ(Decode(strict_, junk, all).status.message(),
            fmt::format("JPEG is damaged at byte {}: expected a marker (0xff), found 0x6a", at));
  const Decoded accepted = Decode(tolerant_, junk, all);
  ASSERT_OK(accepted.status);
  EXPECT_TRUE(accepted.pixels == DecodeByLibjpeg(jpeg).values);
  EXPECT_OK(ReadImageHeader(junk));
}

}  // namespace
}  // namespace shardfeed
