#include "convert/sources/csv.h"

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "convert/input/csv_row.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/remedy.h"
#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CsvTest : public SourceTest {
 protected:
  static std::unique_ptr<Source> Make(std::vector<std::string> paths, char delimiter = ',') {
    absl::StatusOr<std::unique_ptr<Source>> source =
        MakeCsvSource(std::move(paths), {.delimiter = delimiter});
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }
  std::unique_ptr<Source> Open(std::string_view content, char delimiter = ',') {
    return Make({Write("a.csv", content)}, delimiter);
  }
  std::unique_ptr<Source> OpenWith(std::string_view content, CsvOptions options) {
    return *MakeCsvSource({Write("a.csv", content)}, std::move(options));
  }
  // The records of a file whose dialect is guessed, and then the notes.
  std::vector<std::string> Guessed(std::string_view content, CsvOptions options = {}) {
    auto source = OpenWith(content, std::move(options));
    std::vector<std::string> texts = Texts(Convert(*source));
    for (std::string& note : source->notes()) texts.push_back(std::move(note));
    return texts;
  }
  // The records of a file, as text.
  std::vector<std::string> Read(std::string_view content, char delimiter = ',') {
    return Texts(Convert(*Open(content, delimiter)));
  }
  void ExpectScanError(std::string_view content, const std::string& message) {
    ExpectError(Scan(*Open(content)), absl::StatusCode::kDataLoss, message);
  }
};

TEST_F(CsvTest, InfersTheKindOfEachColumn) {
  EXPECT_THAT(Read("id,score,name,code\n1,0.5,anna,007\n-2,3,bert,12\n"),
              ElementsAre("code=bytes[007] id=int64[1] name=bytes[anna] score=float[0.5]",
                          "code=bytes[12] id=int64[-2] name=bytes[bert] score=float[3]"));
}

TEST_F(CsvTest, InfersOverTheWholeFile) {
  EXPECT_THAT(
      Read("a,b\n1,1\n2,2\n3.5,x\n"),
      ElementsAre("a=float[1] b=bytes[1]", "a=float[2] b=bytes[2]", "a=float[3.5] b=bytes[x]"));
}

TEST_F(CsvTest, TakesNanAndInfForFloats) {
  EXPECT_THAT(Read("a\nnan\n1\n-inf\n"),
              ElementsAre("a=float[nan]", "a=float[1]", "a=float[-inf]"));
}

TEST_F(CsvTest, AnEmptyCellIsMissing) {
  EXPECT_THAT(Read("a,b\n1,\n,x\n\"\",\"\"\n"), ElementsAre("a=int64[1]", "b=bytes[x]", ""));
}

TEST_F(CsvTest, AnEmptyColumnIsAbsentEverywhereAndNoted) {
  auto source = Open("a,b\n1,\n2,\"\"\n");
  EXPECT_THAT(Texts(Convert(*source)), ElementsAre("a=int64[1]", "a=int64[2]"));
  EXPECT_THAT(source->notes(),
              ElementsAre("read as CSV: delimiter ',', header, UTF-8",
                          "column \"b\" is empty in every row, so no record has this feature"));
}

TEST_F(CsvTest, NotesAColumnThatOneCellTurnsIntoBytes) {
  auto source = Open("age,name\n31,x\n32,y\n?,z\n33,1\n");
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(),
              ElementsAre("read as CSV: delimiter ',', header, UTF-8",
                          "column \"age\" is bytes because of 1 value, \"?\" at " + Path("a.csv") +
                              ":4; the other 3 values are numbers"));
}

TEST_F(CsvTest, ReadsQuotedCells) {
  EXPECT_THAT(Read("a,b\n\"x,y\",\"he said \"\"hi\"\"\"\n\"1\",\"\"\"\"\n"),
              ElementsAre("a=bytes[x,y] b=bytes[he said \"hi\"]", "a=bytes[1] b=bytes[\"]"));
  // Quotes alone do not turn numbers into text.
  EXPECT_THAT(Read("\"a\"\n\"1\"\n2\n"), ElementsAre("a=int64[1]", "a=int64[2]"));
}

