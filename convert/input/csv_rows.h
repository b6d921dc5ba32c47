// Reads the rows of a CSV file.

#ifndef SHARDFEED_CONVERT_INPUT_CSV_ROWS_H_
#define SHARDFEED_CONVERT_INPUT_CSV_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "convert/input/csv_row.h"
#include "convert/input/text_inputs.h"
#include "convert/input/text_reader.h"

namespace shardfeed {

// A row that is not blank.
struct CsvRow {
  std::string_view text;  // row including its line break
  uint64_t line = 0;      // line at which the row starts
  // Not OK if the row cannot be split.
  absl::Status defect;
};

// Reads file `file` of `files` from where `reader` is. All of them must outlive this object.
class CsvRows {
 public:
  CsvRows(const TextFiles& files, uint32_t file, TextReader& reader, CsvDialect dialect)
      : files_(files), file_(file), reader_(reader), dialect_(dialect) {}

  // Reads the next row and splits it; `cells` are views of the reader's text. Returns false at the
  // end and after an error of the reader. After a row that cannot be split, reading goes on at the
  // next line, since that may begin a valid row.
  bool Next(CsvRow* row, std::vector<CsvCell>* cells);
  // The same without splitting the row, for text whose rows are known to be sound.
  bool NextSound(CsvRow* row);

 private:
  // Returns what is wrong with the row at the start of the unread text.
  absl::Status SplitError(CsvSplit split) const;
  void TakeRow(size_t bytes, CsvRow* row);

  const TextFiles& files_;
  const uint32_t file_;
  TextReader& reader_;
  const CsvDialect dialect_;
  std::vector<CsvCell> scratch_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_CSV_ROWS_H_
