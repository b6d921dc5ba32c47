#include "convert/features/table_column.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A column with its cells, at lines 1, 2 and so on.
class Table {
 public:
  explicit Table(std::vector<std::string> cells, CellOptions options = {},
                 std::optional<ColumnKind> asked = std::nullopt)
      : rules_(std::move(options)), column_("c", asked, &rules_), cells_(std::move(cells)) {
    uint64_t line = 0;
    for (const std::string& cell : cells_) column_.Add(cell, {0, ++line});
  }

  // The kind and the values: "int64 1 _ 3", where _ is a missing value and ! one that does not fit.
  std::string Values() const {
    std::string text(ColumnKindName(column_.kind()));
    for (const std::string& cell : cells_) {
      int64_t integer = 0;
      float number = 0;
      CellContent content;
      std::string value = cell;
      switch (column_.kind()) {
        case ColumnKind::kInt64:
          content = column_.ReadInt64(cell, &integer);
          value = std::to_string(integer);
          break;
        case ColumnKind::kFloat: {
          content = column_.ReadFloat(cell, &number);
          std::ostringstream out;
          out << number;
          value = out.str();
          break;
        }
        default:
          content = column_.ReadBytes(cell);
      }
      text += content == CellContent::kValue     ? " " + value
              : content == CellContent::kMissing ? " _"
                                                 : " !";
    }
    return text;
  }
  bool keeps_dates() const { return column_.keeps_dates(); }
  std::string Remedy(std::string_view cell) const {
    const auto remedy = column_.RemedyFor(cell);
    return remedy ? remedy->option + " " + remedy->value : "none";
  }
  std::vector<std::string> Notes() const {
    return column_.Notes([](Place place) { return "t:" + std::to_string(place.line); },
                         [](std::string_view option, std::string_view value) {
                           return std::string(option) + "=" + std::string(value);
                         });
  }

 private:
  CellRules rules_;
  TableColumn column_;
  std::vector<std::string> cells_;
};

TEST(TableColumnTest, TakesTheUsualWordsForMissingNumbers) {
  for (const char* word : {"NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "<NA>", "#N/A",
                           "-", " ", " NA "}) {
    EXPECT_EQ(Table({word, "1", "2"}).Values(), "int64 _ 1 2") << word;
    EXPECT_EQ(Table({"1.5", word == std::string("nan") ? "NA" : word, "2"}).Values(),
              word == std::string("NaN") ? "float 1.5 nan 2" : "float 1.5 _ 2")
        << word;
  }
  EXPECT_THAT(Table({"1", "", "NA", "null", "2"}).Notes(),
              ElementsAre("column \"c\": 2 values are missing, the first is \"NA\" at t:3"));
  EXPECT_THAT(Table({"1", "", "2"}).Notes(), IsEmpty());
}

TEST(TableColumnTest, KeepsSuchWordsInText) {
  const Table table({"NA", "Anna", "None", "nan"});
  EXPECT_EQ(table.Values(), "bytes NA Anna None nan");
  EXPECT_THAT(table.Notes(),
              ElementsAre("column \"c\" is text, so 3 values like \"NA\" at t:1 are kept; na=usual "
                          "makes them missing"));
}

TEST(TableColumnTest, TakesOtherWordsIfToldSo) {
  EXPECT_EQ(Table({"?", "x", "NA"}, {.missing = {{"?", "-1"}}}).Values(), "bytes _ x NA");
  EXPECT_EQ(Table({"-1", "2", "?"}, {.missing = {{"?", "-1"}}}).Values(), "int64 _ 2 _");
  EXPECT_EQ(Table({"nan", "2.5"}, {.missing = {{"nan"}}}).Values(), "float _ 2.5");
  EXPECT_EQ(Table({"nan", "2.5", ""}, {.missing = std::vector<std::string>()}).Values(),
            "float nan 2.5 _");
  EXPECT_THAT(Table({"?", "x", " ?"}, {.missing = {{"?"}}}).Notes(),
              ElementsAre("column \"c\": 2 values are missing, the first is \"?\" at t:1"));
  EXPECT_EQ(Table({"?", "x", " ?"}, {.missing = {{"?"}}}).Values(), "bytes _ x _");
}

