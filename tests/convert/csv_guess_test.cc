#include "convert/features/csv_guess.h"

#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

// The guess as text: ";" or "; header blanks ','".
std::string Guess(std::string_view text, const CsvGiven& given = {}) {
  const CsvGuess guess = GuessCsv(text, /*at_end=*/true, given);
  std::string described(1, guess.dialect.delimiter);
  if (guess.header) described += " header";
  if (guess.dialect.skip_blanks) described += " blanks";
  if (guess.decimal != '.') described += fmt::format(" '{}'", guess.decimal);
  return described;
}

TEST(CsvGuessTest, FindsTheDelimiter) {
  EXPECT_EQ(Guess("name;price\nx;1\n"), "; header");
  EXPECT_EQ(Guess("name\tprice\nx\t1\n"), "\t header");
  EXPECT_EQ(Guess("name|price\nx|1\n"), "| header");
  EXPECT_EQ(Guess("name,price\nx,1\n"), ", header");
  EXPECT_EQ(Guess("a;b"), "; header");
  EXPECT_EQ(Guess("name\nx\n"), ", header");
  EXPECT_EQ(Guess(""), ", header");
}

TEST(CsvGuessTest, IsNotMisledByDelimitersInCells) {
  EXPECT_EQ(Guess("name,text\nx,a;b\ny,c;d\n"), ", header");
  EXPECT_EQ(Guess("name;text\nx;\"a,b\"\ny;c,d\n"), "; header");
  EXPECT_EQ(Guess("name;text\nx;Smith, John\ny;Doe, Jane\n"), "; header");
  EXPECT_EQ(Guess("a,b\n\"x;y\",\"1;2\n;3\"\n"), ", header");
  EXPECT_EQ(Guess("text\nno; yes\nmaybe\n"), ", header");
  // Every row has both, and numbers tell which.
  EXPECT_EQ(Guess("1,5;2,5;3\n3,5;4,5;4\n"), "; ','");
}

TEST(CsvGuessTest, ToleratesAFewBrokenRows) {
  std::string text = "a;b\n";
  for (int i = 0; i < 40; ++i) text += i == 7 ? "1;2;3\n" : i == 9 ? "\"x\"y;2\n" : "1;2\n";
  EXPECT_EQ(Guess(text), "; header");
  EXPECT_EQ(Guess("a,b\n1,2,3\n"), ", header");
}

TEST(CsvGuessTest, FindsTheDecimalMark) {
  EXPECT_EQ(Guess("a;b\n1,5;x\n"), "; header ','");
  EXPECT_EQ(Guess("a\tb\n1,5\tx\n"), "\t header ','");
  EXPECT_EQ(Guess("a;b\n1.234,5;x\n"), "; header ','");
  EXPECT_EQ(Guess("a;b\n1.5;2\n"), "; header");
  // This may as well be a thousand.
  EXPECT_EQ(Guess("a;b\n1,234;x\n"), "; header");
  EXPECT_EQ(Guess("a;b\n1,25;x\n1.25;y\n"), "; header");
  EXPECT_EQ(Guess("a,b\n\"1,5\",x\n"), ", header");
  // Digits are not grouped before an exponent.
  EXPECT_EQ(Guess("a;b\n1,234e+00;x\n"), "; header ','");
  EXPECT_EQ(Guess("a;b\n1,5;x\n", {.decimal = '.'}), "; header");
}

TEST(CsvGuessTest, FindsBlanksAfterDelimiters) {
  EXPECT_EQ(Guess("39, State-gov, 77516\n50, \"Self-emp, not inc\", 83311\n"), ", blanks");
  EXPECT_EQ(Guess("age,work\n39, State-gov\n50, Private\n"), ", header blanks");
  EXPECT_EQ(Guess("a,b\nx, y\nx,z\n"), ", header");
  EXPECT_EQ(Guess("a; b\n1; 2\n"), "; header blanks");
  EXPECT_EQ(Guess("a, b\n1, 2\n", {.skip_blanks = false}), ", header");
}

