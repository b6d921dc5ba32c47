#include "convert/input/text_reader.h"

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/remedy.h"
#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class TextReaderTest : public SourceTest {
 protected:
  using Lines = std::vector<std::pair<uint64_t, std::string>>;

  std::unique_ptr<TextReader> Open(const std::string& content, TextReaderOptions options = {}) {
    absl::StatusOr<std::unique_ptr<TextReader>> reader =
        TextReader::Open(Write("a.txt", content), std::move(options));
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }

  static TextReaderOptions SmallBuffer() {
    TextReaderOptions options;
    options.buffer_bytes = 4096;
    return options;
  }

  // Returns all lines with their numbers; the reader keeps the status.
  static Lines ReadLines(TextReader& reader) {
    Lines lines;
    TextReader::Line line;
    while (reader.NextLine(&line)) lines.emplace_back(line.number, line.text);
    return lines;
  }

  // The error of reading `content`, wherever it occurs.
  absl::Status Failure(const std::string& content, TextReaderOptions options = {}) {
    absl::StatusOr<std::unique_ptr<TextReader>> reader =
        TextReader::Open(Write("a.txt", content), std::move(options));
    if (!reader.ok()) return reader.status();
    ReadLines(**reader);
    return (*reader)->status();
  }
};

TEST_F(TextReaderTest, SplitsAtBothKindsOfLineBreak) {
  auto reader = Open("one\ntwo\r\n\n\r\nfi\rve\r\r\nlast");
  EXPECT_THAT(ReadLines(*reader), ElementsAre(Pair(1, "one"), Pair(2, "two"), Pair(3, ""),
                                              Pair(4, ""), Pair(5, "fi\rve\r"), Pair(6, "last")));
  EXPECT_TRUE(reader->status().ok());
}

TEST_F(TextReaderTest, ALineBreakAtTheEndStartsNoLine) {
  EXPECT_THAT(ReadLines(*Open("one\n")), ElementsAre(Pair(1, "one")));
  EXPECT_THAT(ReadLines(*Open("\n")), ElementsAre(Pair(1, "")));
  EXPECT_THAT(ReadLines(*Open("")), ElementsAre());
}

TEST_F(TextReaderTest, SkipsAByteOrderMark) {
  EXPECT_THAT(ReadLines(*Open("\xef\xbb\xbfone\ntwo")),
              ElementsAre(Pair(1, "one"), Pair(2, "two")));
  EXPECT_THAT(ReadLines(*Open("\xef\xbb\xbf")), ElementsAre());
}

TEST_F(TextReaderTest, JoinsLinesAcrossReads) {
  std::mt19937 random(1);
  Lines expected;
  std::string content;
  for (uint64_t number = 1; number <= 3000; ++number) {
    std::string line;
    // Characters of one to four bytes, so that reads split them everywhere.
    for (int i = random() % 60; i > 0; --i) {
      line += std::vector<std::string>{"a", "\u00e9", "\u20ac", "\U0001f600"}[random() % 4];
    }
    if (number % 500 == 0) line.append(20000, 'x');
    content += line + (random() % 2 == 0 ? "\n" : "\r\n");
    expected.emplace_back(number, line);
  }
  auto reader = Open(content, SmallBuffer());
  EXPECT_EQ(ReadLines(*reader), expected);
  EXPECT_TRUE(reader->status().ok()) << reader->status();
}

TEST_F(TextReaderTest, NamesLineAndByteOfWhatIsNotUtf8) {
  ExpectError(Failure("good\nba\xe9"
                      "d\nmore\n"),
              absl::StatusCode::kDataLoss, "a.txt:2: not UTF-8 at byte 7 of the file (found 0xe9)");
  // A cut character before a line break, a stray continuation, an overlong form, a surrogate.
  ExpectError(Failure("\xe2\x82\nx"), absl::StatusCode::kDataLoss, "a.txt:1: not UTF-8 at byte 0 ");
  ExpectError(Failure("ab\n\x80"), absl::StatusCode::kDataLoss, "a.txt:2: not UTF-8 at byte 3 ");
  ExpectError(Failure("a\xc0\xaf"), absl::StatusCode::kDataLoss, "a.txt:1: not UTF-8 at byte 1 ");
  ExpectError(Failure("\xed\xa0\x80"), absl::StatusCode::kDataLoss, "a.txt:1: not UTF-8 at byte 0");
  // At the end of the file, where no next byte follows.
  ExpectError(Failure("a\nb\xf0\x9f\x98"), absl::StatusCode::kDataLoss,
              "a.txt:2: not UTF-8 at byte 3 ");
}

TEST_F(TextReaderTest, NamesLineAndByteInLaterReads) {
  std::string content;
  for (int i = 0; i < 5000; ++i) content += "line " + std::to_string(i) + "\n";
  const size_t at = content.find("line 4321");
  content[at] = '\xff';
  ExpectError(Failure(content, SmallBuffer()), absl::StatusCode::kDataLoss,
              "a.txt:4322: not UTF-8 at byte " + std::to_string(at) + " of the file (found 0xff)");
  content[at] = '\0';
  ExpectError(Failure(content, SmallBuffer()), absl::StatusCode::kDataLoss,
              "a.txt:4322: a NUL byte at byte " + std::to_string(at) + " of the file");
}

TEST_F(TextReaderTest, LinesBeforeABadReadAreHandedOut) {
  std::string content(20000, '\n');
  content += "\xff";
  auto reader = Open(content, SmallBuffer());
  EXPECT_GE(ReadLines(*reader).size(), 8000);
  EXPECT_FALSE(reader->status().ok());
  TextReader::Line line;
  EXPECT_FALSE(reader->NextLine(&line));
}

