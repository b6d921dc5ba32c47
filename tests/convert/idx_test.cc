#include "convert/sources/idx.h"

#include "convert/sources/cifar.h"
#include "tests/convert/source_fixture.h"
#include "tfrecord/gzip_members.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;

std::string BigEndian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string Idx(char type, std::vector<uint32_t> dimensions, std::string_view values) {
  std::string bytes = "\0\0"s + type + static_cast<char>(dimensions.size());
  for (uint32_t dimension : dimensions) bytes += BigEndian(dimension);
  return bytes.append(values);
}

std::string Gzip(std::string_view content) {
  std::string bytes;
  AppendGzipMember(content, 6, &bytes);
  return bytes;
}

class IdxTest : public SourceTest {
 protected:
  void ExpectScanError(std::vector<std::string> paths, const std::string& message) {
    ExpectError(Scan(**MakeIdxSource(std::move(paths))), absl::StatusCode::kDataLoss, message);
  }
};

TEST_F(IdxTest, ImagesAndLabels) {
  const std::string images = Write("i", Idx(8, {2, 1, 3}, "abcdef"));
  const std::string labels = Write("l", Idx(8, {2}, "\x07\xff"));
  const auto expected = ElementsAre(
      "image/channels=int64[1] image/class/label=int64[7] image/height=int64[1] "
      "image/raw=bytes[abc] image/width=int64[3]",
      "image/channels=int64[1] image/class/label=int64[255] image/height=int64[1] "
      "image/raw=bytes[def] image/width=int64[3]");
  EXPECT_THAT(Texts(Convert(**MakeIdxSource({images, labels}))), expected);
  EXPECT_THAT(Texts(Convert(**MakeIdxSource({labels, images}))), expected);
  const std::string gz = Write("i.gz", Gzip(Idx(8, {2, 1, 3}, "abcdef")));
  EXPECT_THAT(Texts(Convert(**MakeIdxSource({gz, labels}))), expected);
}

TEST_F(IdxTest, SeveralSetsColorsAndWideLabels) {
  const std::string a = Write("a", Idx(8, {1, 1, 1, 3}, "rgb"));
  const std::string b = Write("b", Idx(8, {1, 2, 1}, "xy"));
  const std::string c = Write("c", Idx(0x0c, {1}, "\xff\xff\xff\xfe"));
  const std::string d = Write("d", Idx(0x0b, {1}, "\x01\x02"));
  EXPECT_THAT(Texts(Convert(**MakeIdxSource({a, b, c, d}))),
              ElementsAre("image/channels=int64[3] image/class/label=int64[-2] "
                          "image/height=int64[1] image/raw=bytes[rgb] image/width=int64[1]",
                          "image/channels=int64[1] image/class/label=int64[258] "
                          "image/height=int64[2] image/raw=bytes[xy] image/width=int64[1]"));
  EXPECT_THAT(Texts(Convert(**MakeIdxSource({b}))),
              ElementsAre("image/channels=int64[1] image/height=int64[2] image/raw=bytes[xy] "
                          "image/width=int64[1]"));
}

TEST_F(IdxTest, ClassMapNamesTheLabels) {
  const std::string images = Write("i", Idx(8, {2, 1, 1}, "ab"));
  const std::string labels = Write("l", Idx(8, {2}, "\1\2"));
  auto source =
      *MakeIdxSource({images, labels}, {.classes = *ClassMap::Read(Write("c", "cat\ndog\n"))});
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(Text(*BuildItem(*source, Items(*source)[0])),
              testing::HasSubstr("image/class/text=bytes[dog]"));
  ExpectError(BuildItem(*source, Items(*source)[1]).status(), absl::StatusCode::kDataLoss,
              "l: label 2 of record 1 is not in " + Path("c"));
}