TEST(CsvGuessTest, TakesNumbersAboveNumbersForData) {
  EXPECT_EQ(Guess("5.1,3.5,setosa\n4.9,3.0,setosa\n"), ",");
  EXPECT_EQ(Guess("1\n2\n3\n"), ",");
  EXPECT_EQ(Guess("x,1\ny,2\n"), ",");
  EXPECT_EQ(Guess("x,NA\ny,2\n"), ",");
  EXPECT_EQ(Guess("x,True\ny,False\n"), ",");
  EXPECT_EQ(Guess("1,2,3\n4,5,6\n"), ",");
  EXPECT_EQ(Guess("1,x\n2,NA\nNA,y\n"), ",");
  EXPECT_EQ(Guess("x,01234,1.5\ny,98765,2.5\n"), ",");
  EXPECT_EQ(Guess("x,+1.5\ny,+2.5\n"), ",");
}

TEST(CsvGuessTest, TakesDatesAboveDatesForData) {
  EXPECT_EQ(Guess("2024-01-01,INFO,start\n2024-01-02,INFO,stop\n"), ",");
  EXPECT_EQ(Guess("2024-01-01 10:00:00,NA\n2024-01-01 11:00:00,2.5\n"), ",");
  EXPECT_EQ(Guess("day,level\n2024-01-01,INFO\n"), ", header");
  EXPECT_EQ(Guess("2024-01-01,n\n2024-01-02,5\n"), ", header");
  // Names of columns, as in a pivot table.
  EXPECT_EQ(Guess("city,2024-01-01,2024-01-02\nBonn,5,6\n"), ", header");
}

TEST(CsvGuessTest, TakesNamesForAHeader) {
  EXPECT_EQ(Guess("name,city\nAnna,Bonn\n"), ", header");
  EXPECT_EQ(Guess(",a,b\n0,1,2\n1,3,4\n"), ", header");
  EXPECT_EQ(Guess(",name\n0,x\n1,y\n"), ", header");
  EXPECT_EQ(Guess("id,2020\n5,1\n"), ", header");
  EXPECT_EQ(Guess("1,2,3\n"), ", header");  // there is nothing else
  // Columns without a name.
  EXPECT_EQ(Guess("name,\nfoo,1\nbar,2\n"), ", header");
  EXPECT_EQ(Guess(",,b\n0,5,x\n"), ", header");
  // Years, and the names of a frame without names.
  EXPECT_EQ(Guess("country,code,1960,1961,1962\nAruba,ABW,54,55,56\n"), ", header");
  EXPECT_EQ(Guess("0,1,2\n0.5,0.25,3\n"), ", header");
  EXPECT_EQ(Guess("1,x\n2,y\n", {.header = true}), ", header");
  EXPECT_EQ(Guess("a,b\n", {.header = false}), ",");
}

TEST(CsvGuessTest, FindsWhatComesBeforeTheRows) {
  CsvStart start = FindCsvStart("# one\n\n#two, three \r\n\na,b\n#x,1\n", true, true);
  EXPECT_EQ(start.bytes, 21);
  EXPECT_EQ(start.lines, 3);
  EXPECT_EQ(start.comments, 2);
  EXPECT_EQ(start.last_comment, "two, three");
  start = FindCsvStart("sep=;\na;b\n", true, true);
  EXPECT_EQ(start.bytes, 6);
  EXPECT_EQ(start.delimiter, ';');
  EXPECT_EQ(FindCsvStart("# one\na,b\n", true, false).bytes, 0);
  EXPECT_EQ(FindCsvStart("\n\na,b\n", true, true).bytes, 0);
  EXPECT_EQ(FindCsvStart("# one", true, true).bytes, 5);
  EXPECT_EQ(FindCsvStart("# one", false, true).bytes, 0);
  EXPECT_EQ(FindCsvStart("", true, true).bytes, 0);
}

}  // namespace
}  // namespace shardfeed