TEST(TableColumnTest, BlanksAreMissingExceptInText) {
  for (const CellOptions& options : {CellOptions(), CellOptions{.missing = {{"?"}}},
                                     CellOptions{.missing = std::vector<std::string>()}}) {
    EXPECT_EQ(Table({"x", "  ", ""}, options).Values(), "bytes x    _");
    EXPECT_THAT(Table({"x", "  ", ""}, options).Notes(), IsEmpty());
    EXPECT_EQ(Table({"  ", "x"}, options, ColumnKind::kBytes).Values(), "bytes    x");
    EXPECT_EQ(Table({"1", "  "}, options).Values(), "int64 1 _");
    EXPECT_EQ(Table({"  ", " "}, options).Values(), "bytes _ _");
  }
}

TEST(TableColumnTest, NanIsANumberAmongFractionsOnly) {
  EXPECT_EQ(Table({"nan", "1.5"}).Values(), "float nan 1.5");
  EXPECT_EQ(Table({"1", "-inf", "NaN"}).Values(), "float 1 -inf nan");
  EXPECT_EQ(Table({"nan", "1"}).Values(), "int64 _ 1");
  EXPECT_THAT(Table({"nan", "1", "NA"}).Notes(),
              ElementsAre("column \"c\": 2 values are missing, the first is \"nan\" at t:1"));
}

TEST(TableColumnTest, AColumnWithoutValues) {
  EXPECT_THAT(Table({"", ""}).Notes(),
              ElementsAre("column \"c\" is empty in every row, so no record has this feature"));
  EXPECT_EQ(Table({"", "NA", "nan", " "}).Values(), "bytes _ _ _ _");
  EXPECT_THAT(Table({"", "NA", "nan"}).Notes(),
              ElementsAre("column \"c\" has no value in any row (2 of its cells are not empty, the "
                          "first is \"NA\" at t:2), so no record has this feature"));
}

TEST(TableColumnTest, TrueAndFalseBecomeOneAndZero) {
  const Table table({"True", "false", "NA", "TRUE"});
  EXPECT_EQ(table.Values(), "int64 1 0 _ 1");
  EXPECT_THAT(table.Notes(),
              ElementsAre("column \"c\": 1 value is missing, the first is \"NA\" at t:3",
                          "column \"c\": true and false became 1 and 0 (3 values)"));
  EXPECT_EQ(Table({"yes", "no"}).Values(), "bytes yes no");
  EXPECT_EQ(Table({"true", "x"}).Values(), "bytes true x");
  // Mixed with numbers, they are text.
  EXPECT_EQ(Table({"1", "0", "true"}).Values(), "bytes 1 0 true");
  EXPECT_THAT(Table({"1", "0", "true"}).Notes(),
              ElementsAre("column \"c\" is bytes because of 1 value, \"true\" at t:3; the other 2 "
                          "values are numbers"));
}

TEST(TableColumnTest, LeavesOutBlanksAroundNumbers) {
  const Table table({"39", " 40", "41\t", " -2 "});
  EXPECT_EQ(table.Values(), "int64 39 40 41 -2");
  EXPECT_THAT(table.Notes(),
              ElementsAre("column \"c\": blanks around 3 values were left out, first at t:2"));
  EXPECT_EQ(Table({" 0.5", "1 "}).Values(), "float 0.5 1");
  EXPECT_EQ(Table({" true", "false"}).Values(), "int64 1 0");
  EXPECT_EQ(Table({" a", " 1"}).Values(), "bytes  a  1");
  EXPECT_EQ(Table({" 1", "2"}, {.trim_numbers = false}).Values(), "bytes  1 2");
}

TEST(TableColumnTest, SaysWhichValuesMakeItBytes) {
  EXPECT_THAT(Table({"1", "2", "x", "3", "y", "4"}).Notes(),
              ElementsAre("column \"c\" is bytes because of 2 values, the first, \"x\" at t:3; the "
                          "other 4 values are numbers"));
  EXPECT_THAT(Table({"x", "2", "3"}).Notes(),
              ElementsAre("column \"c\" is bytes because of 1 value, \"x\" at t:1; the other 2 "
                          "values are numbers"));
  // Codes that are numbers now and then are nothing to tell.
  EXPECT_THAT(Table({"1", "x", "y"}).Notes(), IsEmpty());
}

