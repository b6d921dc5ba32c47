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

#ifndef SHARDFEED_CONVERT_CSV_H_
#define SHARDFEED_CONVERT_CSV_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/csv_row.h"
#include "convert/source.h"

namespace shardfeed {

struct CsvOptions {
  CsvDialect dialect;
  // Names of the columns, for files without a header row.
  std::vector<std::string> names;
};

// The rows of the files one after another; each file has the same header, or none has. An item's
// bytes are the text of a row. Each pass reads the files front to back with a buffer of 1 MiB that
// grows for longer rows, up to 1 GiB.
//
// InvalidArgument: no files, or a delimiter that cannot be one. Scan and ForEach tell the rest with
// "FILE:LINE: ...". FailedPrecondition: a file has changed since Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeCsvSource(std::vector<std::string> paths,
                                                      CsvOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_CSV_H_
