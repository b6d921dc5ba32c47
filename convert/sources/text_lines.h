// Text files: one record per line.
//
// Each record has one feature, "text": the line without its line break (LF or CRLF). Blank lines
// are records too, so that record n is line n of the file; the last line need not end with a line
// break. The text is UTF-8 without NUL; a byte order mark is skipped.

#ifndef SHARDFEED_CONVERT_SOURCES_TEXT_LINES_H_
#define SHARDFEED_CONVERT_SOURCES_TEXT_LINES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/input/text_reader.h"
#include "convert/items/source.h"

namespace shardfeed {

// Delivers the lines of the files in order. An item's bytes are a line. Each pass reads the files
// sequentially with a buffer of 1 MiB that grows for longer lines.
//
// InvalidArgument: no files. DataLoss: a line above `max_line_bytes`. Scan and ForEach report
// errors as "FILE:LINE: ...". FailedPrecondition: a file has changed since Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeTextLinesSource(
    std::vector<std::string> paths, uint64_t max_line_bytes = kDefaultMaxLineBytes);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_TEXT_LINES_H_