TEST(TableColumnTest, TellsOfMarksInNumbers) {
  const Table table({"1,234", "12,345,678", "999"});
  EXPECT_EQ(table.Values(), "bytes 1,234 12,345,678 999");
  EXPECT_THAT(table.Notes(),
              ElementsAre("column \"c\" is bytes because of 2 values, the first, \"1,234\" at t:1; "
                          "the other 1 value is a number; thousands=, reads them as numbers"));
  EXPECT_THAT(
      Table({"1,5", "2,25"}).Notes(),
      ElementsAre("column \"c\" is bytes because of marks in its numbers, the first \"1,5\" "
                  "at t:1; decimal=, reads them as numbers"));
  EXPECT_THAT(Table({"1.234,5", "2.000,25"}, {.decimal = ','}).Notes(),
              ElementsAre("column \"c\" is bytes because of marks in its numbers, the first "
                          "\"1.234,5\" at t:1; thousands=. reads them as numbers"));
  EXPECT_THAT(Table({"1.234,50", "2,25"}).Notes(),
              ElementsAre("column \"c\" is bytes because of marks in its numbers, the first "
                          "\"1.234,50\" at t:1; decimal=, and thousands=. read them as numbers"));
  EXPECT_THAT(Table({"1,2,3", "4,5"}).Notes(), IsEmpty());
  // Either mark may be meant.
  EXPECT_THAT(Table({"-8,811", "5,406"}).Notes(),
              ElementsAre("column \"c\" is bytes because of marks in its numbers, the first "
                          "\"-8,811\" at t:1; thousands=, reads them as numbers, decimal=, as "
                          "fractions"));
  EXPECT_THAT(Table({"-8,811e-01"}).Notes(),
              ElementsAre("column \"c\" is bytes because of marks in its numbers, the first "
                          "\"-8,811e-01\" at t:1; decimal=, reads them as numbers"));
  // Of Switzerland and France.
  EXPECT_THAT(Table({"1'234", "999", "12'345.5"}).Notes(),
              ElementsAre("column \"c\" is bytes because of 2 values, the first, \"1'234\" at t:1; "
                          "the other 1 value is a number; thousands=' reads them as numbers"));
  EXPECT_THAT(Table({"1 234,5", "999,5", "7"}).Notes(),
              ElementsAre("column \"c\" is bytes because of 2 values, the first, \"1 234,5\" at "
                          "t:1; the other 1 value is a number; thousands=  and decimal=, read them "
                          "as numbers"));
}

TEST(TableColumnTest, TellsOfNumbersThatStayText) {
  EXPECT_THAT(
      Table({"18446744073709551615", "1e39", "3"}).Notes(),
      ElementsAre("column \"c\" is bytes because 2 numbers are beyond int64 and float32, the "
                  "first \"18446744073709551615\" at t:1"));
  EXPECT_THAT(
      Table({"007", "-08"}).Notes(),
      ElementsAre("column \"c\" is bytes because 2 values have zeros in front, which numbers "
                  "would lose, the first \"007\" at t:1; declare the column in schema=FILE to "
                  "have them as numbers"));
  EXPECT_THAT(
      Table({"1,5", "1.5", "3,25"}).Notes(),
      ElementsAre("column \"c\" is bytes because 2 values have marks that the numbers beside do "
                  "not have, the first \"1,5\" at t:1"));
  // No-break spaces, as in French, beside other marks.
  EXPECT_THAT(Table({"1\u00a0234,5", "2'000"}).Notes(),
              ElementsAre(HasSubstr("is bytes because 2 values have marks that do not make it "
                                    "a number, the first")));
  EXPECT_THAT(Table({"1.234.567,8", "1'234.5", "-12 345,6e7", "9"}).Notes(),
              ElementsAre(HasSubstr("is bytes because 3 values have marks that the numbers beside "
                                    "do not have, the first")));
  EXPECT_THAT(Table({"192.168.0.1", "03:15", "1-2", "12 monkeys", "12 34", "1.234.56", "1,2,3",
                     "1e", "12345.678,9", ".", "+", "7"})
                  .Notes(),
              IsEmpty());
}

