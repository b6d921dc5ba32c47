// CSV files: one record per row, one feature per column.
//
// RFC 4180, with these choices. Lines end in LF or CRLF, and blank lines outside quotes are
// skipped. A quoted cell may contain delimiters, line breaks and doubled quotes; a quote inside a
// cell that does not start with one is an ordinary character. How the files are written is guessed
// from the beginning of the first one, see csv_guess.h; the options override each guess, and the
// first note tells all. The encoding is UTF-8, UTF-16 with a byte order mark, or Windows-1252 if
// the first MiB looks like it and is not UTF-8.
//
// The cells of the header name the features. A first column without a name is "index", another one
// "column3", and of equal names the second becomes "a.1", as in pandas. What cells mean is in
// table_column.h.

#ifndef SHARDFEED_CONVERT_SOURCES_CSV_H_
#define SHARDFEED_CONVERT_SOURCES_CSV_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/dates.h"
#include "convert/features/feature_choice.h"
#include "convert/features/table_column.h"
#include "convert/input/text_encoding.h"
#include "convert/input/text_reader.h"
#include "convert/items/source.h"

namespace shardfeed {

struct CsvOptions {
  // How the files are written; what is nullopt is guessed.
  std::optional<char> delimiter;
  bool quotes = true;  // otherwise, they are ordinary characters
  std::optional<bool> header;
  std::optional<TextEncoding> encoding;
  // Whether notes name options that remedy what they tell.
  bool names_options = true;
  std::optional<char> decimal;
  char thousands = '\0';  // the mark between groups of digits; 0: none
  bool comments = true;   // whether lines at the beginning that start with "#" are skipped
  // Blanks that do not belong to a cell: around numbers, and after delimiters if all rows have them
  // there; around all cells; or none.
  enum class Trim { kGuessed, kAll, kNone } trim = Trim::kGuessed;
  // See CellOptions.
  std::optional<std::vector<std::string>> missing;
  DatesAs dates = DatesAs::kText;

  // Names of the columns, instead of those in the header. Without `header`, there is none.
  std::vector<std::string> names;
  FeatureChoice choice;
  // The column that holds an item's key; empty: the whole row is the key.
  std::string key_column;
  // The column that names each row's split; empty: there is none.
  std::string split_column;
  uint64_t max_row_bytes = kDefaultMaxLineBytes;
  // How notes spell the options that remedy something.
  SpellOption spell;
};

// Delivers the rows of the files in order; all files have the same header, or none has one. An
// item's bytes are the text of a row. Each pass reads the files sequentially with a buffer of 1 MiB
// that grows for longer rows.
//
// With SkipDefects, rows are left out that have too many or too few cells, or text that is not
// UTF-8 or does not fit the chosen kind. Where quotes are wrong, the first line of the row is left
// out.
//
// InvalidArgument: no files, an invalid delimiter or mark, or a column that does not exist.
// DataLoss: a row above the limit. Scan and ForEach report errors as "FILE:LINE: ...".
// FailedPrecondition: a file has changed since Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeCsvSource(std::vector<std::string> paths,
                                                      CsvOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_CSV_H_
