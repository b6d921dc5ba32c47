#include "decode/images/jpeg/restart_markers.h"

#include <random>
#include <string>

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;

TEST(RestartMarkersTest, FindsMarkersWhereverTheyStand) {
  for (size_t size = 0; size < 70; ++size) {
    for (size_t at = 0; at + 1 < size; ++at) {
      std::string bytes(size, 'x');
      bytes[at] = '\xff';
      bytes[at + 1] = '\xd0';
      for (size_t from = 0; from <= size; ++from) {
        ASSERT_EQ(RestartMarkers::FindMarker(bytes, from), from <= at ? at : size);
      }
    }
  }
}

TEST(RestartMarkersTest, StuffedAndFillBytesAreNoMarkers) {
  for (size_t before : {0, 1, 14, 15, 16, 17}) {
    const std::string start(before, 'x');
    EXPECT_EQ(RestartMarkers::FindMarker(start + "\xff\0\xff\0\xff\xff\xd9"s, 0), before + 5);
    EXPECT_EQ(RestartMarkers::FindMarker(start + "\xff\0\xff\xff"s, 0), before + 4);
  }
}

TEST(RestartMarkersTest, FindsAsASlowSearchDoes) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (size_t i = random() % 200; i > 0; --i) bytes += "\0\xff\xd0x"[random() % 4];
    for (size_t from = 0; from <= bytes.size(); ++from) {
      size_t expected = from;
      while (expected < bytes.size() &&
             !(expected + 1 < bytes.size() && bytes[expected] == '\xff' &&
               bytes[expected + 1] != '\0' && bytes[expected + 1] != '\xff')) {
        ++expected;
      }
      ASSERT_EQ(RestartMarkers::FindMarker(bytes, from), expected);
    }
  }
}

TEST(RestartMarkersTest, FindsIntervalsInTurn) {
  std::string bytes = "head";
  std::vector<size_t> begins = {4};
  for (int i = 0; i < 20; ++i) {
    bytes += std::string(i, 'x') + '\xff' + static_cast<char>(0xd0 + i % 8);
    begins.push_back(bytes.size());
  }
  bytes += "last\xff\xd9";
  RestartMarkers markers;
  for (int round = 0; round < 2; ++round) {
    markers.Start(bytes, 4);
    for (size_t number : {3, 0, 20, 7}) {
      size_t begin = 0;
      ASSERT_TRUE(markers.Find(number, &begin));
      EXPECT_EQ(begin, begins[number]);
    }
    size_t begin = 0;
    EXPECT_FALSE(markers.Find(21, &begin));
  }
}

TEST(RestartMarkersTest, MarkersOutOfTurnEndTheSearch) {
  RestartMarkers markers;
  const std::string bytes =
      "a\xff\xd0"
      "b\xff\xd2"
      "c\xff\xd3";
  markers.Start(bytes, 0);
  size_t begin = 0;
  EXPECT_TRUE(markers.Find(1, &begin));
  EXPECT_EQ(begin, 3);
  EXPECT_FALSE(markers.Find(2, &begin));
}

}  // namespace
}  // namespace shardfeed