TEST_F(TextReaderTest, RecognizesWhatIsNotUtf8Text) {
  ExpectError(Failure("\xff\xfeh\0i\0"s), absl::StatusCode::kDataLoss,
              "a.txt: looks like UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)");
  ExpectError(Failure("\xfe\xff\0h\0i"s), absl::StatusCode::kDataLoss, "looks like UTF-16");
  ExpectError(Failure("h\0i\0"s), absl::StatusCode::kDataLoss, "looks like UTF-16LE");
  ExpectError(Failure("\0h\0i"s), absl::StatusCode::kDataLoss, "looks like UTF-16BE");
  ExpectError(Failure("\xef\xbb\xbfh\0i\0"s), absl::StatusCode::kDataLoss, "looks like UTF-16LE");
  ExpectError(Failure("\xff\xfe\0\0h\0\0\0"s), absl::StatusCode::kDataLoss,
              "a.txt: looks like UTF-32; convert it to UTF-8 (iconv -f UTF-32 -t UTF-8)");
  ExpectError(Failure("\x04\x22\x4d\x18\x64"), absl::StatusCode::kDataLoss, "with LZ4");
  ExpectError(Failure("PK\x03\x04"), absl::StatusCode::kDataLoss, "an Excel workbook");
}

TEST_F(TextReaderTest, ConvertsOtherEncodings) {
  // Longer than the buffer, with characters of one to four bytes in UTF-8 that the reads cut.
  std::mt19937 random(1);
  const std::vector<std::pair<std::string, std::string>> characters = {
      {"a", "a\0"s},
      {"\n", "\n\0"s},
      {"\u00e4", "\xe4\0"s},
      {"\u20ac", "\xac\x20"},
      {"\U0001f600", "\x3d\xd8\x00\xde"s}};
  std::string utf8 = "x";
  std::string utf16 = "\xff\xfex\0"s;
  for (int i = 0; i < 50000; ++i) {
    const auto& [one, other] = characters[random() % characters.size()];
    utf8 += one;
    utf16 += other;
  }
  for (size_t size : {1, 32, 4096, 1 << 20}) {
    TextReaderOptions options;
    options.buffer_bytes = size;
    const Lines expected = ReadLines(*Open(utf8, options));
    options.encoding = std::nullopt;
    auto reader = Open(utf16, options);
    EXPECT_EQ(ReadLines(*reader), expected);
    EXPECT_EQ(reader->encoding(), TextEncoding::kUtf16Le);
    EXPECT_TRUE(reader->status().ok()) << reader->status();
    options.encoding = TextEncoding::kUtf16Be;  // the byte order mark knows better
    EXPECT_EQ(ReadLines(*Open(utf16, options)), expected);
    options.encoding = TextEncoding::kWindows1252;
    EXPECT_THAT(ReadLines(*Open("\x80\n" + std::string(5000, '\xe4'), options)),
                ElementsAre(Pair(1, "\u20ac"), Pair(2, testing::SizeIs(10000))));
  }
}

TEST_F(TextReaderTest, NamesWhatIsNotTheOtherEncoding) {
  TextReaderOptions options = SmallBuffer();
  options.encoding = std::nullopt;
  ExpectError(Failure("\xff\xfe"
                      "a\0\n\0\0\xde"s,
                      options),
              absl::StatusCode::kDataLoss,
              "a.txt:2: not UTF-16: half of a character at byte 6 of the file");
  ExpectError(Failure("\xff\xfe"
                      "a\0b"s,
                      options),
              absl::StatusCode::kDataLoss,
              "a.txt:1: the file ends inside a character at byte 4 of the file");
  ExpectError(Failure("\xff\xfe"
                      "a\0\0\0"s,
                      options),
              absl::StatusCode::kDataLoss, "a.txt:1: a NUL character");
  options.offers_encodings = true;
  const absl::Status status = Failure("h\0i\0"s, options);
  ExpectError(status, absl::StatusCode::kDataLoss, "a.txt: looks like UTF-16");
  EXPECT_EQ(RemedyOf(status)->value, "utf-16le");
}

TEST_F(TextReaderTest, RefusesALineAboveTheLimit) {
  TextReaderOptions options = SmallBuffer();
  options.max_line_bytes = 10000;
  ExpectError(Failure("short\n" + std::string(50000, 'x') + "\n", options),
              absl::StatusCode::kDataLoss, "a.txt:2: the record is longer than 10000 bytes");
  auto reader = Open("short\n" + std::string(9000, 'x') + "\nshort", options);
  EXPECT_EQ(ReadLines(*reader).size(), 3);
  EXPECT_TRUE(reader->status().ok());
}

TEST_F(TextReaderTest, TellsHowFarItHasRead) {
  std::vector<uint64_t> offsets;
  TextReaderOptions options = SmallBuffer();
  options.on_read = [&](uint64_t offset) {
    offsets.push_back(offset);
    return absl::OkStatus();
  };
  ReadLines(*Open(std::string(20000, '\n'), options));
  EXPECT_GE(offsets.size(), 3);
  EXPECT_TRUE(std::is_sorted(offsets.begin(), offsets.end()));
  EXPECT_EQ(offsets.back(), 20000);
}

TEST_F(TextReaderTest, EndsWhenItsListenerFails) {
  TextReaderOptions options = SmallBuffer();
  options.on_read = [&](uint64_t offset) {
    return offset > 8000 ? absl::CancelledError("enough") : absl::OkStatus();
  };
  ExpectError(Failure(std::string(20000, '\n'), options), absl::StatusCode::kCancelled, "enough");
}

TEST_F(TextReaderTest, AMissingFileIsNotFound) {
  ExpectError(TextReader::Open(Path("none.txt"), {}).status(), absl::StatusCode::kNotFound,
              "none.txt: cannot open: No such file");
}

}  // namespace
}  // namespace shardfeed
