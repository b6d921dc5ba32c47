#include <snappy.h>

#include <random>
#include <set>
#include <utility>

#include "shardfeed/options.h"
#include "tests/testing/deflate.h"
#include "tests/testing/files.h"
#include "tests/testing/tar_members.h"
#include "tfrecord/decompress.h"
#include "tfrecord/detect.h"
#include "tfrecord/framing.h"
#include "tfrecord/gzip_members.h"
#include "tfrecord/inflate_between.h"
#include "tfrecord/zlib_stream.h"

namespace shardfeed {
namespace {

using testing::Deflate;

// Compressible, but not trivially.
std::string Content(size_t size) {
  std::mt19937 random(3);
  std::string content;
  while (content.size() < size) {
    std::string word(3 + random() % 6, ' ');
    for (char& c : word) c = static_cast<char>('a' + random() % 20);
    AppendFrame(word, &content);
  }
  content.resize(size);
  return content;
}

std::string Members(std::string_view content, size_t member) {
  std::string out;
  for (size_t at = 0; at < content.size(); at += member) {
    AppendGzipMember(content.substr(at, member), 6, &out);
  }
  return out;
}

std::string ZlibSegments(std::string_view content, size_t size) {
  std::string out;
  AppendZlibHeader(&out);
  uint32_t adler = 1;
  for (size_t at = 0; at < content.size(); at += size) {
    adler = CombineAdler32(adler, AppendZlibSegment(content.substr(at, size), 6, &out));
  }
  AppendZlibEnd(adler, &out);
  return out;
}

std::string SnappyBlocks(std::string_view content, size_t block) {
  std::string out;
  for (size_t at = 0; at < content.size(); at += block) {
    std::string packed;
    const std::string_view piece = content.substr(at, block);
    snappy::Compress(piece.data(), piece.size(), &packed);
    for (int shift = 24; shift >= 0; shift -= 8) {
      out.push_back(static_cast<char>(packed.size() >> shift));
    }
    out += packed;
  }
  return out;
}

absl::StatusOr<std::string> Decompress(Compression compression, std::string_view bytes,
                                       RestartPoint from = {}, DecompressOptions options = {}) {
  MemorySource source(absl::MakeConstSpan(bytes).subspan(from.file_offset - (from.bits > 0)));
  auto content = MakeDecompressor(compression, &source, from, options);
  std::string out;
  std::string piece(10007, '\0');
  while (true) {
    absl::StatusOr<size_t> n = content->Read(absl::MakeSpan(piece));
    if (!n.ok()) return n.status();
    if (*n == 0) return out;
    out.append(piece, 0, *n);
  }
}

struct Form {
  std::string name;
  Compression compression;
  std::string (*write)(std::string_view content);
};

class EveryForm : public ::testing::TestWithParam<Form> {};

INSTANTIATE_TEST_SUITE_P(
    Decompress, EveryForm,
    ::testing::Values(Form{"GzipOneMember", Compression::kGzip,
                           [](std::string_view c) { return Deflate(c, 31); }},
                      Form{"GzipOurMembers", Compression::kGzip,
                           [](std::string_view c) { return Members(c, 30000); }},
                      Form{"GzipMixedMembers", Compression::kGzip,
                           [](std::string_view c) {
                             return Deflate(c.substr(0, c.size() / 3), 31) +
                                    Members(c.substr(c.size() / 3), 20000);
                           }},
                      Form{"ZlibOneStream", Compression::kZlib,
                           [](std::string_view c) { return Deflate(c, 15); }},
                      Form{"ZlibOurSegments", Compression::kZlib,
                           [](std::string_view c) { return ZlibSegments(c, 30000); }},
                      Form{"Snappy", Compression::kSnappy,
                           [](std::string_view c) { return SnappyBlocks(c, 30000); }}),
    [](const auto& info) { return info.param.name; });

TEST_P(EveryForm, GivesTheContentBack) {
  for (size_t size : {1, 100, 29999, 300000}) {
    const std::string content = Content(size);
    absl::StatusOr<std::string> found =
        Decompress(GetParam().compression, GetParam().write(content));
    ASSERT_OK(found);
    EXPECT_TRUE(*found == content) << size;
  }
}

TEST_P(EveryForm, IsDetected) {
  for (const bool named_tar : {false, true}) {
    const auto format = DetectFormat(GetParam().write(Content(100000)), named_tar);
    EXPECT_EQ(format->compression, GetParam().compression);
    EXPECT_EQ(format->framing, Framing::kTfRecord);
  }
}

TEST_P(EveryForm, CutAnywhereIsDataLoss) {
  const std::string bytes = GetParam().write(Content(70000));
  const std::string content = Content(70000);
  for (size_t size = 1; size < bytes.size();
       size += size < 40 || size + 40 > bytes.size() ? 1 : 97) {
    absl::StatusOr<std::string> found =
        Decompress(GetParam().compression, std::string_view(bytes).substr(0, size));
    // Between members and blocks nothing indicates that more should follow; the records do.
    if (found.ok()) {
      EXPECT_LT(found->size(), content.size());
      EXPECT_NE(GetParam().compression, Compression::kZlib);
    } else {
      EXPECT_EQ(found.status().code(), absl::StatusCode::kDataLoss);
    }
  }
}

TEST_P(EveryForm, FlippedBytesAreNeverTakenForContent) {
  if (GetParam().compression == Compression::kSnappy) GTEST_SKIP() << "has no checksum of its own";
  const std::string content = Content(20000);
  const std::string bytes = GetParam().write(content);
  for (size_t at = 0; at < bytes.size(); at += 13) {
    std::string damaged = bytes;
    damaged[at] ^= 0x10;
    absl::StatusOr<std::string> found = Decompress(GetParam().compression, damaged);
    if (found.ok()) {
      EXPECT_TRUE(*found == content) << at;  // a header byte that is ignored
    }
  }
}

TEST_P(EveryForm, StartsAtEachRestartPoint) {
  const std::string content = Content(400000);
  const std::string bytes = GetParam().write(content);
  std::vector<RestartPoint> points;
  DecompressOptions options;
  options.restart_interval = 20000;
  options.on_restart_point = [&](RestartPoint point) { points.push_back(point); };
  ASSERT_OK(Decompress(GetParam().compression, bytes, {}, options));
  ASSERT_GT(points.size(), 3);
  for (const RestartPoint& point : points) {
    absl::StatusOr<std::string> found = Decompress(GetParam().compression, bytes, point);
    ASSERT_OK(found);
    EXPECT_TRUE(*found == content.substr(point.stream_offset)) << point.stream_offset;
  }
}

// The points that are at least `interval` bytes apart, and the end.
std::vector<RestartPoint> PointsAndEnd(Compression compression, std::string_view bytes,
                                       uint64_t interval,
                                       std::vector<DeflateBlock>* blocks = nullptr) {
  std::vector<RestartPoint> points;
  DecompressOptions options;
  options.restart_interval = interval;
  options.on_restart_point = [&](RestartPoint point) { points.push_back(point); };
  if (blocks != nullptr) {
    options.on_deflate_block = [=](DeflateBlock block) { blocks->push_back(block); };
  }
  const absl::StatusOr<std::string> content = Decompress(compression, bytes, {}, options);
  EXPECT_OK(content);
  points.push_back({.file_offset = bytes.size(), .stream_offset = content->size()});
  return points;
}

// The content between two points, by InflateBetween.
absl::StatusOr<std::string> Between(Compression compression, std::string_view bytes,
                                    const RestartPoint& from, const RestartPoint& to,
                                    absl::Span<const DeflateBlock> blocks = {}) {
  const uint64_t begin = from.file_offset - (from.bits > 0);
  std::string room = std::string(kInflateRoomBefore, 'x') +
                     std::string(bytes.substr(begin, to.file_offset - begin)) +
                     std::string(kInflateRoomBehind, 'x');
  std::string content(from.dictionary.size() + to.stream_offset - from.stream_offset, '\0');
  const absl::Status status =
      InflateBetween(compression, from, to, blocks, absl::MakeSpan(room), absl::MakeSpan(content));
  if (!status.ok()) return status;
  return content.substr(from.dictionary.size());
}

TEST_P(EveryForm, InflatesBetweenPointsOrSaysNo) {
  if (GetParam().compression == Compression::kSnappy) GTEST_SKIP() << "is not deflated";
  const std::string content = Content(200000);
  const std::string bytes = GetParam().write(content);
  const std::vector<RestartPoint> points = PointsAndEnd(GetParam().compression, bytes, 20000);
  ASSERT_GT(points.size(), 3);
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t j = i + 1; j < points.size(); ++j) {
      const auto found = Between(GetParam().compression, bytes, points[i], points[j]);
      if (found.ok()) {
        EXPECT_TRUE(*found == content.substr(points[i].stream_offset, found->size()));
      } else {
        // Several members need more than one call.
        EXPECT_EQ(GetParam().compression, Compression::kGzip);
        EXPECT_NE(GetParam().name, "GzipOneMember");
      }
    }
  }
}

