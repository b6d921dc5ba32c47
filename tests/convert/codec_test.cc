#include "convert/input/codec.h"

#include <bzlib.h>
#include <fcntl.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <random>
#include <thread>

#include "convert/input/input_stream.h"
#include "convert/input/text_reader.h"
#include "convert/sources/csv.h"
#include "convert/sources/text_lines.h"
#include "tests/convert/source_fixture.h"
#include "tfrecord/gzip_members.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Codec kCodecs[] = {Codec::kGzip, Codec::kZstd, Codec::kXz, Codec::kBzip2};

std::string Compress(Codec codec, const std::string& content, int level = 3) {
  std::string out(content.size() * 2 + 1000, '\0');
  size_t size = 0;
  switch (codec) {
    case Codec::kNone:
      return content;
    case Codec::kGzip: {
      std::string member;
      AppendGzipMember(content, level, &member);
      return member;
    }
    case Codec::kZstd:
      size = ZSTD_compress(out.data(), out.size(), content.data(), content.size(), level);
      break;
    case Codec::kXz:
      EXPECT_EQ(
          lzma_easy_buffer_encode(level, LZMA_CHECK_CRC64, nullptr,
                                  reinterpret_cast<const uint8_t*>(content.data()), content.size(),
                                  reinterpret_cast<uint8_t*>(out.data()), &size, out.size()),
          LZMA_OK);
      break;
    case Codec::kBzip2: {
      auto written = static_cast<unsigned>(out.size());
      EXPECT_EQ(BZ2_bzBuffToBuffCompress(out.data(), &written, const_cast<char*>(content.data()),
                                         static_cast<unsigned>(content.size()), level, 0, 0),
                BZ_OK);
      size = written;
      break;
    }
  }
  out.resize(size);
  return out;
}

std::string RandomText(size_t size) {
  std::mt19937 random(1);
  std::string text;
  while (text.size() < size)
    text += std::to_string(random() % 100000) + (random() % 9 ? "," : "\n");
  return text;
}

class CodecTest : public SourceTest, public testing::WithParamInterface<Codec> {
 protected:
  static absl::StatusOr<std::string> ReadAll(InputStream& stream, size_t at_once) {
    std::string all;
    std::vector<char> buffer(at_once);
    while (true) {
      absl::StatusOr<size_t> n = stream.Read(absl::MakeSpan(buffer));
      if (!n.ok()) return n.status();
      all.append(buffer.data(), *n);
      if (*n < at_once && stream.at_end()) return all;
      if (*n == 0) return all;
    }
  }
  absl::StatusOr<std::string> Read(const std::string& file, size_t at_once = 100000) {
    absl::StatusOr<std::unique_ptr<InputStream>> stream = InputStream::Open(Write("a", file));
    if (!stream.ok()) return stream.status();
    return ReadAll(**stream, at_once);
  }
  std::string Name() const {
    return GetParam() == Codec::kGzip ? "GZIP" : std::string(CodecName(GetParam()));
  }
};
INSTANTIATE_TEST_SUITE_P(, CodecTest, testing::ValuesIn(kCodecs),
                         [](const auto& one) { return std::string(CodecName(one.param)); });

TEST_P(CodecTest, ReadsWhatWasCompressed) {
  for (const std::string& content : {""s, "x"s, RandomText(1500000)}) {
    const std::string file = Compress(GetParam(), content);
    EXPECT_EQ(CodecOf(file), GetParam());
    for (size_t at_once : {7, 4096, 1 << 20}) {
      if (at_once == 7 && content.size() > 10) continue;
      EXPECT_EQ(*Read(file, at_once), content);
    }
  }
}

TEST_P(CodecTest, ReadsMembersInSequence) {
  std::string file;
  for (const char* part : {"one", "", "two\n", "three"}) file += Compress(GetParam(), part);
  EXPECT_EQ(*Read(file), "onetwo\nthree");
  EXPECT_EQ(*Read(file, 1), "onetwo\nthree");
}