TEST(TableColumnTest, AChosenColumnWithoutValuesIsTold) {
  EXPECT_THAT(Table({"", ""}, {}, ColumnKind::kFloat).Notes(),
              ElementsAre("column \"c\" is empty in every row, so no record has this feature"));
  EXPECT_THAT(Table({"NA", ""}, {}, ColumnKind::kInt64).Notes(),
              ElementsAre("column \"c\" has no value in any row (1 of its cells are not empty, the "
                          "first is \"NA\" at t:1), so no record has this feature"));
  EXPECT_THAT(Table({"nan", ""}, {}, ColumnKind::kFloat).Notes(), IsEmpty());
  EXPECT_THAT(Table({"1", ""}, {}, ColumnKind::kBytes).Notes(), IsEmpty());
}

TEST(TableColumnTest, PlusSignsAreLeftOut) {
  EXPECT_EQ(Table({"+1", "-2", "3"}).Values(), "int64 1 -2 3");
  EXPECT_EQ(Table({"+1.5", "-2.5", "+.5"}).Values(), "float 1.5 -2.5 0.5");
  EXPECT_EQ(Table({"+1,5", "+1.234,5"}, {.decimal = ',', .thousands = '.'}).Values(),
            "float 1.5 1234.5");
  EXPECT_THAT(
      Table({"+1", "2", "+3"}).Notes(),
      ElementsAre("column \"c\": the plus sign of 2 values was left out, the first is "
                  "\"+1\" at t:1; declare the column as bytes with schema=FILE to keep it"));
  EXPECT_THAT(Table({"+1", "2"}, {}, ColumnKind::kInt64).Notes(), IsEmpty());
  EXPECT_EQ(Table({"+", "+-1", "++1", "1"}).Values(), "bytes + +-1 ++1 1");
  EXPECT_EQ(Table({"+1", "x"}).Values(), "bytes +1 x");
}

TEST(TableColumnTest, TellsWhyTruthIsText) {
  EXPECT_THAT(Table({"true", "false", "maybe"}).Notes(),
              ElementsAre("column \"c\" is bytes because of 1 value, \"maybe\" at t:3; the other 2 "
                          "values are true or false"));
  EXPECT_THAT(Table({"true", "1", "false"}).Notes(),
              ElementsAre("column \"c\" is bytes because 1 value is a number beside 2 values of "
                          "true and false, the first \"true\" at t:1"));
}

TEST(TableColumnTest, ReadsOtherMarks) {
  EXPECT_EQ(Table({"1,234", "-12,345,678", "999"}, {.thousands = ','}).Values(),
            "int64 1234 -12345678 999");
  EXPECT_EQ(Table({"1,234.5", "7", "NA"}, {.thousands = ','}).Values(), "float 1234.5 7 _");
  EXPECT_EQ(Table({"1.234,5", "-,5", "2e3"}, {.decimal = ',', .thousands = '.'}).Values(),
            "float 1234.5 -0.5 2000");
  EXPECT_EQ(Table({"3,5", "4"}, {.decimal = ','}).Values(), "float 3.5 4");
  // Marks where they cannot stand.
  for (const char* text : {"1,23", ",123", "1,2345", "1234,567", "1,,234", "1,234.5,6", "1,234,"}) {
    EXPECT_EQ(Table({text, "1"}, {.thousands = ','}).Values(), "bytes " + std::string(text) + " 1");
  }
  EXPECT_EQ(Table({"1.5", "1"}, {.decimal = ','}).Values(), "bytes 1.5 1");
}

TEST(TableColumnTest, CountsNumbersThatLoseDigits) {
  EXPECT_THAT(
      Table({"0.5", "16777217.0", "1700000001.5", "16777216", "16777217"}).Notes(),
      ElementsAre("column \"c\": 3 values lose digits because floats have 32 bits, the first "
                  "is \"16777217.0\" at t:2; declare the column as bytes with schema=FILE to "
                  "keep them"));
  EXPECT_THAT(
      Table({"1700000001", "0.5"}).Notes(),
      ElementsAre("column \"c\": 1 value loses digits because floats have 32 bits, the first "
                  "is \"1700000001\" at t:1; declare the column as bytes with schema=FILE to "
                  "keep them"));
  EXPECT_THAT(Table({"1.7000000015e9", "0.5"}).Notes(), testing::SizeIs(1));
  // Digits of fractions, and integers in a column of integers.
  EXPECT_THAT(Table({"31.95376472", "1e20", "1.25e-7", "123456.78"}).Notes(), IsEmpty());
  EXPECT_THAT(Table({"1700000001", "9223372036854775807"}).Notes(), IsEmpty());
}

