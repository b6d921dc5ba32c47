#include "convert/sources/tar.h"

#include <random>

#include "convert/input/tar_reader.h"
#include "fmt/format.h"
#include "tests/convert/source_fixture.h"
#include "tests/testing/tar_members.h"
#include "tfrecord/gzip_members.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;

using testing::Member;
using testing::Pax;

const std::string kEnd(1024, '\0');

class TarTest : public SourceTest {
 protected:
  std::unique_ptr<Source> Open(const std::string& content, TarOptions options = {}) {
    return *MakeTarSource({Write("a.tar", content)}, options);
  }
  // Both uncompressed and compressed.
  void ExpectRecords(const std::string& content, const std::vector<std::string>& records,
                     TarOptions options = {}) {
    EXPECT_EQ(Texts(Convert(*Open(content, options))), records);
    std::string gzip;
    AppendGzipMember(content, 1, &gzip);
    EXPECT_EQ(Texts(Convert(*Open(gzip, options))), records);
  }
  void ExpectScanError(const std::string& content, const std::string& message,
                       TarOptions options = {}) {
    ExpectError(Scan(*Open(content, options)), absl::StatusCode::kDataLoss, message);
  }
};

TEST_F(TarTest, FilesThatShareAStemAreARecord) {
  ExpectRecords(Member("d/", "", '5') + Member("d/a.JPG", "image") + Member("d/a.cls", "3\n") +
                    Member("d/a.seg.png", "mask") + Member("d/b.jpg", "") +
                    Member("d/b.cls", "-1") + kEnd,
                {"__key__=bytes[d/a] cls=int64[3] jpg=bytes[image] seg.png=bytes[mask]",
                 "__key__=bytes[d/b] cls=int64[-1] jpg=bytes[]"});
}

TEST_F(TarTest, NumbersAreInferredOverTheWholeInput) {
  ExpectRecords(Member("a.cls", "1") + Member("b.cls", "2.5") + kEnd,
                {"__key__=bytes[a] cls=float[1]", "__key__=bytes[b] cls=float[2.5]"});
  ExpectRecords(Member("a.cls", "1\n") + Member("b.cls", "cat\n") + kEnd,
                {"__key__=bytes[a] cls=bytes[1\n]", "__key__=bytes[b] cls=bytes[cat\n]"});
  auto source = Open(Member("a.cls", "1") + Member("b.cls", "cat") + kEnd);
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(), ElementsAre("cls is bytes because of \"cat\" in record 1 of " +
                                           Path("a.tar") + "; 1 of its values is a number"));
}

TEST_F(TarTest, WhatClassesLoseIsNoted) {
  auto source = Open(Member("a.cls", "cat") + Member("b.cls", "1") + Member("c.cls", "dog") +
                     Member("d.cls", "") + kEnd);
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(),
              ElementsAre("cls is bytes because of \"cat\" in record 0 of " + Path("a.tar") +
                          " and 1 other; 1 of its values is a number"));
  source = Open(Member("a.cls", "1") + Member("b.cls", " ") + kEnd);
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(),
              ElementsAre("1 of 2 .cls are empty, so their records lack the feature"));
  source =
      Open(Member("a.cls", "1.5") + Member("b.cls", "16777217") + Member("c.cls", "1e-50") + kEnd);
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(), ElementsAre("cls: 2 values lose digits because floats have 32 bits, "
                                           "the first is \"16777217\" in record 1 of " +
                                           Path("a.tar")));
}

TEST_F(TarTest, TwoSourcesOfAFeatureAreRefused) {
  ExpectScanError(Member("a.json", "{\"x\": 1}") + Member("a.json.x", "2") + kEnd,
                  "a.tar: the members that end with .json.x and a key of the JSON both become the "
                  "feature \"json.x\"",
                  {.parse_json = true});
  ExpectScanError(Member("a.__key__", "b") + kEnd,
                  "a.tar: a member ends with .__key__, but this feature is the name of the record");
}

TEST_F(TarTest, JsonMayBeginWithAByteOrderMark) {
  ExpectRecords(Member("a.json", "\xef\xbb\xbf{\"x\": 1}") + kEnd,
                {"__key__=bytes[a] json.x=int64[1]"}, {.parse_json = true});
}

TEST_F(TarTest, OtherNamesArePassedOverAndNoted) {
  auto source = Open(Member("./a.txt", "x") + Member("._a.txt", "") + Member("README", "") +
                     Member("__meta__.json", "") + Member("b.cls", "1") + kEnd);
  EXPECT_THAT(Texts(Convert(*source)),
              ElementsAre("__key__=bytes[a] txt=bytes[x]", "__key__=bytes[b] cls=int64[1]"));
  EXPECT_THAT(source->notes(),
              ElementsAre("skipped 3 members with hidden names or without an ending: ._a.txt, "
                          "README, __meta__.json",
                          "1 of 2 records have no .txt", "1 of 2 records have no .cls"));
}