TEST_P(CodecTest, TruncatedAnywhereIsAnErrorThatNamesTheOffset) {
  const std::string content = RandomText(20000);
  const std::string file = Compress(GetParam(), content) + Compress(GetParam(), "more");
  const size_t first = Compress(GetParam(), content).size();
  for (size_t size = kCodecMagicBytes; size < file.size(); size += 1 + size / 30) {
    if (size == first) continue;
    const absl::Status status = Read(file.substr(0, size)).status();
    ExpectError(
        status, absl::StatusCode::kDataLoss,
        Path("a") + ": " + Name() + " data ends prematurely at byte " + std::to_string(size));
  }
  // What precedes the end is there.
  Write("a", file.substr(0, file.size() - 1));
  auto stream = *InputStream::Open(Path("a"));
  std::string start(content.size(), '\0');
  EXPECT_EQ(*stream->Read(absl::MakeSpan(start)), content.size());
  EXPECT_EQ(start, content);
}

TEST_P(CodecTest, WhatFollowsTheDataIsAnError) {
  const std::string file = Compress(GetParam(), "content");
  ExpectError(Read(file + "garbage that follows").status(), absl::StatusCode::kDataLoss,
              "bytes follow the ");
  ExpectError(Read(file + "garbage that follows").status(), absl::StatusCode::kDataLoss,
              "at byte " + std::to_string(file.size()));
  ExpectError(Read(file + "x").status(), absl::StatusCode::kDataLoss, "bytes follow the ");
}

TEST_P(CodecTest, DamageIsAnErrorAndNeverOtherContent) {
  const std::string content = RandomText(5000);
  const std::string file = Compress(GetParam(), content);
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string damaged = file;
    damaged[kCodecMagicBytes + random() % (file.size() - kCodecMagicBytes)] ^= 1 << random() % 8;
    const absl::StatusOr<std::string> read = Read(damaged);
    if (!read.ok()) {
      ++refused;
      EXPECT_THAT(std::string(read.status().message()), HasSubstr(Path("a") + ": "));
    }
    // ZSTD_compress adds no checksum, so its content may change.
    if (read.ok() && GetParam() != Codec::kZstd) {
      EXPECT_EQ(*read, content);
    }
  }
  EXPECT_GT(refused, GetParam() == Codec::kZstd ? 30 : 250);
}

TEST_P(CodecTest, SourcesReadCompressedFilesTwice) {
  std::string table = "n,text\n";
  for (int i = 0; i < 20000; ++i) table += std::to_string(i) + ",line " + std::to_string(i) + "\n";
  const std::string file = Compress(GetParam(), table);
  std::vector<std::string> plain = Texts(Convert(**MakeCsvSource({Write("p", table)})));
  auto source = *MakeCsvSource({Write("c", file), Write("p", table)});
  uint64_t reached = 0;
  ASSERT_TRUE(source->Scan({}, [&](uint64_t bytes) { reached = std::max(reached, bytes); }).ok());
  EXPECT_EQ(reached, file.size() + table.size());
  EXPECT_EQ(source->num_bytes(), file.size() + table.size());
  std::vector<std::string> both = Texts(Convert(*source));
  EXPECT_EQ(both.size(), 2 * plain.size());
  EXPECT_TRUE(std::equal(plain.begin(), plain.end(), both.begin()));
}

TEST_P(CodecTest, MessagesOfTextNamePlacesInTheContent) {
  const auto scan = [&](const std::string& text) {
    return Scan(**MakeTextLinesSource({Write("t", Compress(GetParam(), text))}));
  };
  ExpectError(scan("a\n\xff\n"), absl::StatusCode::kDataLoss,
              "t:2: not UTF-8 at byte 2 of the decompressed data (found 0xff)");
  ExpectError(scan("a\0\n"s), absl::StatusCode::kDataLoss,
              "t:1: a NUL byte at byte 1 of the decompressed data");
  ExpectError(scan(Compress(GetParam(), "a\n")), absl::StatusCode::kDataLoss,
              "t: is compressed twice; decompress it once (" +
                  std::string(CodecProgram(GetParam())) + " -d)");
}

TEST_F(CodecTest, TextIsNotTakenForCompressed) {
  for (const std::string& text :
       {""s, "B"s, "BZh9 is a word,1\n"s, "BZh91AY&S"s, "P*M,1\n"s, "PK"s}) {
    EXPECT_EQ(CodecOf(text), Codec::kNone) << text;
    EXPECT_EQ(*Read(text), text);
  }
}