TEST(TableColumnTest, CountsNumbersThatBecomeZero) {
  const std::string long_zero = "0." + std::string(400, '0') + "1";
  EXPECT_THAT(
      Table({"0.0", "1e-400", "1e-50", long_zero, "0e-400", "0.5"}).Notes(),
      ElementsAre("column \"c\": 3 values lose digits because floats have 32 bits, the first is "
                  "\"1e-400\" at t:2; declare the column as bytes with schema=FILE to keep them"));
  EXPECT_THAT(Table({"+1e-400", "+16777217.0", "-1e-400", "+0.5"}, {}, ColumnKind::kFloat).Notes(),
              ElementsAre(testing::StartsWith("column \"c\": 3 values lose digits because floats "
                                              "have 32 bits, the first is \"+1e-400\" at t:1")));
}

TEST(TableColumnTest, ADecimalMarkIsProposedOnlyIfItFitsAllNumbers) {
  EXPECT_THAT(Table({"1", "2", "2,5"}).Notes(),
              ElementsAre("column \"c\" is bytes because of 1 value, \"2,5\" at t:3; the other 2 "
                          "values are numbers; decimal=, reads them as numbers"));
  EXPECT_THAT(Table({"1", "1.5", "2,5"}).Notes(),
              ElementsAre("column \"c\" is bytes because of 1 value, \"2,5\" at t:3; the other 2 "
                          "values are numbers"));
}

TEST(TableColumnTest, DatesAreTextUnlessToldOtherwise) {
  const std::vector<std::string> dates = {"1970-01-02", "", " 1970-01-01T00:00:01Z", "NA"};
  EXPECT_EQ(Table(dates).Values(), "bytes 1970-01-02 _  1970-01-01T00:00:01Z NA");
  EXPECT_TRUE(Table(dates).keeps_dates());
  EXPECT_FALSE(Table({"1970-01-02", "x"}).keeps_dates());
  EXPECT_FALSE(Table({"1970-01-02", "1970"}).keeps_dates());
  const CellOptions seconds = {.dates = DatesAs::kSeconds};
  const Table table(dates, seconds);
  EXPECT_EQ(table.Values(), "int64 86400 _ 1 _");
  EXPECT_THAT(table.Notes(),
              ElementsAre("column \"c\": 1 value is missing, the first is \"NA\" at t:4",
                          "column \"c\": dates became seconds since 1970 in UTC (2 values, 1 of "
                          "them without a time zone)",
                          "column \"c\": blanks around 1 value were left out, first at t:3"));
  EXPECT_THAT(Table({"1970-01-02"}, seconds).Notes(),
              ElementsAre("column \"c\": dates became seconds since 1970 in UTC (1 value, all "
                          "without a time zone)"));
  EXPECT_EQ(Table({"1970-01-01T00:00:00.5Z"}, {.dates = DatesAs::kMicroseconds}).Values(),
            "int64 500000");
}

TEST(TableColumnTest, ColumnsOfOtherThanDatesStayText) {
  const CellOptions seconds = {.dates = DatesAs::kSeconds};
  EXPECT_EQ(Table({"1970-01-02", "soon"}, seconds).Values(), "bytes 1970-01-02 soon");
  EXPECT_THAT(Table({"1970-01-02", "soon", "1970-01-03"}, seconds).Notes(),
              ElementsAre("column \"c\" is bytes because of 1 value, \"soon\" at t:2; the other 2 "
                          "values are dates"));
  EXPECT_THAT(
      Table({"1970", "1970-01-02"}, seconds).Notes(),
      ElementsAre("column \"c\" is bytes because of 1 value, \"1970\" at t:1; the other 1 value is "
                  "a date"));
  // Also if dates are few, and if they are many but nothing else fits.
  EXPECT_THAT(Table({"soon", "late", "1970-01-02"}, seconds).Notes(),
              ElementsAre("column \"c\" is bytes because of 2 values, the first, \"soon\" at t:1; "
                          "the other 1 value is a date"));
  EXPECT_THAT(Table({"1970-01-02", "1970-01-02 00:00:00.5"}, seconds).Notes(),
              ElementsAre("column \"c\" is bytes because 1 of 2 dates have fractions of a second, "
                          "the first is \"1970-01-02 00:00:00.5\" at t:2; dates=epoch-us keeps "
                          "them"));
}