TEST_F(CsvTest, KeepsLineBreaksInsideQuotesAndCountsThem) {
  auto source = Open("a,b\r\n\"one\r\ntwo\n\",1\r\nx,2\r\n");
  EXPECT_THAT(Texts(Convert(*source)),
              ElementsAre("a=bytes[one\r\ntwo\n] b=int64[1]", "a=bytes[x] b=int64[2]"));
  const std::vector<Kept> items = Items(*source);
  EXPECT_EQ(items[0].line, 2);
  EXPECT_EQ(items[1].line, 5);
}

TEST_F(CsvTest, KeepsSpacesAndStrayQuotes) {
  EXPECT_THAT(Read("size,b\n5\" disk, a\n6\"\"x,b \n"),
              ElementsAre("b=bytes[ a] size=bytes[5\" disk]", "b=bytes[b ] size=bytes[6\"\"x]"));
}

TEST_F(CsvTest, TheLastLineNeedsNoBreak) {
  EXPECT_THAT(Read("a\n1\n2"), ElementsAre("a=int64[1]", "a=int64[2]"));
  EXPECT_THAT(Read("a,b\n1,2\r"), ElementsAre("a=int64[1] b=int64[2]"));
  EXPECT_THAT(Read("a,b\n1,"), ElementsAre("a=int64[1]"));
  EXPECT_THAT(Read("a,b\n1,\"2\""), ElementsAre("a=int64[1] b=int64[2]"));
}

TEST_F(CsvTest, SkipsBlankLinesAndAByteOrderMark) {
  auto source = Open("\xef\xbb\xbf\n\r\na\n\n1\r\n\r\n2\n\n");
  EXPECT_THAT(Texts(Convert(*source)), ElementsAre("a=int64[1]", "a=int64[2]"));
  EXPECT_EQ(Items(*source)[1].line, 7);
}

TEST_F(CsvTest, AQuotedEmptyLineIsARecord) {
  EXPECT_THAT(Read("a\n1\n\"\"\n"), ElementsAre("a=int64[1]", ""));
}

TEST_F(CsvTest, SplitsAtAnotherDelimiter) {
  EXPECT_THAT(Read("a\tb\n1,5\t\"x\ty\"\n", '\t'), ElementsAre("a=float[1.5] b=bytes[x\ty]"));
  EXPECT_THAT(Read("a;b\n1;2\n", ';'), ElementsAre("a=int64[1] b=int64[2]"));
}

TEST_F(CsvTest, KeepsNamesAndTextInUtf8) {
  EXPECT_THAT(Read("gr\u00f6\u00dfe\n\u20ac\n"), ElementsAre("gr\u00f6\u00dfe=bytes[\u20ac]"));
}

TEST_F(CsvTest, ReadsSeveralFilesAsOne) {
  auto source = Make({Write("a.csv", "x,y\n1,1\n"), Write("b.csv", "\"x\",y\r\n2.5,2\r\n3,z")});
  EXPECT_THAT(
      Texts(Convert(*source)),
      ElementsAre("x=float[1] y=bytes[1]", "x=float[2.5] y=bytes[2]", "x=float[3] y=bytes[z]"));
  EXPECT_EQ(source->num_records(), 3);
  EXPECT_EQ(source->num_bytes(), 8 + 17);
  const std::vector<Kept> items = Items(*source);
  EXPECT_EQ(items[2].file, 1);
  EXPECT_EQ(items[2].line, 3);
}

TEST_F(CsvTest, NamesTheRowWithTooManyOrTooFewCells) {
  ExpectScanError(
      "a,b\n1,2\n\"x\ny\",2\n1,2,3\n",
      "a.csv:5: expected 2 cells as in the header, got 3; cells that contain \",\" must be quoted");
  ExpectScanError("a,b\n1,2\n3\n", "a.csv:3: expected 2 cells as in the header, got 1");
}

