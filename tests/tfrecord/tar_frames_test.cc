#include "tfrecord/tar_frames.h"

#include <map>
#include <random>

#include "fmt/format.h"
#include "tests/testing/files.h"
#include "tests/testing/tar_members.h"
#include "tfrecord/example_reader.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Member;
using ::testing::Pair;
using testing::Pax;

const std::string kEnd(1024, '\0');

using Features = std::map<std::string, std::string>;

Features FeaturesOf(std::string_view payload) {
  Features features;
  EXPECT_OK(VisitBytes(payload, [&](std::string_view name, std::string_view value) {
    EXPECT_TRUE(features.emplace(name, value).second) << name;
  }));
  return features;
}

struct Scanned {
  std::vector<Features> samples;
  std::vector<uint64_t> offsets;
  FrameScan scan;
};

Scanned Scan(std::string archive) {
  Scanned scanned;
  std::vector<Record> records;
  const uint64_t size = archive.size();
  scanned.scan = ScanTarFrames(absl::MakeSpan(archive), 0, true, size, SIZE_MAX, &records);
  uint64_t end = 0;
  for (const Record& record : records) {
    EXPECT_EQ(record.offset, end);
    end += record.payload.size() + kFrameBytes;
    EXPECT_EQ(TarKeyOf(record.payload), FeaturesOf(record.payload)["__key__"]);
    scanned.samples.push_back(FeaturesOf(record.payload));
    scanned.offsets.push_back(record.offset);
  }
  EXPECT_EQ(scanned.scan.consumed, end);
  return scanned;
}

TEST(TarFrames, ConsecutiveFilesWithOneKeyAreAnExample) {
  const Scanned scanned =
      Scan(Member("d/", "", '5') + Member("d/a.JPG", "image") + Member("d/a.cls", "3") +
           Member("d/a.seg.png", "") + Member("README", "x") + Member("e/a.jpg", "other") +
           Member("last", "") + kEnd);
  EXPECT_THAT(
      scanned.samples,
      ElementsAre(Features{{"__key__", "d/a"}, {"jpg", "image"}, {"cls", "3"}, {"seg.png", ""}},
                  Features{{"__key__", "e/a"}, {"jpg", "other"}}));
  EXPECT_THAT(scanned.offsets, ElementsAre(0, 512 + 2 * 1024 + 512));
  EXPECT_TRUE(scanned.scan.ends);
  EXPECT_EQ(scanned.scan.skipped, 1u);
  EXPECT_EQ(scanned.scan.skipped_at_end, 1u);
  // The last member and the zeros follow the last sample.
  EXPECT_EQ(scanned.scan.frame_bytes, 512u);
}

TEST(TarFrames, ALeadingDotIsNoPartOfAKey) {
  EXPECT_THAT(
      Scan(Member("a.x", "1") + Member("./a.y", "2") + Member(".//a.z", "3") +
           Member("././/a.w", "4") + Member("d//a.x", "5") + Member(".//d//a.y", "6") +
           Member("./", "", '5') + kEnd)
          .samples,
      ElementsAre(Features{{"__key__", "a"}, {"x", "1"}, {"y", "2"}, {"z", "3"}, {"w", "4"}},
                  Features{{"__key__", "d//a"}, {"x", "5"}, {"y", "6"}}));
}

TEST(TarFrames, ContentsOfEverySizeStayInPlace) {
  // With every size of padding, above all of one byte, and of the lengths of fields.
  for (size_t size : {0,   1,   100, 120,  127,  128,   255,   300,   509,     510,
                      511, 512, 513, 1023, 1024, 16383, 16384, 70000, 2097151, 2097152}) {
    const std::string content(size, 'x');
    const Features expected = {{"__key__", "a"}, {"x", content}, {"y", content}};
    EXPECT_THAT(Scan(Member("a.x", content) + Member("a.y", content) + kEnd).samples,
                ElementsAre(expected))
        << size;
  }
}

