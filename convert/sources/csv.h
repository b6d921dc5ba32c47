// CSV files: one record per row, one feature per column.
//
// RFC 4180, with these choices. The first row is the header; its cells name the features, unless
// names are given. Lines end
// in LF or CRLF, and blank ones outside quotes are skipped. A quoted cell may hold delimiters, line
// breaks and doubled quotes; a quote inside a cell that does not start with one is an ordinary
// character. Spaces belong to the cell. UTF-8; a byte order mark is skipped.
//
// An empty cell, quoted or not, is a missing value: the record lacks the feature. A column is
// int64, float (float32) or bytes by all of its cells, see column.h.

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
  // The column that an item's key is; empty: the whole row.
  std::string key_column;
  uint64_t max_row_bytes = kDefaultMaxLineBytes;
};

// The rows of the files one after another; each file has the same header, or none has. An item's
// bytes are the text of a row. Each pass reads the files front to back with a buffer of 1 MiB that
// grows for longer rows.
//
// With SkipDefects, rows with too many or too few cells, with text that is not UTF-8 or does not
// fit the kind asked for are left out; where quotes are wrong, the line that the row starts with.
//
// InvalidArgument: no files, a delimiter that cannot be one, or a column that is not there.
// ResourceExhausted: a row above the limit. Scan and ForEach tell the rest with "FILE:LINE: ...".
// FailedPrecondition: a file has changed since Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeCsvSource(std::vector<std::string> paths,
                                                      CsvOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_CSV_H_