TEST_F(CsvTest, NamesTheLineWhereAQuoteIsLeftOpen) {
  ExpectScanError("a,b\n1,2\n\"x\ny\",\"never closed\n3,4\n",
                  "a.csv:4: the quote that opens here is never closed");
}

TEST_F(CsvTest, NamesTextAfterAClosingQuote) {
  ExpectScanError(
      "a,b\n\"x\n\"y,2\n",
      "a.csv:3: expected a delimiter (\",\") or the end of the row after a closing quote, "
      "got \"y,2\\n\"");
}

TEST_F(CsvTest, NamesALoneCarriageReturn) {
  ExpectScanError("a,b\n1,2\n3\r4,5\n", "a.csv:3: a carriage return without a line feed");
}

TEST_F(CsvTest, NamesWhatIsNotUtf8) {
  ExpectScanError("a\nx\n\xff\n", "a.csv:3: not UTF-8 at byte 4");
  ExpectScanError("a\0\n\0"s, "a.csv: looks like UTF-16");
  ExpectScanError("a\nx\0y\n"s, "a.csv:2: a NUL byte");
}

TEST_F(CsvTest, RefusesAFileWithoutHeaderOrRecords) {
  ExpectScanError("", "a.csv: the file is empty; its first row must name the columns");
  ExpectScanError("#tag,text\n#a,hello\n", "a.csv: no rows follow the lines that begin with #");
  ExpectScanError("\n\n", "a.csv: the file is empty");
  ExpectScanError("a,b\n", "a.csv: no records: nothing follows the header");
}

TEST_F(CsvTest, NamesColumnsWithoutAName) {
  EXPECT_THAT(Guessed("a,,c\nx,y,z\n"),
              ElementsAre("a=bytes[x] c=bytes[z] column2=bytes[y]",
                          "read as CSV: delimiter ',', header, UTF-8",
                          "1 column has no name and is called \"column2\""));
  // The default of pandas.
  EXPECT_THAT(Guessed(",a,\n0,5,x\n1,6,y\n"),
              ElementsAre("a=int64[5] column3=bytes[x] index=int64[0]",
                          "a=int64[6] column3=bytes[y] index=int64[1]",
                          "read as CSV: delimiter ',', header, UTF-8",
                          "2 columns have no name and are called \"index\", \"column3\""));
  EXPECT_THAT(Guessed("\"\",index,column3,\nx,y,z,w\n")[0],
              "column1=bytes[x] column3=bytes[z] column4=bytes[w] index=bytes[y]");
}

TEST_F(CsvTest, RenamesColumnsOfEqualNamesAsPandasDoes) {
  EXPECT_THAT(Guessed("a,b,a,a\nw,x,y,z\n"),
              ElementsAre("a=bytes[w] a.1=bytes[y] a.2=bytes[z] b=bytes[x]",
                          "read as CSV: delimiter ',', header, UTF-8",
                          "2 columns have the name of an earlier one and are called \"a.1\", "
                          "\"a.2\""));
  EXPECT_THAT(Guessed("a,a,a.1\nx,y,z\n")[0], "a=bytes[x] a.1=bytes[z] a.2=bytes[y]");
}

TEST_F(CsvTest, GuessesHowAFileIsWritten) {
  EXPECT_THAT(Guessed("name;preis\nx;1,5\ny;2\n"),
              ElementsAre("name=bytes[x] preis=float[1.5]", "name=bytes[y] preis=float[2]",
                          "read as CSV: delimiter ';', header, UTF-8, decimal mark ','"));
  EXPECT_THAT(Guessed("5.1\tsetosa\n4.9\tsetosa\n"),
              ElementsAre("column1=float[5.0999999] column2=bytes[setosa]",
                          "column1=float[4.9000001] column2=bytes[setosa]",
                          "read as CSV: delimiter tab, no header (the names are column1 to "
                          "column2), UTF-8"));
  EXPECT_THAT(Guessed("39, State-gov\n50, \"Private, other\"\n"),
              ElementsAre("column1=int64[39] column2=bytes[State-gov]",
                          "column1=int64[50] column2=bytes[Private, other]",
                          "read as CSV: delimiter ',', no header (the names are column1 to "
                          "column2), UTF-8, without the blanks after delimiters"));
  EXPECT_THAT(Guessed("1\n2\n"),
              ElementsAre("column1=int64[1]", "column1=int64[2]",
                          "read as CSV: one column, no header (the name is column1), UTF-8"));
}