TEST(TableColumnTest, TypographicMarksOfThousands) {
  CellOptions spaces;
  spaces.decimal = ',';
  spaces.thousands = ' ';
  EXPECT_EQ(Table({"1\u00a0234,5", "2\u202f000", "1 000\u00a0000", "7"}, spaces).Values(),
            "float 1234.5 2000 1e+06 7");
  EXPECT_EQ(Table({"1\u00a023", "7"}, spaces).Values(), "bytes 1\u00a023 7");
  CellOptions apostrophes;
  apostrophes.thousands = '\'';
  EXPECT_EQ(Table({"1\u2019234", "2'000", "-7"}, apostrophes).Values(), "int64 1234 2000 -7");
  EXPECT_EQ(Table({"1\u00a0234", "7"}, apostrophes).Values(), "bytes 1\u00a0234 7");
  EXPECT_THAT(Table({"1\u00a0234,5", "2\u202f000"}).Notes(),
              ElementsAre(HasSubstr("thousands=  and decimal=, read them as numbers")));
  EXPECT_THAT(Table({"1\u2009234", "+2 000"}).Notes(),
              ElementsAre(HasSubstr("thousands=  reads them as numbers")));
  spaces.decimal = '.';
  EXPECT_THAT(Table({"1 234,5", "2 000,5"}, spaces).Notes(),
              ElementsAre(HasSubstr("first \"1 234,5\" at t:1; decimal=, reads them as numbers")));
  EXPECT_THAT(Table({"1.234.567", "2.345.678"}).Notes(),
              ElementsAre(HasSubstr("decimal=, and thousands=. read them as numbers")));
}

TEST(TableColumnTest, OptionsThatRemedyACell) {
  const auto remedy = [](std::vector<std::string> cells, ColumnKind kind, std::string_view cell) {
    return Table(std::move(cells), {}, kind).Remedy(cell);
  };
  EXPECT_EQ(remedy({"1", "2"}, ColumnKind::kFloat, "2,5"), "decimal ,");
  EXPECT_EQ(remedy({"1.5"}, ColumnKind::kFloat, "2,5"), "none");
  EXPECT_EQ(remedy({"1"}, ColumnKind::kInt64, "2,5"), "none");
  EXPECT_EQ(remedy({"1"}, ColumnKind::kInt64, "1,234"), "thousands ,");
  EXPECT_EQ(remedy({"1"}, ColumnKind::kInt64, "1\u202f234"), "thousands  ");
  EXPECT_EQ(remedy({"1"}, ColumnKind::kFloat, "1'234.5"), "thousands '");
  for (const char* fraction : {"5.5", "1.0", "5e0"}) {
    EXPECT_EQ(remedy({"1"}, ColumnKind::kInt64, fraction), "none") << fraction;
  }
  EXPECT_EQ(remedy({"1"}, ColumnKind::kInt64, "2024-01-31"), "dates epoch");
  EXPECT_EQ(remedy({"1"}, ColumnKind::kInt64, "2024-01-31 00:00:00.5"), "dates epoch-us");
  EXPECT_EQ(remedy({"1"}, ColumnKind::kFloat, "2024-01-31"), "none");
  EXPECT_EQ(remedy({"1"}, ColumnKind::kInt64, "x"), "none");
}

TEST(TableColumnTest, AChosenKindTakesMoreForms) {
  EXPECT_EQ(Table({"007", "+1", "NA", " 5", "true"}, {}, ColumnKind::kInt64).Values(),
            "int64 7 1 _ 5 1");
  EXPECT_EQ(Table({"007.5", "NA", "nan", "x"}, {}, ColumnKind::kFloat).Values(),
            "float 7.5 _ nan !");
  EXPECT_EQ(Table({"1", "18446744073709551616", "NA", ""}, {}, ColumnKind::kBytes).Values(),
            "bytes 1 18446744073709551616 NA _");
  EXPECT_THAT(Table({"1", "x"}, {}, ColumnKind::kBytes).Notes(), IsEmpty());
}

}  // namespace
}  // namespace shardfeed
