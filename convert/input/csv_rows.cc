#include "convert/input/csv_rows.h"

#include <algorithm>
#include <cstring>

#include "base/excerpt.h"
#include "fmt/format.h"
#include "io/remedy.h"

namespace shardfeed {
namespace {

Remedy NoQuotes() { return {"no_quotes", "", "treat quotes as ordinary characters"}; }

}  // namespace

absl::Status CsvRows::SplitError(CsvSplit split) const {
  const std::string_view before = reader_.unread().substr(0, split.bytes);
  const uint64_t line = reader_.line() + std::count(before.begin(), before.end(), '\n');
  if (split.result == CsvSplit::kOpenQuote) {
    return WithRemedy(files_.ErrorAt(file_, line, "the quote that opens here is never closed"),
                      NoQuotes());
  }
  if (split.result == CsvSplit::kLoneCr) {
    return files_.ErrorAt(file_, line,
                          "a carriage return without a line feed, outside quotes; lines end in LF "
                          "or CRLF");
  }
  return WithRemedy(
      files_.ErrorAt(
          file_, line,
          fmt::format("expected a delimiter ({}) or the end of the row after a closing quote, got "
                      "{}; a quote inside quotes must be doubled",
                      Excerpt({&dialect_.delimiter, 1}),
                      Excerpt(reader_.unread().substr(split.bytes, 10)))),
      NoQuotes());
}

void CsvRows::TakeRow(size_t bytes, CsvRow* row) {
  row->text = reader_.unread().substr(0, bytes);
  row->line = reader_.line();
  // Only rows with quotes can contain line breaks other than the last one.
  uint64_t line_breaks = row->text.ends_with('\n') ? 1 : 0;
  if (std::memchr(row->text.data(), '\n', row->text.size() - line_breaks) != nullptr) {
    line_breaks = std::count(row->text.begin(), row->text.end(), '\n');
  }
  reader_.Consume(bytes, line_breaks);
}

bool CsvRows::Next(CsvRow* row, std::vector<CsvCell>* cells) {
  row->defect = absl::OkStatus();
  while (true) {
    const std::string_view unread = reader_.unread();
    if (unread.empty()) {
      if (!reader_.Extend()) return false;
      continue;
    }
    const CsvSplit split = SplitCsvRow(unread, reader_.at_end(), dialect_, cells);
    if (split.result == CsvSplit::kRow) {
      TakeRow(split.bytes, row);
      if (!WithoutLineBreak(row->text).empty()) return true;
      continue;
    }
    if (split.result == CsvSplit::kIncomplete) {
      const size_t quote = dialect_.quotes ? unread.find('"') : unread.npos;
      if (unread.size() <= files_.max_line_bytes() || quote == unread.npos) {
        if (!reader_.Extend() && !reader_.status().ok()) return false;
        continue;
      }
      const absl::Status too_long = TextReader::TooLong(
          fmt::format("{}:{}", files_.path(file_), reader_.line()), files_.max_line_bytes());
      row->defect = WithMessage(too_long, fmt::format("{}; perhaps a quote in it is never closed",
                                                      std::string(too_long.message())));
    } else {
      row->defect = SplitError(split);
    }
    const size_t line_break = unread.find('\n');
    TakeRow(line_break == unread.npos ? unread.size() : line_break + 1, row);
    return true;
  }
}

bool CsvRows::NextSound(CsvRow* row) {
  while (true) {
    const std::string_view unread = reader_.unread();
    row->line = reader_.line();
    const size_t line_break = unread.find('\n');
    if (line_break != std::string_view::npos &&
        (!dialect_.quotes || std::memchr(unread.data(), '"', line_break) == nullptr)) {
      row->text = unread.substr(0, line_break + 1);
      reader_.Consume(line_break + 1, 1);
      if (!WithoutLineBreak(row->text).empty()) return true;
      continue;
    }
    // A row with quotes or the last line is rarer, so leave it to the splitter.
    return Next(row, &scratch_);
  }
}

}  // namespace shardfeed