TEST_F(CsvTest, OptionsOverrideGuesses) {
  EXPECT_THAT(Guessed("a;b\n1;2\n", {.delimiter = ','})[0], "a;b=bytes[1;2]");
  EXPECT_THAT(Guessed("1,2\n3,4\n", {.header = true})[0], "1=int64[3] 2=int64[4]");
  EXPECT_THAT(Guessed("a,b\n1,2\n", {.header = false}),
              ElementsAre("column1=bytes[a] column2=bytes[b]", "column1=bytes[1] column2=bytes[2]",
                          "read as CSV: delimiter ',', no header (the names are column1 to "
                          "column2), UTF-8"));
  EXPECT_THAT(Guessed("a,b\n1,2\n", {.header = true, .names = {"x", "y"}}),
              ElementsAre("x=int64[1] y=int64[2]",
                          "read as CSV: delimiter ',', header replaced by the given names, UTF-8"));
  ExpectError(Scan(*OpenWith("a,b\n1,2\n", {.header = true, .names = {"x"}})),
              absl::StatusCode::kDataLoss,
              "a.csv:1: the header has 2 columns, but 1 names are given");
  EXPECT_THAT(Guessed("a;b\n1,5;2\n", {.decimal = '.'})[0], "a=bytes[1,5] b=int64[2]");
  EXPECT_THAT(Guessed("a;b\n1.234;2\n", {.thousands = '.'}),
              ElementsAre("a=int64[1234] b=int64[2]",
                          "read as CSV: delimiter ';', header, UTF-8, decimal mark ',', thousands "
                          "mark '.'"));
}

TEST_F(CsvTest, TrimsAsToldTo) {
  const std::string text = "a,b\n 1,x \n2,\"y\"\n";
  EXPECT_THAT(Guessed(text), ElementsAre("a=int64[1] b=bytes[x ]", "a=int64[2] b=bytes[y]",
                                         "read as CSV: delimiter ',', header, UTF-8",
                                         "column \"a\": blanks around 1 value were left out, first "
                                         "at " +
                                             Path("a.csv") + ":2"));
  EXPECT_THAT(Guessed(text, {.trim = CsvOptions::Trim::kAll}),
              ElementsAre("a=int64[1] b=bytes[x]", "a=int64[2] b=bytes[y]",
                          "read as CSV: delimiter ',', header, UTF-8, without the blanks around "
                          "cells"));
  EXPECT_THAT(Guessed(text, {.trim = CsvOptions::Trim::kNone})[0], "a=bytes[ 1] b=bytes[x ]");
  EXPECT_THAT(Guessed("a, b\n1, x\n", {.trim = CsvOptions::Trim::kNone})[0],
              " b=bytes[ x] a=int64[1]");
}

TEST_F(CsvTest, SkipsCommentsAtTheBeginning) {
  auto source = OpenWith("# made by hand\n\n# in May\na,b\n1,x\n#2,y\n", {});
  EXPECT_THAT(Texts(Convert(*source)),
              ElementsAre("a=bytes[1] b=bytes[x]", "a=bytes[#2] b=bytes[y]"));
  EXPECT_EQ(Items(*source)[1].line, 6);
  EXPECT_THAT(source->notes()[0],
              "read as CSV: delimiter ',', header, UTF-8, 2 comment lines skipped");
  // As NumPy writes a header.
  EXPECT_THAT(Guessed("# x,y\n1.5,2\n2.5,3\n"),
              ElementsAre("x=float[1.5] y=int64[2]", "x=float[2.5] y=int64[3]",
                          "read as CSV: delimiter ',', header in a comment, UTF-8, 1 comment line "
                          "skipped"));
  EXPECT_THAT(Guessed("#a,b\n1,x\n", {.comments = false})[0], "#a=int64[1] b=bytes[x]");
  // Excel's way to name the delimiter.
  EXPECT_THAT(Guessed("sep=|\na|b\n1|x,y\n")[0], "a=int64[1] b=bytes[x,y]");
}

