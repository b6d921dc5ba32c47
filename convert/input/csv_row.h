// Splits CSV text into rows and cells, as csv.h describes it.

#ifndef SHARDFEED_CONVERT_INPUT_CSV_ROW_H_
#define SHARDFEED_CONVERT_INPUT_CSV_ROW_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardfeed {

struct CsvDialect {
  // One ASCII character other than a quote or a line break: '\t' for TSV.
  char delimiter = ',';
  // Whether a cell that starts with a quote must end with one. If not, quotes are ordinary
  // characters, and a cell cannot contain delimiters or line breaks.
  bool quotes = true;
  // Whether blanks (spaces, tabs) at the beginning of a cell do not belong to it. It may then start
  // with a quote after them.
  bool skip_blanks = false;
};

struct CsvCell {
  // The text without the quotes around it; a view of the text that was split.
  std::string_view text;
  // Whether `text` contains doubled quotes, see UndoubleQuotes.
  bool doubled_quotes = false;
};

// Result of splitting one row.
struct CsvSplit {
  enum Result {
    kRow,         // a row of `bytes`, including its line break
    kIncomplete,  // the text ends inside the row
    kOpenQuote,   // the text ends inside the quotes that open at `bytes`
    kAfterQuote,  // something other than a delimiter or the row's end at `bytes`, after a quote
    kLoneCr,      // a carriage return without a line feed at `bytes`, outside quotes
  };
  Result result;
  size_t bytes;
};

// Splits the first row of `text` into `cells`. If `at_end`, no text follows: the row then ends with
// the text, and kIncomplete does not occur; otherwise kOpenQuote does not. A blank line is a row
// with one empty cell.
CsvSplit SplitCsvRow(std::string_view text, bool at_end, CsvDialect dialect,
                     std::vector<CsvCell>* cells);

// Appends `text` to `out` with each doubled quote replaced by a single one.
void UndoubleQuotes(std::string_view text, std::string* out);

// Returns the value of the cell as a view of the cell or, if it has doubled quotes, of `scratch`.
inline std::string_view ValueOf(const CsvCell& cell, std::string* scratch) {
  if (!cell.doubled_quotes) return cell.text;
  scratch->clear();
  UndoubleQuotes(cell.text, scratch);
  return *scratch;
}

std::string_view WithoutLineBreak(std::string_view row);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_CSV_ROW_H_