// GZIP and ZLIB, with zlib's window bits for each.
constexpr std::pair<Compression, int> kDeflated[] = {{Compression::kGzip, 31},
                                                     {Compression::kZlib, 15}};

// Deflate's blocks begin and end at any bit.
TEST(InflateBetween, FromAnyBitToAnyBit) {
  const std::string content = Content(100000);
  for (const auto& [compression, window_bits] : kDeflated) {
    const std::string bytes = Deflate(content, window_bits, /*memory_level=*/1);
    const std::vector<RestartPoint> points = PointsAndEnd(compression, bytes, 300);
    std::set<std::pair<int, int>> bits;
    for (size_t i = 0; i + 1 < points.size(); ++i) {
      for (size_t j : {i + 1, (i + points.size()) / 2, points.size() - 1}) {
        const auto found = Between(compression, bytes, points[i], points[j]);
        ASSERT_OK(found);
        ASSERT_TRUE(*found == content.substr(points[i].stream_offset, found->size())) << i << j;
        bits.insert({points[i].bits, points[j].bits});
      }
    }
    EXPECT_EQ(bits.size(), 64);
  }
}

// Data that deflate hardly shrinks, with the blocks between the points.
TEST(InflateBetween, KnownBlocks) {
  std::mt19937 random(1);
  std::string content(400'000, '\0');
  for (char& c : content) c = static_cast<char>(random() % 240);
  content.replace(200'000, 1000, content, 190'000, 1000);
  for (const auto& [compression, window_bits] : kDeflated) {
    const std::string bytes = Deflate(content, window_bits, /*memory_level=*/8);
    ASSERT_GT(bytes.size(), content.size() * 9 / 10);
    std::vector<DeflateBlock> blocks;
    const std::vector<RestartPoint> points = PointsAndEnd(compression, bytes, 70'000, &blocks);
    ASSERT_GT(points.size(), 4);
    ASSERT_GT(blocks.size(), 2 * points.size());
    const auto between = [&](size_t i, size_t j) {
      std::vector<DeflateBlock> some;
      for (const DeflateBlock& block : blocks) {
        if (block.offset > points[i].stream_offset && block.offset < points[j].stream_offset) {
          some.push_back(block);
        }
      }
      return some;
    };
    const size_t last = points.size() - 1;
    for (size_t i = 0; i < last; ++i) {
      for (size_t j = i + 1; j < points.size(); ++j) {
        const auto found = Between(compression, bytes, points[i], points[j], between(i, j));
        ASSERT_OK(found);
        EXPECT_TRUE(*found == content.substr(points[i].stream_offset, found->size())) << i << j;
        // Wrong places are detected.
        std::vector<DeflateBlock> lie = between(i, j);
        lie[random() % lie.size()].bit += random() % 100'000;
        lie[random() % lie.size()].offset -= random() % 100'000;
        EXPECT_TRUE(*Between(compression, bytes, points[i], points[j], lie) == *found);
      }
    }
    for (size_t at = 10; at < bytes.size(); at += 3001) {
      std::string damaged = bytes;
      damaged[at] ^= 0x10;
      EXPECT_FAILS(Between(compression, damaged, points[0], points[last], between(0, last)),
                   kDataLoss, "damaged");
    }
    std::string damaged = bytes;
    damaged.back() ^= 0x10;  // in the trailer
    EXPECT_FAILS(Between(compression, damaged, points[0], points[last], between(0, last)),
                 kDataLoss, "damaged");
  }
}

// If a member starts between two points, the blocks of the second are not reported.
TEST(Decompress, TellsBlocksOfOneMemberOnly) {
  const std::string content = Content(300'000);
  const std::string first = Deflate(content, 31, 1);
  for (const uint64_t interval : {200'000, 10'000'000}) {
    std::vector<DeflateBlock> blocks;
    const auto points =
        PointsAndEnd(Compression::kGzip, first + Deflate(content, 31, 1), interval, &blocks);
    ASSERT_FALSE(blocks.empty());
    for (const DeflateBlock& block : blocks) {
      const bool in_second = block.offset >= content.size();
      EXPECT_EQ(in_second, block.bit >= 8 * first.size());
      if (in_second) {
        EXPECT_EQ(interval, 200'000);
      }
      for (const RestartPoint& point : points) EXPECT_NE(point.stream_offset, block.offset);
    }
  }
}

// Damage never causes writes past the end, and a member that lies completely between is checked.
TEST(InflateBetween, DamageIsDataLossOrShows) {
  const std::string content = Content(60000);
  for (const auto& [compression, window_bits] : kDeflated) {
    const std::string bytes = Deflate(content, window_bits, /*memory_level=*/1);
    const std::vector<RestartPoint> points = PointsAndEnd(compression, bytes, 5000);
    for (size_t at = 10; at < bytes.size(); at += 211) {
      std::string damaged = bytes;
      damaged[at] ^= 0x10;
      EXPECT_FAILS(Between(compression, damaged, points[0], points.back()), kDataLoss, "damaged");
      for (size_t i = 0; i + 1 < points.size(); ++i) {
        (void)Between(compression, damaged, points[i], points[i + 1]);
      }
    }
    RestartPoint wrong = points[1];
    wrong.bits = (wrong.bits + 1) % 8;
    EXPECT_FAILS(Between(compression, bytes, points[0], wrong), kDataLoss, "damaged");
    wrong = points[1];
    wrong.at_header = true;
    EXPECT_FAILS(Between(compression, bytes, wrong, points[2]), kDataLoss, "damaged");
    wrong = points[1];
    wrong.stream_offset += 1;
    EXPECT_FAILS(Between(compression, bytes, points[0], wrong), kDataLoss, "damaged");
    // A missing trailer.
    wrong = points.back();
    wrong.file_offset -= 3;
    EXPECT_FAILS(Between(compression, bytes, points[1], wrong), kDataLoss, "damaged");
  }
}

TEST(Gzip, WrongTrailerIsDataLoss) {
  std::string bytes = Deflate("hello", 31);
  bytes[bytes.size() - 8] ^= 1;
  EXPECT_FAILS(Decompress(Compression::kGzip, bytes), kDataLoss, "incorrect data check");
  bytes = Deflate("hello", 31);
  bytes[bytes.size() - 1] ^= 1;
  EXPECT_FAILS(Decompress(Compression::kGzip, bytes), kDataLoss, "incorrect length check");
}

TEST(Gzip, MissingTrailerIsDataLoss) {
  const std::string bytes = Deflate("hello", 31);
  EXPECT_FAILS(Decompress(Compression::kGzip, bytes.substr(0, bytes.size() - 8)), kDataLoss,
               "ends prematurely");
}

TEST(Gzip, ZerosAfterTheLastMemberAreDataLoss) {
  EXPECT_FAILS(Decompress(Compression::kGzip, Deflate("hello", 31) + std::string(8, '\0')),
               kDataLoss, "bytes follow the last GZIP member");
}

TEST(GzipMembers, WrongTrailerIsDataLoss) {
  std::string bytes = Members("hello", 100);
  bytes[bytes.size() - 8] ^= 1;
  EXPECT_FAILS(Decompress(Compression::kGzip, bytes), kDataLoss, "the member's CRC-32");
  bytes = Members("hello", 100);
  bytes[bytes.size() - 4] ^= 2;
  EXPECT_FAILS(Decompress(Compression::kGzip, bytes), kDataLoss, "damaged");
}

// Sets the claimed size in one member of AppendGzipMember.
void SetClaimedContent(uint32_t size, std::string* member) {
  StoreLittleEndian<uint32_t>(size, member->data() + member->size() - 4);
}

TEST(GzipMembers, ContentThatCannotBeIsDataLoss) {
  std::string bytes = Members(Content(1000), 1000);
  SetClaimedContent(UINT32_MAX, &bytes);
  EXPECT_FAILS(Decompress(Compression::kGzip, bytes), kDataLoss,
               "the trailer claims 4294967295 bytes of content, but a member of");
}

TEST(GzipMembers, LargeContentComesPieceByPiece) {
  // More zeros than are inflated at once, with small members before and after.
  const std::string zeros(40 << 20, '\0');
  const std::string content = Content(1000) + zeros + Content(1000);
  const std::string bytes =
      Members(Content(1000), 1000) + Members(zeros, zeros.size()) + Members(Content(1000), 1000);
  absl::StatusOr<std::string> found = Decompress(Compression::kGzip, bytes);
  ASSERT_OK(found);
  EXPECT_TRUE(*found == content);
}

TEST(GzipMembers, WrongTrailerOfLargeContentIsLimitedToItsMember) {
  std::string large = Members(std::string(40 << 20, '\0'), 40 << 20);
  SetClaimedContent(35 << 20, &large);
  const std::string bytes = large + Members("behind", 100);
  MemorySource source(bytes);
  auto stream = MakeDecompressor(Compression::kGzip, &source);
  std::string piece(1 << 20, '\0');
  absl::StatusOr<size_t> n = 1;
  while (n.ok() && *n > 0) n = stream->Read(absl::MakeSpan(piece));
  EXPECT_FAILS(n, kDataLoss, "incorrect length check");
  ASSERT_TRUE(*stream->SkipToNextMember());
  n = stream->Read(absl::MakeSpan(piece));
  ASSERT_OK(n);
  EXPECT_EQ(piece.substr(0, *n), "behind");
}

TEST(GzipMembers, DamageIsLimitedToItsMember) {
  const std::string content = Content(100000);
  std::string bytes = Members(content, 20000);
  const size_t second = *SizedMemberBytes(bytes);
  bytes[second + 500] ^= 1;
  MemorySource source(bytes);
  auto stream = MakeDecompressor(Compression::kGzip, &source);
  std::string found;
  std::string piece(1 << 20, '\0');
  bool failed = false;
  while (true) {
    absl::StatusOr<size_t> n = stream->Read(absl::MakeSpan(piece));
    if (!n.ok()) {
      EXPECT_FALSE(failed);
      failed = true;
      EXPECT_EQ(stream->file_offset(), second);
      ASSERT_TRUE(*stream->SkipToNextMember());
      continue;
    }
    if (*n == 0) break;
    found.append(piece, 0, *n);
  }
  EXPECT_TRUE(failed);
  EXPECT_TRUE(found == content.substr(0, 20000) + content.substr(40000));
}

TEST(GzipMembers, EqualInputGivesEqualBytes) {
  EXPECT_EQ(Members(Content(50000), 10000), Members(Content(50000), 10000));
}

// The level does not pay for numbers, which hardly repeat; for text it does.
TEST(GzipMembers, LevelGivesWayWhereTheFastestDoesAsWell) {
  const auto member = [](std::string_view content, int level) {
    std::string out;
    AppendGzipMember(content, level, &out);
    return out;
  };
  std::mt19937 random(1);
  std::string numbers;
  for (int i = 0; i < 60'000; ++i) {
    const float value = std::uniform_real_distribution<float>(0, 1)(random);
    numbers.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  EXPECT_EQ(member(numbers, 6), member(numbers, 1));
  EXPECT_LT(member(numbers, 6).size(), numbers.size() * 95 / 100);
  std::string text;
  while (text.size() < 240'000) text += "word" + std::to_string(random() % 1000) + " ";
  EXPECT_LT(member(text, 6).size(), member(text, 1).size() * 98 / 100);
  std::string bytes(240'000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  EXPECT_EQ(member(bytes, 9), member(bytes, 1));  // stored
}

TEST(Zlib, WrongAdlerIsDataLoss) {
  std::string bytes = ZlibSegments(Content(1000), 300);
  bytes.back() ^= 1;
  EXPECT_FAILS(Decompress(Compression::kZlib, bytes), kDataLoss, "incorrect data check");
}

TEST(Zlib, SecondStreamIsDataLoss) {
  EXPECT_FAILS(Decompress(Compression::kZlib, Deflate("hello", 15) + Deflate("world", 15)),
               kDataLoss, "bytes follow the end of the ZLIB stream");
}

TEST(Zlib, SegmentsAreOneStreamForEveryone) {
  const std::string content = Content(100000);
  const std::string bytes = ZlibSegments(content, 10000);
  std::string found(content.size() + 1, '\0');
  uLongf size = found.size();
  ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(found.data()), &size,
                       reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()),
            Z_OK);
  EXPECT_TRUE(found.substr(0, size) == content);
}

TEST(Snappy, HugeBlocksAreRefused) {
  const std::string zeros(33 << 20, '\0');
  EXPECT_FAILS(Decompress(Compression::kSnappy, SnappyBlocks(zeros, zeros.size())), kDataLoss,
               "the SNAPPY block at byte 0 is larger than 33554432 bytes");
  EXPECT_FAILS(Decompress(Compression::kSnappy, std::string("\xff\xff\xff\xff", 4) + zeros),
               kDataLoss, "the SNAPPY block at byte 0 is larger than 33554432 bytes");
}

TEST(Snappy, ClaimOfHugeContentIsRefused) {
  // A block of six bytes whose varint claims 4 GiB - 1.
  const std::string block("\xff\xff\xff\xff\x0f\x00", 6);
  EXPECT_FAILS(Decompress(Compression::kSnappy, std::string("\0\0\0\x06", 4) + block), kDataLoss,
               "SNAPPY data is damaged");
}

TEST(Detect, RawAndEmpty) {
  std::string bytes;
  AppendFrame("abc", &bytes);
  EXPECT_EQ(DetectFormat(bytes)->compression, Compression::kNone);
  EXPECT_EQ(DetectFormat("")->compression, Compression::kNone);
}

TEST(Detect, RawWithADamagedFirstHeader) {
  std::string bytes;
  AppendFrame("abc", &bytes);
  AppendFrame("def", &bytes);
  bytes[0] ^= 1;
  EXPECT_EQ(DetectFormat(bytes)->compression, Compression::kNone);
}

TEST(Detect, TarArchives) {
  const std::string archive = testing::Member("a.x", "1") + std::string(1024, '\0');
  EXPECT_EQ(DetectFormat(archive)->framing, Framing::kTar);
  EXPECT_EQ(DetectFormat(archive)->compression, Compression::kNone);
  std::string gzip;
  AppendGzipMember(archive, 1, &gzip);
  EXPECT_EQ(DetectFormat(gzip)->framing, Framing::kTar);
  EXPECT_EQ(DetectFormat(gzip)->compression, Compression::kGzip);
}

TEST(Detect, ZerosAreAnArchiveWithoutFilesIfTheNameSaysSo) {
  for (const size_t size : {1024, 10240}) {
    const std::string zeros(size, '\0');
    EXPECT_EQ(DetectFormat(zeros, /*named_tar=*/true)->framing, Framing::kTar);
    EXPECT_FAILS(DetectFormat(zeros), kDataLoss,
                 "not a TFRecord file: starts with zeros alone, as a tar archive without files "
                 "does, which is read if its name ends with .tar");
    std::string gzip;
    AppendGzipMember(zeros, 1, &gzip);
    EXPECT_EQ(DetectFormat(gzip, /*named_tar=*/true)->framing, Framing::kTar);
    EXPECT_EQ(DetectFormat(gzip, /*named_tar=*/true)->compression, Compression::kGzip);
    EXPECT_FAILS(DetectFormat(gzip), kDataLoss, "content does not start with a record");
  }
  EXPECT_FAILS(DetectFormat(std::string(100, '\0')), kDataLoss, "starts with 00 00");
}

TEST(Detect, WhatIsNamedTarIsATarWithADamagedHeader) {
  std::string record;
  AppendFrame("abc", &record);
  const std::string member = testing::Member("a.tfrecord", record);
  std::string archive = member + std::string(1024, '\0');
  archive[0] ^= 1;
  std::string gzip;
  AppendGzipMember(archive, 1, &gzip);
  // Without the magic, a header behind it tells.
  std::string older = member + member;
  older[0] ^= 1;
  older[257] = 'x';
  for (const std::string& bytes : {archive, older, std::string(600, 'a'), gzip}) {
    EXPECT_EQ(DetectFormat(bytes, /*named_tar=*/true)->framing, Framing::kTar);
  }
  EXPECT_EQ(DetectFormat(gzip, /*named_tar=*/true)->compression, Compression::kGzip);
  EXPECT_EQ(DetectFormat(record, /*named_tar=*/true)->framing, Framing::kTfRecord);
  EXPECT_FAILS(DetectFormat("text", /*named_tar=*/true), kDataLoss, "4 bytes, 74 65 78 74");
}

TEST(Detect, ADamagedTfRecordIsOneWhateverItsNameSays) {
  std::string records;
  for (int i = 0; i < 100; ++i) AppendFrame("abcdefgh" + std::to_string(i), &records);
  records[9] ^= 1;  // the CRC of the length
  EXPECT_EQ(DetectFormat(records, /*named_tar=*/true)->framing, Framing::kTfRecord);
}

TEST(Detect, OtherFilesAreNotTFRecord) {
  EXPECT_FAILS(DetectFormat("Just some text, nothing more."), kDataLoss,
               "not a TFRecord file: starts with 4a 75 73 74 20 73 6f 6d");
  EXPECT_FAILS(DetectFormat(std::string("PAR1\x15\x04\x15\x10\x15\x12L\x15\x08\x15", 13)),
               kDataLoss,
               "not a TFRecord file but Parquet, which 'shardfeed convert parquet' converts and "
               "sf.from_parquet reads in Python");
  EXPECT_FAILS(DetectFormat("abc"), kDataLoss, "3 bytes");
  EXPECT_FAILS(DetectFormat(Deflate("text that is long enough to be told", 31)), kDataLoss,
               "GZIP data whose content does not start with a record");
}

TEST(Compression, NamesGoBothWays) {
  for (Compression c :
       {Compression::kNone, Compression::kGzip, Compression::kZlib, Compression::kSnappy}) {
    EXPECT_EQ(ParseCompression(CompressionName(c)), c);
  }
  EXPECT_EQ(ParseCompression("lz4"), std::nullopt);
}

}  // namespace
}  // namespace shardfeed