TEST_F(CsvTest, SkipsCommentsInEachFile) {
  auto source = *MakeCsvSource(
      {Write("a.csv", "# x,y\n1,2\n1,2\n"), Write("b.csv", "# of May\n# x,y\n3,4\n")});
  EXPECT_THAT(Texts(Convert(*source)), ElementsAre("x=int64[1] y=int64[2]", "x=int64[1] y=int64[2]",
                                                   "x=int64[3] y=int64[4]"));
  EXPECT_EQ(Items(*source)[2].line, 3);
}

TEST_F(CsvTest, ReadsOtherEncodings) {
  const std::string utf16 =
      "\xff\xfe"
      "a\0,\0\xe4\0\n\0"
      "1\0,\0\xac\x20\n\0"s;
  EXPECT_THAT(Guessed(utf16), ElementsAre("a=int64[1] \u00e4=bytes[\u20ac]",
                                          "read as CSV: delimiter ',', header, UTF-16"));
  EXPECT_THAT(Guessed(utf16.substr(2), {.encoding = TextEncoding::kUtf16Le})[0],
              "a=int64[1] \u00e4=bytes[\u20ac]");
  EXPECT_THAT(
      Guessed("n\n\xe4\x80\n", {.encoding = TextEncoding::kWindows1252}),
      ElementsAre("n=bytes[\u00e4\u20ac]", "read as CSV: one column, header, Windows-1252"));
  auto both = *MakeCsvSource({Write("a.csv", "a\nx\n"), Write("b.csv",
                                                              "\xff\xfe"
                                                              "a\0\n\0y\0"s)});
  EXPECT_THAT(Texts(Convert(*both)), ElementsAre("a=bytes[x]", "a=bytes[y]"));
  EXPECT_THAT(both->notes(), ElementsAre("read as CSV: one column, header, UTF-8 and UTF-16"));
  EXPECT_THAT(Guessed("n\nf\xfcnf \x80\n"),
              ElementsAre("n=bytes[f\u00fcnf \u20ac]",
                          "read as CSV: one column, header, Windows-1252 (a guess: not UTF-8)"));
  EXPECT_THAT(Guessed("n\nf\xfcnf\n", {.encoding = TextEncoding::kLatin1})[1],
              "read as CSV: one column, header, Latin-1");
  auto mixed = *MakeCsvSource({Write("a.csv", "a\nx\n"), Write("b.csv", "a\nf\xfcnf\n")});
  EXPECT_THAT(Texts(Convert(*mixed)), ElementsAre("a=bytes[x]", "a=bytes[f\u00fcnf]"));
  EXPECT_THAT(mixed->notes(), ElementsAre("read as CSV: one column, header, UTF-8 and "
                                          "Windows-1252 in " +
                                          Path("b.csv") + " (a guess: not UTF-8)"));
  absl::Status status = Scan(*OpenWith("n\n\xe4\n", {}));
  ExpectError(status, absl::StatusCode::kDataLoss,
              "a.csv:2: not UTF-8 at byte 2 of the file (found 0xe4); it is damaged, or of another "
              "encoding, which iconv -t UTF-8 converts");
  EXPECT_EQ(RemedyOf(status)->option, "on_error");
  // What follows the beginning, from which the encoding is guessed or not.
  std::string ascii;
  while (ascii.size() < (2 << 20)) ascii += "some words\n";
  status = Scan(*OpenWith("n\n" + ascii + "f\xfcnf\n", {}));
  ExpectError(status, absl::StatusCode::kDataLoss, "(found 0xfc); it may be Windows-1252");
  EXPECT_EQ(RemedyOf(status)->option, "encoding");
  for (const char* other : {"f\xc3\xbcnf", "a\x9d"}) {
    const std::string content = "n\nf\xfcnf\n" + ascii;
    const auto source = OpenWith(content + "x" + other + "\n", {});
    source->SkipDefects([](const absl::Status& /*defect*/, uint64_t /*records*/) {});
    status = Scan(*source);
    ExpectError(status, absl::StatusCode::kDataLoss,
                "Windows-1252 was guessed from the beginning of the file, but what is not "
                "Windows-1252 follows at byte " +
                    std::to_string(content.size() + 2) + " of the file");
    EXPECT_EQ(RemedyOf(status)->option, "encoding");
  }
}

