#include "tfrecord/mds_header.h"

#include "tests/testing/files.h"
#include "tests/testing/mds_shards.h"

namespace shardfeed {
namespace {

using testing::Bytes;
using ::testing::ElementsAre;
using testing::MdsConfig;
using testing::MdsShard;

const std::string kConfig = MdsConfig({{"x", "str"}});
const std::string kShard = MdsShard(kConfig, {"abcde", "fg", "h"});

std::string Wrong(const std::string& shard) {
  const auto parsed = ParseMdsHeader(shard, shard.size());
  EXPECT_FALSE(parsed.ok());
  EXPECT_TRUE(absl::IsDataLoss(parsed.status()));
  return std::string(parsed.status().message());
}

// The shard with another number in place `i` of those that it begins with.
std::string With(size_t i, uint32_t number) {
  std::string shard = kShard;
  StoreLittleEndian(number, shard.data() + 4 * i);
  return shard;
}

TEST(MdsHeader, SaysWhereSamplesAre) {
  const auto parsed = ParseMdsHeader(kShard, kShard.size());
  ASSERT_OK(parsed);
  const auto begin = static_cast<uint32_t>(20 + kConfig.size());
  EXPECT_THAT(parsed->offsets, ElementsAre(begin, begin + 5, begin + 7, begin + 8));
  EXPECT_EQ(parsed->samples(), 3u);
  EXPECT_EQ(parsed->SampleBytes(1), 2u);
  EXPECT_EQ(parsed->columns->config(), kConfig);
  EXPECT_EQ(*MdsHeaderBytes(kShard.substr(0, 8), kShard.size()), begin);
  // Nothing of the samples is needed.
  EXPECT_OK(ParseMdsHeader(kShard.substr(0, begin), kShard.size()));
  EXPECT_EQ(Wrong(kShard.substr(0, begin)).substr(0, 8), "offset 1");
  const std::string none = MdsShard(kConfig, {});
  EXPECT_EQ(ParseMdsHeader(none, none.size())->samples(), 0u);
}

TEST(MdsHeader, NumbersThatLie) {
  EXPECT_EQ(Wrong(""), "an MDS shard that is cut off: it has 0 bytes");
  EXPECT_EQ(Wrong(kShard.substr(0, 7)), "an MDS shard that is cut off: it has 7 bytes");
  const std::string begin = std::to_string(20 + kConfig.size());
  const std::string end = std::to_string(kShard.size());
  EXPECT_EQ(Wrong(With(0, UINT32_MAX)),
            "the MDS shard says at byte 0 that it has 4294967295 samples, whose offsets are more "
            "than the " +
                end + " bytes of the file; it is damaged or cut off");
  EXPECT_EQ(Wrong(With(1, 19)),
            "the first offset of the MDS shard, at byte 4, is 19, which is not between the end of "
            "the offsets, 20, and that of the file, " +
                end);
  EXPECT_EQ(Wrong(With(1, UINT32_MAX)).substr(0, 62),
            "the first offset of the MDS shard, at byte 4, is 4294967295, w");
  for (const uint32_t offset : {0u, static_cast<uint32_t>(20 + kConfig.size()), UINT32_MAX}) {
    EXPECT_EQ(Wrong(With(2, offset)),
              fmt::format("offset 1 of the MDS shard, at byte 8, is {}, which is not between the "
                          "one before it, {}, and the end of the file, {}; it is damaged or cut "
                          "off",
                          offset, begin, end));
  }
  EXPECT_EQ(Wrong(kShard + "x"),
            fmt::format("the samples of the MDS shard end at byte {}, but the file has {} bytes",
                        end, kShard.size() + 1));
  EXPECT_EQ(Wrong(kShard.substr(0, kShard.size() - 1)).substr(0, 8), "offset 3");
  EXPECT_EQ(ParseMdsHeader(kShard.substr(0, 30), kShard.size()).status().message(),
            "the header of the MDS shard is cut off");
}

TEST(MdsHeader, DescriptionsThatAreWrong) {
  EXPECT_EQ(Wrong(MdsShard("{}", {"a"})),
            "the description of the columns does not say that the format is \"mds\", at byte 12");
  const std::string huge = MdsShard(std::string((1 << 20) + 1, ' '), {});
  EXPECT_EQ(Wrong(huge),
            "the description of the columns of the MDS shard, at byte 8, has 1048577 bytes, more "
            "than 1048576");
  EXPECT_EQ(Wrong(MdsShard(std::string(1 << 20, '['), {})),
            "the description of the columns is not a JSON object, at byte 8");
}

TEST(MdsHeader, IsRecognized) {
  EXPECT_TRUE(LooksLikeMds(kShard));
  EXPECT_TRUE(LooksLikeMds(MdsShard(kConfig, {})));
  EXPECT_FALSE(LooksLikeMds(MdsShard("{}", {"a"})));
  EXPECT_FALSE(LooksLikeMds(kShard.substr(0, 40)));
  EXPECT_FALSE(LooksLikeMds(""));
  EXPECT_FALSE(LooksLikeMds(std::string(1000, '\0')));
}

}  // namespace
}  // namespace shardfeed
