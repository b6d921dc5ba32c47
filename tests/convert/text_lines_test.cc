#include "convert/sources/text_lines.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;

class TextLinesTest : public SourceTest {
 protected:
  static std::unique_ptr<Source> Make(std::vector<std::string> paths) {
    absl::StatusOr<std::unique_ptr<Source>> source = MakeTextLinesSource(std::move(paths));
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }
  std::unique_ptr<Source> Open(std::string_view content) { return Make({Write("a.txt", content)}); }
};

TEST_F(TextLinesTest, EachLineIsARecord) {
  EXPECT_THAT(
      Texts(Convert(*Open("one\r\n t\u00e4o \n\nlast"))),
      ElementsAre("text=bytes[one]", "text=bytes[ t\u00e4o ]", "text=bytes[]", "text=bytes[last]"));
}

TEST_F(TextLinesTest, ReadsSeveralFilesAsOne) {
  auto source = Make({Write("a.txt", "1\n2\n"), Write("b.txt", ""),
                      Write("c.txt",
                            "\xef\xbb\xbf"
                            "3")});
  EXPECT_THAT(Texts(Convert(*source)),
              ElementsAre("text=bytes[1]", "text=bytes[2]", "text=bytes[3]"));
  EXPECT_EQ(source->num_bytes(), 8);
  const std::vector<Kept> items = Items(*source);
  EXPECT_EQ(items[1].line, 2);
  EXPECT_EQ(items[2].file, 2);
  EXPECT_EQ(items[2].line, 1);
}

TEST_F(TextLinesTest, NamesTheLineThatIsNotUtf8) {
  ExpectError(Scan(*Open("a\nb\xff\n")), absl::StatusCode::kDataLoss,
              "a.txt:2: not UTF-8 at byte 3");
  ExpectError(Scan(*Open("a\nb\0c\n"s)), absl::StatusCode::kDataLoss, "a.txt:2: a NUL byte");
  ExpectError(Scan(*Open("\xff\xfe"
                         "a\0\n\0"s)),
              absl::StatusCode::kDataLoss,
              "a.txt: looks like UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)");
}

TEST_F(TextLinesTest, RefusesAnEmptyInput) {
  ExpectError(Scan(*Open("")), absl::StatusCode::kDataLoss, "a.txt: no records: the file is empty");
  ExpectError(MakeTextLinesSource({}).status(), absl::StatusCode::kInvalidArgument,
              "expected text files");
  ExpectError(Scan(*Make({Path("none.txt")})), absl::StatusCode::kNotFound, "none.txt");
}

TEST_F(TextLinesTest, NoticesThatAFileChanged) {
  auto source = Open("a\nb\n");
  ASSERT_TRUE(Scan(*source).ok());
  Write("a.txt", "a\nb\nc\n");
  ExpectError(source->ForEach([](const Item&) { return absl::OkStatus(); }),
              absl::StatusCode::kFailedPrecondition, "a.txt: changed while it was being read");
}

TEST_F(TextLinesTest, StopsAtTheFirstErrorOfTheSink) {
  auto source = Open("a\nb\n");
  ASSERT_TRUE(Scan(*source).ok());
  ExpectError(source->ForEach([](const Item&) { return absl::UnavailableError("full"); }),
              absl::StatusCode::kUnavailable, "full");
}

}  // namespace
}  // namespace shardfeed