TEST_F(CsvTest, DescribesItsColumns) {
  auto source = OpenWith("b,a,c\n1,x,1.5\n", {.choice = {.columns = {"b", "c"}}});
  ASSERT_TRUE(Scan(*source).ok());
  const std::vector<ColumnDescription> columns = source->columns();
  ASSERT_EQ(columns.size(), 2);
  EXPECT_EQ(columns[0].name + columns[0].kind, "bint64");
  EXPECT_EQ(columns[1].name + columns[1].kind, "cfloat");
}

TEST_F(CsvTest, MissingWordsFitAChosenKind) {
  CsvOptions options;
  options.choice.kinds = {{"a", ColumnKind::kFloat}, {"b", ColumnKind::kBytes}};
  EXPECT_THAT(Guessed("a,b\nNA,18446744073709551616\n1,NA\n", options),
              ElementsAre("b=bytes[18446744073709551616]", "a=float[1] b=bytes[NA]",
                          "read as CSV: delimiter ',', header, UTF-8",
                          "column \"a\": 1 value is missing, the first is \"NA\" at " +
                              Path("a.csv") + ":2"));
}

TEST_F(CsvTest, RefusesFilesWithDifferentHeaders) {
  const std::string a = Write("a.csv", "x,y\n1,2\n");
  ExpectError(Scan(*Make({a, Write("b.csv", "x,z\n1,2\n")})), absl::StatusCode::kDataLoss,
              "b.csv:1: column 2 is named \"z\", but in " + a + " it is named \"y\"");
  ExpectError(Scan(*Make({a, Write("b.csv", "x\n1\n")})), absl::StatusCode::kDataLoss,
              "b.csv:1: the header has 1 columns, but the header of " + a + " has 2");
}

TEST_F(CsvTest, RefusesPathsThatAreNoFiles) {
  ExpectError(Scan(*Make({Path("none.csv")})), absl::StatusCode::kNotFound, "none.csv");
  ExpectError(Scan(*Make({Path("")})), absl::StatusCode::kFailedPrecondition,
              Path("") + ": it is a folder; name the files in it, as in '" + Path("") + "*'");
  ExpectError(Scan(*Make({"/dev/null"})), absl::StatusCode::kFailedPrecondition,
              "/dev/null: not a regular file");
}

TEST_F(CsvTest, RefusesOptionsThatCannotBe) {
  ExpectError(MakeCsvSource({}).status(), absl::StatusCode::kInvalidArgument, "expected CSV files");
  for (char c : {'"', '\n', '\r', '\0', '\xe4'}) {
    ExpectError(MakeCsvSource({"a.csv"}, {.delimiter = c}).status(),
                absl::StatusCode::kInvalidArgument,
                "expected a delimiter that is an ASCII character");
    ExpectError(MakeCsvSource({"a.csv"}, {.decimal = c}).status(),
                absl::StatusCode::kInvalidArgument,
                "expected a decimal mark that is an ASCII character");
  }
  ExpectError(MakeCsvSource({"a.csv"}, {.decimal = ',', .thousands = ','}).status(),
              absl::StatusCode::kInvalidArgument,
              "expected different marks for decimals and thousands, got \",\" for both");
}

