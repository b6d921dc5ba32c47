// CSV: rows equal those of a simple reader, whether their text comes whole or in two parts, and
// whole files are converted or refused. The first two bytes choose the options.

#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/input/csv_row.h"
#include "convert/sources/csv.h"
#include "tests/fuzz/source_fuzz.h"

namespace shardfeed {
namespace {

// The first row of `text`, with quotes undoubled, and its size in bytes; nullopt if there is no
// valid row.
std::optional<std::pair<std::vector<std::string>, size_t>> PlainRow(std::string_view text,
                                                                    CsvDialect dialect) {
  std::vector<std::string> cells;
  size_t at = 0;
  const auto is = [&](char c) { return at < text.size() && text[at] == c; };
  const auto skip_blanks = [&] {
    while (dialect.skip_blanks && (is(' ') || is('\t')) && !is(dialect.delimiter)) ++at;
  };
  while (true) {
    std::string cell;
    skip_blanks();
    if (dialect.quotes && is('"')) {
      while (true) {
        if (++at >= text.size()) return std::nullopt;
        if (is('"')) {
          ++at;
          if (!is('"')) break;
        }
        cell += text[at];
      }
      skip_blanks();
    } else {
      while (at < text.size() && !is(dialect.delimiter) && !is('\n') && !is('\r')) {
        cell += text[at++];
      }
    }
    cells.push_back(cell);
    if (is('\r')) ++at;
    const bool after_cr = at > 0 && at <= text.size() && text[at - 1] == '\r';
    if (at == text.size()) return std::pair{cells, at};
    if (is('\n')) return std::pair{cells, at + 1};
    if (after_cr || !is(dialect.delimiter)) return std::nullopt;
    ++at;
  }
}

CsvOptions OptionsOf(uint8_t first, uint8_t second) {
  CsvOptions options;
  options.quotes = (first & 1) == 0;
  if (first & 2) options.delimiter = '\t';
  if (first & 4) options.delimiter = ',';
  if (first & 8) options.header = (first & 16) != 0;
  if (first & 32) options.trim = CsvOptions::Trim::kAll;
  if (first & 64) options.trim = CsvOptions::Trim::kNone;
  if (first & 128) options.missing = {"?", "-1"};
  constexpr TextEncoding kEncodings[] = {TextEncoding::kUtf8, TextEncoding::kUtf16Le,
                                         TextEncoding::kUtf16Be, TextEncoding::kLatin1,
                                         TextEncoding::kWindows1252};
  if (const size_t encoding = second & 7; encoding < std::size(kEncodings)) {
    options.encoding = kEncodings[encoding];
  }
  if (second & 8) options.decimal = ',';
  if (second & 16) options.thousands = (second & 8) ? '.' : ',';
  options.comments = (second & 32) == 0;
  if (second & 64) options.names = {"x", "y"};
  if (second & 128) {
    options.choice.kinds = {{"a", ColumnKind::kInt64}, {"x", ColumnKind::kFloat}};
  }
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const CsvOptions options = OptionsOf(data[0], data[1]);
  const std::string_view text = testing::View(data + 2, size - 2);
  const CsvDialect dialect = {.delimiter = options.delimiter.value_or(','),
                              .quotes = options.quotes,
                              .skip_blanks = options.trim == CsvOptions::Trim::kAll};

  std::vector<CsvCell> cells;
  std::string_view rest = text;
  while (!rest.empty()) {
    const CsvSplit whole = SplitCsvRow(rest, /*at_end=*/true, dialect, &cells);
    FUZZ_EXPECT(whole.bytes <= rest.size());
    const auto plain = PlainRow(rest, dialect);
    FUZZ_EXPECT(plain.has_value() == (whole.result == CsvSplit::kRow));
    if (plain) {
      FUZZ_EXPECT(plain->second == whole.bytes && plain->first.size() == cells.size());
      for (size_t i = 0; i < cells.size(); ++i) {
        std::string cell(cells[i].doubled_quotes ? "" : cells[i].text);
        if (cells[i].doubled_quotes) UndoubleQuotes(cells[i].text, &cell);
        FUZZ_EXPECT(cell == plain->first[i]);
      }
    }
    if (whole.result != CsvSplit::kRow) break;
    FUZZ_EXPECT(whole.bytes > 0 && !cells.empty());
    const size_t num_cells = cells.size();
    const CsvSplit part = SplitCsvRow(rest, /*at_end=*/false, dialect, &cells);
    FUZZ_EXPECT(
        part.result == CsvSplit::kIncomplete ||
        (part.result == CsvSplit::kRow && part.bytes == whole.bytes && cells.size() == num_cells));
    rest.remove_prefix(whole.bytes);
  }

  const testing::FuzzFile file("a.csv", text);
  for (const bool skip : {false, true}) {
    const auto source = MakeCsvSource({file.path()}, options);
    if (source.ok()) testing::RunSource(**source, skip);
  }
  return 0;
}

}  // namespace shardfeed