TEST(TarFrames, LongNamesAndSizesOfEveryKind) {
  const std::string key = std::string(300, 'n') + "/" + std::string(90, 'm');
  const std::string name = key + "." + std::string(200, 'e');
  const Features expected = {{"__key__", key}, {std::string(200, 'e'), "x"}};
  EXPECT_THAT(
      Scan(Member("././@LongLink", name + "\0"s, 'L') + Member("short.txt", "x") + kEnd).samples,
      ElementsAre(expected));
  EXPECT_THAT(
      Scan(Pax({{"mtime", "1.5"}, {"path", name}}) + Member("short.txt", "x") + kEnd).samples,
      ElementsAre(expected));
  const std::string longest = std::string(155, 'p') + "/" + std::string(50, 'k');
  EXPECT_THAT(Scan(Member(std::string(50, 'k') + "." + std::string(49, 'e'), "x", '0', "",
                          std::string(155, 'p')) +
                   kEnd)
                  .samples,
              ElementsAre(Features{{"__key__", longest}, {std::string(49, 'e'), "x"}}));
  EXPECT_THAT(Scan(Member("a.txt", "xyz", '0', "", "", "\x80\0\0\0\0\0\0\0\0\0\0\3"s) +
                   Pax({{"size", "3"}}) + Member("b.txt", "xyz", '7', "", "", "00000000000") +
                   Pax({{"comment", "x"}}, 'g') + Member("./c.txt", "z") + kEnd)
                  .samples,
              ElementsAre(Features{{"__key__", "a"}, {"txt", "xyz"}},
                          Features{{"__key__", "b"}, {"txt", "xyz"}},
                          Features{{"__key__", "c"}, {"txt", "z"}}));
}

TEST(TarFrames, RepeatedKeysThatAreNotAdjacentAreTwoSamples) {
  EXPECT_THAT(
      Scan(Member("a.x", "1") + Member("b.x", "2") + Member("a.y", "3") + kEnd).samples,
      ElementsAre(Features{{"__key__", "a"}, {"x", "1"}}, Features{{"__key__", "b"}, {"x", "2"}},
                  Features{{"__key__", "a"}, {"y", "3"}}));
}

void ExpectDefect(const std::string& archive, const std::string& detail) {
  const Scanned scanned = Scan(archive);
  EXPECT_EQ(scanned.scan.defect, FrameDefect::kTar);
  EXPECT_THAT(scanned.scan.detail, HasSubstr(detail));
}

TEST(TarFrames, WhatMustNotBeIsTold) {
  const std::string a = Member("a.x", "1");
  ExpectDefect(a + Member("a.X", "") + kEnd,
               "the member \"a.X\", which is the second \"x\" of its sample, at byte 1024");
  ExpectDefect(
      a + Member("b.png", "", '2', "c/d.png") + kEnd,
      "\"b.png\" is a link to \"c/d.png\", which is not followed; archive the file instead "
      "(tar --dereference --hard-dereference), at byte 1024");
  ExpectDefect(a + Member("b.png", "", '3') + kEnd, "\"b.png\" is a pipe or a device, not a file");
  ExpectDefect(Member("../a.x", "") + kEnd, "leads outside the archive; rename it, at byte 0");
  ExpectDefect(a + Member("b.\xff", "") + kEnd, "has an ending that is not UTF-8");
  ExpectDefect(a + Member("b.__key__", "") + kEnd, "has the name of the column for keys");
}