TEST_F(CsvTest, NoticesThatAFileChanged) {
  auto source = Open("a\n1\n2\n");
  ASSERT_TRUE(Scan(*source).ok());
  Write("a.csv", "a\n1\n2\n3\n");
  const auto ignore = [](const Item&) { return absl::OkStatus(); };
  ExpectError(source->ForEach(ignore), absl::StatusCode::kFailedPrecondition,
              "a.csv: changed while it was being read");
  // A row that contradicts what Scan saw.
  ExpectError(BuildItem(*source, {"x", 0, 2}).status(), absl::StatusCode::kFailedPrecondition,
              "changed while it was being read");
  ExpectError(BuildItem(*source, {"1,2", 0, 2}).status(), absl::StatusCode::kFailedPrecondition,
              "changed while it was being read");
}

TEST_F(CsvTest, StopsAtTheFirstErrorOfTheSink) {
  auto source = Open("a\n1\n2\n");
  ASSERT_TRUE(Scan(*source).ok());
  int calls = 0;
  ExpectError(source->ForEach([&](const Item&) {
    ++calls;
    return absl::UnavailableError("full");
  }),
              absl::StatusCode::kUnavailable, "full");
  EXPECT_EQ(calls, 1);
}

TEST_F(CsvTest, StopsWhenAskedTo) {
  auto source = Open("a\n1\n");
  std::stop_source stop;
  stop.request_stop();
  ExpectError(source->Scan(stop.get_token(), {}), absl::StatusCode::kCancelled, "interrupted");
}

TEST_F(CsvTest, TellsItsProgressOverAllFiles) {
  auto source = Make({Write("a.csv", "x\n1\n"), Write("b.csv", "x\n2\n")});
  std::vector<uint64_t> progress;
  ASSERT_TRUE(source->Scan({}, [&](uint64_t bytes) { progress.push_back(bytes); }).ok());
  EXPECT_THAT(progress, ElementsAre(4, 8));
}

TEST_F(CsvTest, ScansAgainFromTheStart) {
  auto source = Open("a\n1\n");
  ASSERT_TRUE(Scan(*source).ok());
  Write("a.csv", "b\nx\ny\n");
  EXPECT_THAT(Texts(Convert(*source)), ElementsAre("b=bytes[x]", "b=bytes[y]"));
}

// Random tables that use all variants of CSV's syntax, larger than the read buffer.
TEST_F(CsvTest, ReadsBackRandomTables) {
  std::mt19937 random(1);
  const std::vector<std::string> pieces = {"a",  ",", "\"", "\n",     "\r\n",     "\u00e9",
                                           "\t", " ", "7",  "\u20ac", "some text"};
  for (int table = 0; table < 30; ++table) {
    const size_t num_columns = 2 + random() % 5;
    const size_t num_rows = table == 0 ? 40000 : random() % 50 + 1;
    std::string csv;
    for (size_t c = 0; c < num_columns; ++c) csv += (c > 0 ? ",c" : "c") + std::to_string(c);
    csv += "\n";
    std::vector<std::string> expected;
    for (size_t r = 0; r < num_rows; ++r) {
      std::string text;
      for (size_t c = 0; c < num_columns; ++c) {
        std::string cell = c == 0 ? "x" : "";
        for (int n = random() % 8; n > 0; --n) cell += pieces[random() % pieces.size()];
        if (!cell.empty()) {
          text += (text.empty() ? "c" : " c") + std::to_string(c) + "=bytes[" + cell + "]";
        }
        std::string written;
        if (cell.find_first_of(",\"\r\n") != cell.npos || random() % 3 == 0) {
          for (char character : cell)
            written += character == '"' ? "\"\"" : std::string(1, character);
          written = "\"" + written + "\"";
        } else {
          written = cell;
        }
        csv += (c > 0 ? "," : "") + written;
      }
      csv += random() % 2 == 0 ? "\n" : "\r\n";
      if (random() % 10 == 0) csv += "\n";
      expected.push_back(text);
    }
    auto source = Open(csv);
    std::vector<std::string> found = Texts(Convert(*source));
    // With few rows, a column may have only digits and become int64; its text is the same.
    for (std::string& text : found) {
      for (size_t at = 0; (at = text.find("=int64[", at)) != text.npos;)
        text.replace(at, 7, "=bytes[");
    }
    ASSERT_EQ(found, expected);
  }
}

