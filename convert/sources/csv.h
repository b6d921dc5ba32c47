// CSV files: one record per row, one feature per column.
//
// RFC 4180, with these choices. The first row is the header; its cells name the features, unless
// names are given. Lines end in LF or CRLF, and blank lines outside quotes are skipped. A quoted
// cell may contain delimiters, line breaks and doubled quotes; a quote inside a cell that does not
// start with one is an ordinary character. Spaces belong to the cell. The text is UTF-8; a byte
// order mark is skipped.
//
// An empty cell, quoted or not, is a missing value: the record lacks the feature. All cells of a
// column decide whether it is int64, float (float32) or bytes, see column.h.

#ifndef SHARDFEED_CONVERT_SOURCES_CSV_H_
#define SHARDFEED_CONVERT_SOURCES_CSV_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/feature_choice.h"
#include "convert/input/csv_row.h"
#include "convert/input/text_reader.h"
#include "convert/items/source.h"

namespace shardfeed {

struct CsvOptions {
  CsvDialect dialect;
  // Names of the columns, for files without a header row.
  std::vector<std::string> names;
  FeatureChoice choice;
  // The column that holds an item's key; empty: the whole row is the key.
  std::string key_column;
  // The column that names each row's split; empty: there is none.
  std::string split_column;
  uint64_t max_row_bytes = kDefaultMaxLineBytes;
};

// Delivers the rows of the files in order; all files have the same header, or none has one. An
// item's bytes are the text of a row. Each pass reads the files sequentially with a buffer of 1 MiB
// that grows for longer rows.
//
// With SkipDefects, rows are left out that have too many or too few cells, or text that is not
// UTF-8 or does not fit the chosen kind. Where quotes are wrong, the first line of the row is left
// out.
//
// InvalidArgument: no files, an invalid delimiter, or a column that does not exist.
// ResourceExhausted: a row above the limit. Scan and ForEach report other errors as "FILE:LINE:
// ...". FailedPrecondition: a file has changed since Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeCsvSource(std::vector<std::string> paths,
                                                      CsvOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_CSV_H_