TEST_F(TarTest, LongNamesOfEveryKind) {
  const std::string longest = std::string(300, 'n') + "/" + std::string(90, 'm') + ".txt";
  const std::string record =
      "__key__=bytes[" + longest.substr(0, longest.size() - 4) + "] txt=bytes[x]";
  ExpectRecords(
      Member("././@LongLink", longest + "\0"s, 'L') + Member(longest.substr(0, 99), "x") + kEnd,
      {record});
  ExpectRecords(Pax({{"mtime", "1.5"}, {"path", longest}}) + Member("short.txt", "x") + kEnd,
                {record});
  ExpectRecords(Member(longest.substr(301), "x", '0', "", longest.substr(150, 150)) + kEnd,
                {"__key__=bytes[" + longest.substr(150, longest.size() - 154) + "] txt=bytes[x]"});
  ExpectRecords(Pax({{"comment", "x"}}, 'g') + Member("a.txt", "x") + kEnd,
                {"__key__=bytes[a] txt=bytes[x]"});
}

TEST_F(TarTest, SizesOfEveryKind) {
  ExpectRecords(Member("a.txt", "xyz", '0', "", "", "\x80\0\0\0\0\0\0\0\0\0\0\3"s) +
                    Member("b.txt", "xyz", '\0', "", "", "        3 \0 "s) + Pax({{"size", "3"}}) +
                    Member("c.txt", "xyz", '7', "", "", "00000000000") + kEnd,
                {"__key__=bytes[a] txt=bytes[xyz]", "__key__=bytes[b] txt=bytes[xyz]",
                 "__key__=bytes[c] txt=bytes[xyz]"});
}

TEST_F(TarTest, JsonIsParsedOnRequest) {
  const std::string tar = Member("a.json", "{\"x\": 1, \"y\": {\"z\": [1, 2]}}\n") +
                          Member("b.json", "{\"x\": 0.5}") + kEnd;
  ExpectRecords(tar,
                {"__key__=bytes[a] json.x=float[1] json.y.z=int64[1 2]",
                 "__key__=bytes[b] json.x=float[0.5]"},
                {.parse_json = true});
  ExpectRecords(tar, {"__key__=bytes[a] json=bytes[{\"x\": 1, \"y\": {\"z\": [1, 2]}}\n]",
                      "__key__=bytes[b] json=bytes[{\"x\": 0.5}]"});
  ExpectScanError(Member("a.json", "{\"x\": tru}") + kEnd,
                  "a.tar: the JSON of \"a\": byte 10: syntax error", {.parse_json = true});
  ExpectScanError(Member("a.json", "1, \"y\": 2") + kEnd,
                  "a.tar: the JSON of \"a\": ", {.parse_json = true});
  ExpectScanError(Member("a.json", "{\"x\": 1}") + Member("b.json", "{\"x\": \"1\"}") + kEnd,
                  "a.tar: the JSON of \"b\" at byte 1024: \"json.x\": text here, but a number at " +
                      Path("a.tar") + " (record 0)",
                  {.parse_json = true});
}

TEST_F(TarTest, WhatMustNotBeIsRefused) {
  ExpectScanError(Member("a.txt", "") + Member("a.png", "", '2', "x/y.png") + kEnd,
                  "a.tar: \"a.png\" at byte 512 is a link to \"x/y.png\", which is not followed; "
                  "archive the file instead (tar --dereference --hard-dereference)");
  ExpectScanError(Member("a.png", "", '1', "b.png") + kEnd, "\"a.png\" at byte 0 is a link to");
  ExpectScanError(Member("a.png", "", '3') + kEnd, "\"a.png\" at byte 0 is a pipe or a device");
  for (const char* name : {"../a.txt", "x/../../a.txt", "/etc/a.txt", "x/.."}) {
    ExpectScanError(Member(name, "") + kEnd, "at byte 0 leads outside the archive; rename it");
  }
  ExpectScanError(Member("a.txt", "") + Member("a.TXT", "") + kEnd,
                  "a.tar: \"a.TXT\" at byte 512 appears twice");
  ExpectScanError(Member("a.txt", "") + Member("b.txt", "") + Member("a.png", "") + kEnd,
                  "a.tar: \"a.png\" at byte 1024 is not next to the other files of its "
                  "record; sort the archive (tar --sort=name)");
  ExpectScanError(Member("a.\xff", "") + kEnd, "the ending \"\\xff\" is not UTF-8");
  ExpectScanError(Member("a", "") + kEnd,
                  "a.tar: no records, only a: the archive contains no files");
  ExpectScanError(kEnd, "a.tar: no records: the archive contains no files with a dot");
  std::string many;
  for (int i = 0; i <= 1000; ++i) many += Member(fmt::format("a.{}.txt", i), "");
  ExpectScanError(many + kEnd, "more than 1000 different endings, the last of them \"1000.txt\"");
  ExpectError(MakeTarSource({}).status(), absl::StatusCode::kInvalidArgument,
              "expected tar archives");
}

