#include "shard/statistics/image_statistics.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;

std::string Gif(uint8_t width, uint8_t height) {
  return std::string("GIF89a") + static_cast<char>(width) + '\0' + static_cast<char>(height) + '\0';
}

// PNG up to its header.
std::string Png(uint8_t width, uint8_t height) {
  return std::string("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0"sv) + static_cast<char>(width) +
         std::string("\0\0\0"sv) + static_cast<char>(height) + std::string("\x08\x02\0\0\0"sv);
}

ImageStatistics Of(const std::vector<std::string>& values) {
  ImageStatistics statistics;
  for (const std::string& value : values) statistics.Add(value);
  return statistics;
}

std::string CodeOf(const ImageStatistics& statistics) {
  StatisticsWriter out;
  statistics.Write(out);
  return std::move(out.code());
}

TEST(ImageStatistics, CountsFormatsAndSizes) {
  const ImageStatistics found = Of({Gif(30, 20), Png(10, 200), Png(12, 20), Gif(10, 20)});
  EXPECT_EQ(found.count(), 4);
  EXPECT_EQ(found.formats(), (std::array<uint64_t, 9>{0, 2, 2, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(found.widths().min, 10);
  EXPECT_EQ(found.widths().max, 30);
  EXPECT_EQ(found.widths().Quantile(0.5), 10);
  EXPECT_EQ(found.heights().min, 20);
  EXPECT_EQ(found.heights().max, 200);
  EXPECT_EQ(found.heights().histogram.Mean(), 65);
}

TEST(ImageStatistics, LeavesOutWhatHasNoSize) {
  const std::string cut = Png(10, 200).substr(0, 20);
  const ImageStatistics found =
      Of({"", "a text", "BMW", "GIF89a", cut, std::string("\xff\xd8\xff\xd9"sv), Gif(0, 5)});
  EXPECT_EQ(found.count(), 0);
  EXPECT_EQ(CodeOf(found), "\0"sv);
}

TEST(ImageStatistics, DoesNotDependOnOrderAndMerging) {
  const std::string all = CodeOf(Of({Gif(30, 20), Png(10, 200), Gif(10, 20)}));
  EXPECT_EQ(CodeOf(Of({Png(10, 200), Gif(10, 20), Gif(30, 20)})), all);
  ImageStatistics merged = Of({Gif(10, 20)});
  merged.Merge(Of({}));
  merged.Merge(Of({Png(10, 200), Gif(30, 20)}));
  EXPECT_EQ(CodeOf(merged), all);
}

TEST(ImageStatistics, ReadsWhatItHasWritten) {
  for (const ImageStatistics& one : {Of({}), Of({Gif(30, 20), Png(10, 200)})}) {
    const std::string code = CodeOf(one);
    StatisticsReader in(code);
    ImageStatistics read;
    read.Read(in);
    EXPECT_TRUE(in.ok() && in.at_end());
    EXPECT_EQ(CodeOf(read), code);
  }
}

TEST(ImageStatistics, RefusesCodesThatContradictThemselves) {
  const std::string code = CodeOf(Of({Gif(30, 20), Gif(30, 21)}));
  const auto reads = [](std::string_view text) {
    StatisticsReader in(text);
    ImageStatistics().Read(in);
    return in.ok() && in.at_end();
  };
  ASSERT_TRUE(reads(code));
  // The number of images, that of GIFs, and the least and the greatest width.
  for (size_t at : {0, 3, 7, 8}) {
    std::string lying = code;
    lying[at] = at == 7 ? 31 : 1;
    EXPECT_FALSE(reads(lying)) << at;
  }
  for (size_t size = 0; size < code.size(); ++size) EXPECT_FALSE(reads(code.substr(0, size)));
}

}  // namespace
}  // namespace shardfeed