// Any bytes end in records or an error, and the passes agree on what the rows are.
TEST_F(CsvTest, SurvivesGarbage) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string content = "a,b\n";
    for (int n = random() % 40; n > 0; --n) content += ",\"\n\r1x."[random() % 7];
    auto source = Open(content);
    if (Scan(*source).ok()) {
      EXPECT_EQ(Convert(*source).size(), source->num_records());
    }
  }
}

TEST(SplitCsvRowTest, AsksForMoreTextWhereverARowIsCut) {
  const std::string row = "ab,\"c\"\"d\n\",,e\r\n";
  std::vector<CsvCell> cells;
  for (size_t size = 0; size < row.size(); ++size) {
    EXPECT_EQ(SplitCsvRow(std::string_view(row).substr(0, size), false, {','}, &cells).result,
              CsvSplit::kIncomplete)
        << size;
  }
  const std::string text = row + "next";
  const CsvSplit split = SplitCsvRow(text, false, {','}, &cells);
  EXPECT_EQ(split.result, CsvSplit::kRow);
  EXPECT_EQ(split.bytes, row.size());
  ASSERT_EQ(cells.size(), 4);
  EXPECT_EQ(cells[1].text, "c\"\"d\n");
  EXPECT_TRUE(cells[1].doubled_quotes);
  EXPECT_EQ(cells[3].text, "e");
}

TEST_F(CsvTest, AColumnNamesTheSplits) {
  const auto make = [this](std::string_view content) {
    return *MakeCsvSource({Write("a.csv", content)},
                          {.choice = {.columns = {"i"}}, .split_column = "s \"t\""});
  };
  const std::string header = "i,\"s \"\"t\"\"\"\n";
  auto source = make(header + "1,val\n2,train\n\n3,\"val\"\n");
  EXPECT_TRUE(source->names_splits());
  EXPECT_THAT(Texts(Convert(*source)), ElementsAre("i=int64[1]", "i=int64[2]", "i=int64[3]"));
  ASSERT_EQ(source->splits().size(), 2);
  EXPECT_EQ(source->splits()[0].name, "val");
  EXPECT_EQ(source->splits()[0].records, 2);
  std::vector<size_t> splits;
  for (const Kept& item : Items(*source)) {
    splits.push_back(*source->SplitOf({.bytes = item.bytes, .file = item.file}));
  }
  EXPECT_THAT(splits, ElementsAre(0, 1, 0));
  ExpectError(Scan(*make(header + "1,val\n2,\n")), absl::StatusCode::kDataLoss,
              "a.csv:3: no value in \"s \\\"t\\\"\", which names the split");
  ExpectError(Scan(*make(header + "1,0\n2,NA\n")), absl::StatusCode::kDataLoss,
              "a.csv:3: no value in \"s \\\"t\\\"\", which names the split");
  ExpectError(Scan(*make(header + "1,a/b\n")), absl::StatusCode::kDataLoss,
              "a.csv:2: \"a/b\" in \"s \\\"t\\\"\" cannot name a split");
  ExpectError(Scan(*make("i,split\n1,val\n")), absl::StatusCode::kInvalidArgument,
              "a.csv: column \"s \\\"t\\\"\" does not exist; the columns are \"i\", \"split\"");
  source = make(header + "1,val\n2,\n3,val\n");
  std::vector<std::string> defects;
  source->SkipDefects(
      [&](const absl::Status& defect, uint64_t) { defects.emplace_back(defect.message()); });
  EXPECT_THAT(Texts(Convert(*source)), ElementsAre("i=int64[1]", "i=int64[3]"));
  EXPECT_THAT(defects, ElementsAre(HasSubstr("a.csv:3: no value")));
  EXPECT_EQ(source->splits()[0].records, 2);
}

}  // namespace
}  // namespace shardfeed