TEST_F(TarTest, DamageIsTold) {
  const std::string two = Member("a.txt", "x") + Member("b.txt", "y");
  ExpectScanError("", "a.tar: the file is empty");
  ExpectScanError("short", "a.tar: not a tar archive: no header at byte 0");
  ExpectScanError(
      std::string(600, 'x'),
      "a.tar: not a tar archive, or its first header is damaged: no header, but \"xxxxxxxx");
  ExpectScanError(two,
                  "a.tar: the archive is cut off: it ends after a member, without the zero blocks "
                  "that end a tar, at byte 2048");
  ExpectScanError(two.substr(0, 1100),
                  "the archive is cut off: it ends inside a header, without the "
                  "zero blocks that end a tar, at byte 1100");
  ExpectScanError(two.substr(0, 1800),
                  "the archive is cut off: it ends in the padding after \"b.txt\", "
                  "0 bytes before that member's end, at byte 1800");
  ExpectScanError(
      Member("a.txt", std::string(600, 'x')).substr(0, 700),
      "the archive is cut off: it ends inside \"a.txt\", 412 bytes before that member's end, at "
      "byte 700");
  ExpectScanError(Member("a.cls", std::string(600, 'x')).substr(0, 700),
                  "it ends inside \"a.cls\"");
  std::string damaged = two + kEnd;
  damaged[1024 + 3] ^= 1;
  ExpectScanError(damaged, "a.tar: a damaged header, whose checksum is wrong, at byte 1024");
  ExpectScanError(two + kEnd + two + kEnd,
                  "a.tar: the archive ends at byte 2048, but other data follows, as if several tar "
                  "files had been concatenated; split them: at byte 3072");
  ExpectScanError(Member("a.txt", "", '0', "", "", "0000000000x") + kEnd,
                  "a header without a valid size at byte 0");
  ExpectScanError(
      Member("a.txt", "", '0', "", "", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff") + kEnd,
      "a header without a valid size");
  ExpectScanError(
      Member("a.txt", "", '0', "", "", "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"s) + kEnd,
      "it ends inside \"a.txt\"");
  ExpectScanError(Member("a.txt", "", 'S') + kEnd, "a sparse member, which is not supported");
  ExpectScanError(Pax({{"GNU.sparse.major", "1"}}) + Member("a.txt", "") + kEnd, "a sparse member");
  ExpectScanError(Member("a.txt", "", 'M') + kEnd, "the rest of a member from another volume");
  ExpectScanError(Member("a.txt", "", '!') + kEnd, "a member of unknown type \"!\" at byte 0");
  ExpectScanError(Member("x", "9999999 a=b\n", 'x') + Member("a.txt", "") + kEnd,
                  "damaged pax records of a member at byte 0");
  ExpectScanError(Pax({{"size", "-1"}}) + Member("a.txt", "") + kEnd, "damaged pax records");
  ExpectScanError(Pax({{"path", "x"}}, 'g') + kEnd, "global pax records with names or sizes");
  ExpectScanError(Pax({{"path", "x.txt"}}) + kEnd,
                  "the archive ends after the name of a member, before the member, at byte 1024");
  ExpectScanError(Pax({{"path", "x.txt"}}).substr(0, 520),
                  "the archive is cut off: it ends inside a header, without the zero blocks that "
                  "end a tar, at byte 520");
  ExpectScanError(Member("x", "", 'L', "", "", "77777777777"),
                  "more than the supported 1048576, at byte 0");
  std::string gzip;
  AppendGzipMember(two + kEnd, 1, &gzip);
  ExpectScanError(gzip.substr(0, gzip.size() - 5), "a.tar: ");
  gzip.clear();
  AppendGzipMember(two, 1, &gzip);
  ExpectScanError(gzip, "at byte 2048 of the decompressed data");
}

TEST_F(TarTest, AnyBytesAreSafe) {
  const std::string sound = Member("a.txt", "some text") +
                            Pax({{"path", "b/c.cls"}, {"size", "2"}}) + Member("b.cls", "12") +
                            Member("long", "n.json\0"s, 'L') + Member("x", "{\"x\": 1}") + kEnd;
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = sound;
    for (int n = random() % 3; n >= 0; --n) {
      // The checksum is recomputed, so that the rest is tested as well.
      const size_t block = random() % (bytes.size() / 512);
      std::string header = bytes.substr(512 * block, 512);
      header[random() % 4 == 0 ? random() % 512 : 100 + random() % 60] =
          static_cast<char>(random());
      header.replace(148, 8, "        ");
      uint32_t sum = 0;
      for (char c : header) sum += static_cast<unsigned char>(c);
      header.replace(148, 8, fmt::format("{:06o}", sum) + "\0 "s);
      bytes.replace(512 * block, 512, header);
    }
    if (random() % 2 == 0) bytes.resize(random() % bytes.size());
    auto source = Open(bytes, {.parse_json = true});
    if (!Scan(*source).ok()) continue;
    for (const Kept& item : Items(*source)) BuildItem(*source, item).status().IgnoreError();
  }
}

}  // namespace
}  // namespace shardfeed