TEST_F(IdxTest, DefectsAreTold) {
  const std::string images = Write("i", Idx(8, {2, 1, 1}, "ab"));
  const std::string labels = Write("l", Idx(8, {3}, "abc"));
  ExpectScanError({images, labels}, "i: 2 images, but " + labels + " holds 3 labels");
  ExpectScanError({images, labels, labels}, "1 files of images and 2 of labels");
  ExpectScanError({labels}, "l: a file of labels without a file of images");
  ExpectScanError({Write("x", "")},
                  "x: not an IDX file: expected two zero bytes, a type and the number of "
                  "dimensions at its start, got \"\"");
  ExpectScanError({Write("x", "hello")},
                  "x: not an IDX file: expected two zero bytes, a type and the number of "
                  "dimensions at its start, got \"hell\"");
  ExpectScanError({Write("x", "\0\0\x07\3"s)}, "not an IDX file");
  ExpectScanError({Write("x", "\0\0\x08\3\0\0\0\1\0"s)},
                  "x: the file ends at byte 9, inside its header of 3 dimensions");
  ExpectScanError({Write("x", Idx(0x0d, {1, 1, 1}, "1234"))},
                  "x: expected images (unsigned bytes in 3 or 4 dimensions) or labels (integers in "
                  "1 dimension), got float32 values in 3 dimensions");
  ExpectScanError({Write("x", Idx(8, {4, 1}, "1234"))},
                  "x: expected images (unsigned bytes in 3 or 4 dimensions) or labels (integers in "
                  "1 dimension), got unsigned byte values in 2 dimensions");
  ExpectScanError(
      {Write("x", Idx(8, {4, 1, 2}, "1234"))},
      "x: the header announces 4 records of 2 bytes, 24 bytes in total, but the file ends at "
      "byte 20, 4 bytes too early");
  ExpectScanError({Write("x", Gzip(Idx(8, {4, 1, 2}, "1234")))},
                  "ends at byte 20 of the decompressed data, 4 bytes too early");
  ExpectScanError(
      {Write("x", Idx(8, {1, 1, 2}, "123"))},
      "x: the header announces 1 records of 2 bytes, which end at byte 18, but more data follows");
  ExpectScanError({Write("x", Idx(8, {1, 0, 2}, ""))}, "x: images of size 0 x 2 are empty");
  ExpectScanError({Write("x", Idx(8, {1, 0xffffffff, 0xffffffff}, ""))},
                  "a record holds at most 2 GiB");
  ExpectScanError({Write("x", Idx(8, {0xffffffff, 0x7fff, 0xf000}, ""))}, "too early");
  ExpectScanError({Write("x", Idx(8, {0, 2, 2}, ""))}, "x: no records: 0 images");
  const std::string whole = Gzip(Idx(8, {2, 1, 1}, "ab"));
  ExpectScanError({Write("x", whole.substr(0, whole.size() - 3))}, "x: ");
  ExpectError(MakeIdxSource({}).status(), absl::StatusCode::kInvalidArgument, "expected IDX files");
}

class CifarTest : public SourceTest {
 protected:
  // One record whose pixel i is (i, i + 1, i + 2), modulo 256.
  static std::string RecordOf(std::string_view labels) {
    std::string bytes(labels);
    for (int channel = 0; channel < 3; ++channel) {
      for (int i = 0; i < 1024; ++i) bytes += static_cast<char>(i + channel);
    }
    return bytes;
  }
  void ExpectScanError(const std::string& content, int variant, const std::string& message) {
    ExpectError(Scan(**MakeCifarSource({Write("x.bin", content)}, {.variant = variant})),
                absl::StatusCode::kDataLoss, message);
  }
};

TEST_F(CifarTest, PlanesBecomePixels) {
  auto source = *MakeCifarSource({Write("a.bin", RecordOf("\7") + RecordOf("\2"))});
  const std::vector<Example> examples = Convert(*source);
  ASSERT_EQ(examples.size(), 2);
  const auto& features = examples[0].features().feature();
  const std::string& raw = features.at("image/raw").bytes_list().value(0);
  ASSERT_EQ(raw.size(), 3072);
  EXPECT_EQ(raw.substr(0, 6), "\0\1\2\1\2\3"s);
  EXPECT_EQ(features.at("image/class/label").int64_list().value(0), 7);
  EXPECT_EQ(features.at("image/channels").int64_list().value(0), 3);
  EXPECT_EQ(features.at("image/height").int64_list().value(0), 32);
  EXPECT_EQ(features.count("image/class/coarse_label"), 0);
}

TEST_F(CifarTest, HundredClassesHaveTwoLabels) {
  auto source = *MakeCifarSource({Write("a.bin", Gzip(RecordOf("\x13\x63")))});
  const std::vector<Example> examples = Convert(*source);
  ASSERT_EQ(examples.size(), 1);
  const auto& features = examples[0].features().feature();
  EXPECT_EQ(features.at("image/class/coarse_label").int64_list().value(0), 19);
  EXPECT_EQ(features.at("image/class/label").int64_list().value(0), 99);
}

TEST_F(CifarTest, DefectsAreTold) {
  ExpectScanError("", 10, "x.bin: no records: the file is empty");
  ExpectScanError("", 0, "x.bin: the sizes fit both CIFAR-10 and CIFAR-100");
  ExpectScanError(
      RecordOf("\7") + "xyz", 0,
      "x.bin: expected a multiple of 3073 bytes (CIFAR-10) or 3074 bytes (CIFAR-100), got 3076");
  ExpectScanError(
      RecordOf("\7") + RecordOf("\7").substr(0, 99), 10,
      "x.bin: expected a multiple of 3073 bytes (CIFAR-10), got 3172: the last record, at byte "
      "3073, is cut");
  auto source = *MakeCifarSource({Write("x.bin", RecordOf("\7") + RecordOf("\x0a"))});
  ASSERT_TRUE(Scan(*source).ok());
  ExpectError(BuildItem(*source, Items(*source)[1]).status(), absl::StatusCode::kDataLoss,
              "x.bin: record 1 at byte 3073: the label 10 is out of range; the file must be of the "
              "binary version of CIFAR-10");
  source = *MakeCifarSource({Write("x.bin", RecordOf("\x14\x01"))});
  ASSERT_TRUE(Scan(*source).ok());
  ExpectError(BuildItem(*source, Items(*source)[0]).status(), absl::StatusCode::kDataLoss,
              "the coarse label 20 is out of range");
  ExpectError(MakeCifarSource({"x"}, {.variant = 11}).status(), absl::StatusCode::kInvalidArgument,
              "expected variant 10 or 100, got 11");
}

}  // namespace
}  // namespace shardfeed