TEST_F(CodecTest, ZstandardSkipsSkippableFrames) {
  const std::string skippable = "\x50\x2a\x4d\x18\x03\0\0\0abc"s;
  EXPECT_EQ(
      *Read(skippable + Compress(Codec::kZstd, "x") + skippable + Compress(Codec::kZstd, "y")),
      "xy");
}

TEST_F(CodecTest, WindowsAndMemoryAreBounded) {
  // A frame that claims a window of 2 GiB.
  ExpectError(Read("\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00zzzz"s).status(),
              absl::StatusCode::kResourceExhausted,
              "it was compressed with a window of more than 128 MiB; decompress it first (zstd -d");
  lzma_options_lzma options;
  lzma_lzma_preset(&options, 0);
  options.dict_size = 1 << 30;
  const lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
  std::string file(10000, '\0');
  size_t size = 0;
  // The encoder itself takes several times as much, but of untouched memory.
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_encoder(&stream, filters, LZMA_CHECK_CRC32) == LZMA_OK) {
    stream.next_in = reinterpret_cast<const uint8_t*>("abc");
    stream.avail_in = 3;
    stream.next_out = reinterpret_cast<uint8_t*>(file.data());
    stream.avail_out = file.size();
    ASSERT_EQ(lzma_code(&stream, LZMA_FINISH), LZMA_STREAM_END);
    size = file.size() - stream.avail_out;
    lzma_end(&stream);
    ExpectError(Read(file.substr(0, size)).status(), absl::StatusCode::kResourceExhausted,
                "MiB of memory to decompress, more than 256; decompress it first (xz -d)");
  }
}

TEST_F(CodecTest, XzMayBePadded) {
  const std::string x = Compress(Codec::kXz, "x");
  EXPECT_EQ(*Read(x + "\0\0\0\0"s), "x");
  EXPECT_EQ(*Read(x + "\0\0\0\0\0\0\0\0"s + x), "xx");
  ExpectError(Read(x + "\0\0\0"s).status(), absl::StatusCode::kDataLoss, "bytes follow the end");
}

class PipeTest : public SourceTest {
 protected:
  // Makes a FIFO whose writer writes `content` a little at a time.
  std::string Pipe(const std::string& content) {
    const std::string path = Path("pipe");
    ::unlink(path.c_str());
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    if (writer_.joinable()) writer_.join();
    writer_ = std::jthread([path, content] {
      const int fd = ::open(path.c_str(), O_WRONLY);
      for (size_t at = 0; at < content.size(); at += 5000) {
        const std::string part = content.substr(at, at == 0 ? 3 : 5000);
        if (at == 0) {
          if (::write(fd, part.data(), part.size()) < 0) break;
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          const std::string rest = content.substr(std::min<size_t>(3, content.size()), 4997);
          if (::write(fd, rest.data(), rest.size()) < 0) break;
        } else if (::write(fd, part.data(), part.size()) < 0) {
          break;
        }
      }
      ::close(fd);
    });
    return path;
  }

 private:
  std::jthread writer_;
};

TEST_F(PipeTest, PipesAreReadAsStreams) {
  for (const std::string& content : {""s, "a"s, "a\nb\n"s, RandomText(300000)}) {
    EXPECT_EQ(*ReadText(Pipe(content), 1 << 20), content);
  }
}

TEST_F(PipeTest, PipesMayBeCompressed) {
  const std::string content = RandomText(300000);
  for (Codec codec : kCodecs) {
    EXPECT_EQ(*ReadText(Pipe(Compress(codec, content)), 1 << 20), content);
  }
}

TEST_F(PipeTest, TheLimitOfTextsHolds) {
  ExpectError(ReadText(Pipe(RandomText(3000)), 1000).status(), absl::StatusCode::kResourceExhausted,
              "pipe: expected at most 1000 bytes, got more");
  ExpectError(ReadText(Pipe("a\xff\n"), 1000).status(), absl::StatusCode::kDataLoss,
              "pipe:1: not UTF-8 at byte 1");
}

TEST_F(PipeTest, SourcesThatAreReadTwiceRefuseThem) {
  const std::string path = Path("p");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  ExpectError(Scan(**MakeTextLinesSource({path})), absl::StatusCode::kFailedPrecondition,
              "p: not a regular file; it is read twice");
}

}  // namespace
}  // namespace shardfeed
