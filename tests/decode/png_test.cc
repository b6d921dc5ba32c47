#include "decode/images/formats/png.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

using ::testing::HasSubstr;

TEST(EncodePng, IsDecodedToTheSamePixels) {
  constexpr uint32_t kWidth = 37;
  constexpr uint32_t kHeight = 11;
  std::vector<uint8_t> pixels(kWidth * kHeight * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i / 3);
  std::string png = "what was there before";
  ASSERT_TRUE(EncodePng(pixels.data(), kWidth, kHeight, &png).ok());
  EXPECT_TRUE(png.starts_with("\x89PNG"));
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(png);
  ASSERT_TRUE(header.ok()) << header.status();
  std::vector<uint8_t> decoded;
  ASSERT_TRUE(DecodePng(png, *header, 3, &decoded).ok());
  EXPECT_EQ(decoded, pixels);
}

TEST(EncodePng, ErrorsAreReturnedAndNotPrinted) {
  std::vector<uint8_t> pixels(3 * 1'000'001);  // libpng's limit is a million
  std::string png;
  testing::internal::CaptureStderr();
  const absl::Status status = EncodePng(pixels.data(), 1'000'001, 1, &png);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot make a png of 1000001 x 1 pixels"));
}

TEST(DecodePng, DamageIsReturnedAndNotPrinted) {
  std::vector<uint8_t> pixels(16 * 16 * 3, 100);
  std::string png;
  ASSERT_TRUE(EncodePng(pixels.data(), 16, 16, &png).ok());
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(png);
  ASSERT_TRUE(header.ok()) << header.status();
  testing::internal::CaptureStderr();
  for (size_t i = 8; i < png.size(); ++i) {
    std::string damaged = png;
    damaged[i] ^= 0x41;
    std::vector<uint8_t> decoded;
    DecodePng(damaged, *header, 3, &decoded).IgnoreError();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace shardfeed