TEST(TarFrames, DamageIsTold) {
  const std::string two = Member("a.x", "1") + Member("b.x", "2");
  std::string damaged = two + kEnd;
  damaged[1024 + 3] ^= 1;
  ExpectDefect(damaged, "a damaged header, whose checksum is wrong, at byte 1024");
  ExpectDefect(two,
               "the archive is cut off: it ends after a member, without the zero blocks that "
               "end a tar, at byte 2048");
  ExpectDefect(two.substr(0, 1100), "it ends inside a header, without the zero blocks");
  ExpectDefect(two.substr(0, 1800), "it ends in the padding after \"b.x\", 0 bytes before");
  ExpectDefect(Member("a.x", std::string(600, 'x')).substr(0, 700),
               "it ends inside \"a.x\", 412 bytes before that member's end, at byte 700");
  for (const std::string& size : {"77777777777"s, "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"s}) {
    ExpectDefect(Member("a.x", "", '0', "", "", size) + kEnd, "it ends inside \"a.x\"");
  }
  ExpectDefect(
      Member("a.x", "", '0', "", "", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff") + kEnd,
      "a header without a valid size at byte 0");
  ExpectDefect(Pax({{"path", "x.txt"}}) + kEnd,
               "the archive ends after the name of a member, before the member, at byte 1024");
}

TEST(TarFrames, ASampleAloneIsReadByItsBounds) {
  const std::string frame = Member("README", "") + Member("a.x", "1") + Member("a.y", "2");
  std::string bytes = frame;
  std::string_view payload;
  EXPECT_EQ(ReadTarFrame(absl::MakeSpan(bytes), 5120, &payload), "");
  EXPECT_THAT(FeaturesOf(payload),
              ElementsAre(Pair("__key__", "a"), Pair("x", "1"), Pair("y", "2")));
  EXPECT_EQ(payload.size() + kFrameBytes, frame.size());

  const auto expect = [&](std::string wrong, const std::string& what) {
    EXPECT_THAT(ReadTarFrame(absl::MakeSpan(wrong), 5120, &payload), HasSubstr(what));
  };
  expect(frame + Member("b.x", "1"), "\"b.x\" belongs to another sample at byte 7680");
  expect(frame.substr(0, 2048), "\"a.y\" has 1 bytes, more than its sample at byte 6656");
  expect(frame.substr(0, 1600), "the headers of a sample are cut at byte 6720");
  expect(frame + kEnd, "zeros instead of a header at byte 7680");
  expect(frame + Member("README", ""), "its index says that it has 3072 bytes, but it has 2560");
  expect("", "no file of a sample at byte 5120");
}

// Delivers a few bytes at a time.
class Trickle : public ByteSource {
 public:
  Trickle(std::string_view bytes, size_t step) : bytes_(bytes), step_(step) {}
  absl::StatusOr<size_t> Read(absl::Span<char> dst) override {
    const size_t n = std::min({dst.size(), step_, bytes_.size()});
    std::copy_n(bytes_.data(), n, dst.data());
    bytes_.remove_prefix(n);
    return n;
  }

 private:
  std::string_view bytes_;
  size_t step_;
};

// Reads the archive as a stream. Returns the message of the error, or the samples.
std::string Stream(const std::string& archive, size_t step, size_t block,
                   std::vector<Features>* samples) {
  Trickle source(archive, step);
  RecordStreamOptions options;
  options.framing = Framing::kTar;
  options.block_bytes = block;
  RecordStream stream(&source, options);
  std::vector<RecordBlock> blocks;  // kept, so that no buffer is used again
  while (true) {
    RecordBlock records;
    absl::Status status = stream.Next(&records);
    if (!status.ok()) return std::string(status.message());
    if (records.records.empty()) break;
    blocks.push_back(std::move(records));
  }
  for (const RecordBlock& records : blocks) {
    for (const Record& record : records.records) samples->push_back(FeaturesOf(record.payload));
  }
  return {};
}

TEST(TarFrames, AStreamDeliversTheSame) {
  std::mt19937 random(1);
  std::string archive;
  for (int i = 0; i < 200; ++i) {
    if (i % 7 == 0) archive += Member("README", std::string(random() % 2000, 'r'));
    for (const char* ending : {"x", "y", "z"}) {
      if (random() % 4 == 0) continue;
      archive += Member(fmt::format("s{}.{}", i, ending), std::string(random() % 3000, 'c'));
    }
  }
  archive += Member("README", "");
  const std::vector<Features> expected = Scan(archive + kEnd).samples;
  ASSERT_GT(expected.size(), 190u);
  for (size_t step : {100, 512, 5000, 1 << 20}) {
    for (size_t block : {512, 4096, 1 << 20}) {
      std::vector<Features> samples;
      EXPECT_EQ(Stream(archive + kEnd, step, block, &samples), "");
      EXPECT_EQ(samples, expected);
    }
  }
  std::vector<Features> samples;
  EXPECT_THAT(Stream(archive, 100, 512, &samples), HasSubstr("the archive is cut off"));
  EXPECT_THAT(Stream(archive + kEnd + std::string(5000, '\0') + "x", 100, 512, &samples),
              HasSubstr(fmt::format("the archive ends at byte {}, but other data follows",
                                    archive.size())));
}

TEST(TarFrames, AStreamDoesNotDeliverASampleWhoseEndIsUncertain) {
  const std::string a = Member("a.x", "1") + Member("a.y", "2");
  std::string archive = a + Member("b.x", "3") + Member("b.y", "4") + kEnd;
  const size_t header = a.size() + 1024;
  archive.replace(header, 512, 512, '\0');
  for (size_t block : {512, 4096, 1 << 20}) {
    Trickle source(archive, 300);
    RecordStreamOptions options;
    options.framing = Framing::kTar;
    options.block_bytes = block;
    RecordStream stream(&source, options);
    RecordBlock records;
    ASSERT_OK(stream.Next(&records));
    ASSERT_EQ(records.records.size(), 1u);
    EXPECT_EQ(TarKeyOf(records.records[0].payload), "a");
    EXPECT_FAILS(
        stream.Next(&records), kDataLoss,
        fmt::format("record 1 at byte {}: zeros instead of a header at byte {}", a.size(), header));
    EXPECT_EQ(stream.defect(), FrameDefect::kTar);
    EXPECT_EQ(stream.record(), 1u);
    EXPECT_EQ(stream.offset(), a.size());
  }
}

// Counts how often it is read from.
class Counted : public ByteSource {
 public:
  explicit Counted(std::string_view bytes) : source_(bytes) {}
  absl::StatusOr<size_t> Read(absl::Span<char> dst) override {
    ++reads;
    return source_.Read(dst);
  }
  int reads = 0;

 private:
  MemorySource source_;
};

TEST(TarFrames, ASampleOfManyFilesIsScannedAFewTimes) {
  std::string archive;
  Features expected = {{"__key__", "a"}};
  for (int i = 0; i < 3000; ++i) {
    archive += Member(fmt::format("a.x{}", i), "1");
    expected[fmt::format("x{}", i)] = "1";
  }
  const std::string whole = archive + kEnd;
  Counted source(whole);
  RecordStreamOptions options;
  options.framing = Framing::kTar;
  options.block_bytes = 4096;
  RecordStream stream(&source, options);
  RecordBlock block;
  ASSERT_OK(stream.Next(&block));
  ASSERT_EQ(block.records.size(), 1u);
  EXPECT_EQ(FeaturesOf(block.records[0].payload), expected);
  // Each read is followed by a scan from the sample's first file on.
  EXPECT_LT(source.reads, 30);
  ExpectDefect(archive + Member("a.x2000", "") + kEnd,
               "the member \"a.x2000\", which is the second \"x2000\" of its sample");
  ExpectDefect(archive + Member("a.x3", "") + kEnd, "which is the second \"x3\" of its sample");
}

TEST(TarFrames, AnyBytesAreSafe) {
  const std::string sound = Member("a.txt", "some text") +
                            Pax({{"path", "b/c.cls"}, {"size", "2"}}) + Member("b.cls", "12") +
                            Member("long", "n.json\0"s, 'L') + Member("x", "{\"x\": 1}") + kEnd;
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
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
    std::string frame = bytes;
    Scan(std::move(bytes));
    std::string_view payload;
    if (ReadTarFrame(absl::MakeSpan(frame), 0, &payload).empty()) FeaturesOf(payload);
  }
}

}  // namespace
}  // namespace shardfeed
