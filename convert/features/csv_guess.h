// Guesses how a CSV file is written from its beginning: what comes before its rows, the delimiter,
// whether blanks follow it, the decimal mark, and whether the first row names the columns.
//
// Guesses are conservative: without evidence against it, a file is separated by commas, has a
// header and a decimal point.

#ifndef SHARDFEED_CONVERT_FEATURES_CSV_GUESS_H_
#define SHARDFEED_CONVERT_FEATURES_CSV_GUESS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "convert/features/table_column.h"
#include "convert/input/csv_row.h"

namespace shardfeed {

// The lines before the rows of a file.
struct CsvStart {
  size_t bytes = 0;
  uint64_t lines = 0;
  uint64_t comments = 0;          // lines that begin with "#"
  std::string_view last_comment;  // without "#" and the blanks around the rest
  // Excel's first line "sep=;" names the delimiter.
  std::optional<char> delimiter;
};

// Finds the lines before the rows at the start of `text`. If `at_end`, no text follows. Without
// `comments`, lines that begin with "#" are rows.
CsvStart FindCsvStart(std::string_view text, bool at_end, bool comments);

// What the user said; the rest is guessed.
struct CsvGiven {
  std::optional<char> delimiter;
  bool quotes = true;
  std::optional<bool> skip_blanks;
  std::optional<char> decimal;
  std::optional<bool> header;
  CellOptions cells;
};

struct CsvGuess {
  CsvDialect dialect;
  char decimal = '.';
  bool header = true;
};

// Guesses from `text`, which starts with the first row. If `at_end`, no text follows.
CsvGuess GuessCsv(std::string_view text, bool at_end, const CsvGiven& given);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_CSV_GUESS_H_
