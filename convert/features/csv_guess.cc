#include "convert/features/csv_guess.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "convert/features/column.h"
#include "convert/features/dates.h"

namespace shardfeed {
namespace {

// How much of the beginning of a file is examined.
constexpr size_t kMaxRows = 100;
constexpr size_t kMaxBytes = 256 << 10;
// A delimiter fits if this share of the rows has the same number of cells.
constexpr double kFits = 0.9;

using Rows = std::vector<std::vector<CsvCell>>;

// The first rows as a dialect splits them.
struct Sample {
  Rows rows;
  size_t unsound = 0;  // rows that cannot be split
};

Sample Split(std::string_view text, bool at_end, CsvDialect dialect) {
  Sample sample;
  std::vector<CsvCell> cells;
  while (!text.empty() && sample.rows.size() + sample.unsound < kMaxRows) {
    const CsvSplit split = SplitCsvRow(text, at_end, dialect, &cells);
    if (split.result == CsvSplit::kIncomplete) break;
    size_t bytes = split.bytes;
    if (split.result == CsvSplit::kRow) {
      if (!WithoutLineBreak(text.substr(0, bytes)).empty()) sample.rows.push_back(cells);
    } else {
      ++sample.unsound;
      const size_t line_break = text.find('\n');
      bytes = line_break == text.npos ? text.size() : line_break + 1;
    }
    text.remove_prefix(bytes);
  }
  return sample;
}

// Whether the second row has a blank after its first delimiter.
bool MayHaveBlanks(std::string_view text, char delimiter) {
  // Skip the header, which often has no blanks.
  const size_t second = text.find('\n');
  if (second != text.npos && second + 1 < text.size()) text.remove_prefix(second + 1);
  const size_t at = text.substr(0, text.find('\n')).find(delimiter);
  return at != text.npos && at + 1 < text.size() && text[at + 1] == ' ';
}

// Whether each cell after a delimiter starts with a blank, in all rows but perhaps the first one.
// The dialect that split them skips blanks.
bool HasBlanks(const Rows& rows, bool quotes) {
  bool found = false;
  for (size_t r = rows.size() > 1 ? 1 : 0; r < rows.size(); ++r) {
    for (size_t c = 1; c < rows[r].size(); ++c) {
      if (rows[r][c].text.empty()) continue;
      const char* before = rows[r][c].text.data() - 1;
      if (quotes && *before == '"') --before;
      if (*before != ' ') return false;
      found = true;
    }
  }
  return found;
}

// kNumber includes true and false, which are values as unlikely to be names as numbers are.
enum class CellSort { kMissing, kNumber, kDate, kText };

CellSort SortOf(std::string_view cell, const CellRules& rules) {
  const std::string_view text = Trimmed(cell);
  if (rules.IsMissing(text)) return CellSort::kMissing;
  std::string scratch;
  const std::optional<std::string_view> plain = rules.Plain(cell, &scratch);
  // Codes such as 01234 are no numbers, but as unlikely to be names.
  const bool number =
      (plain && KindOfText(*plain) != ColumnKind::kBytes) || ParseBool(text) || ParseAnyInt64(text);
  if (number) return CellSort::kNumber;
  return ParseDate(text) ? CellSort::kDate : CellSort::kText;
}

// The first rows as one delimiter splits them.
struct Candidate {
  CsvDialect dialect;
  Sample sample;
  double agreeing = 0;  // share of rows with the most frequent number of cells
  bool fits = false;    // there are several columns, and almost all rows have all of them

  Candidate(CsvDialect dialect, Sample rows) : dialect(dialect), sample(std::move(rows)) {
    if (sample.rows.empty()) return;
    std::map<size_t, size_t> rows_by_size;
    for (const auto& row : sample.rows) ++rows_by_size[row.size()];
    const auto most =
        *std::ranges::max_element(rows_by_size, {}, [](const auto& entry) { return entry.second; });
    agreeing =
        static_cast<double>(most.second) / static_cast<double>(sample.rows.size() + sample.unsound);
    fits = most.first >= 2 && sample.rows[0].size() == most.first && agreeing >= kFits;
  }

  // Shares of cells: numbers, and those that start with a blank.
  double Numbers(CellOptions cells) const {
    const CellRules rules(cells);
    // Where commas do not separate cells, they may be decimal marks.
    cells.decimal = ',';
    const CellRules with_comma(cells);
    return Share([&](std::string_view cell) {
      return SortOf(cell, rules) == CellSort::kNumber ||
             (dialect.delimiter != ',' && SortOf(cell, with_comma) == CellSort::kNumber);
    });
  }
  double Blanks() const {
    return Share([](std::string_view cell) { return cell.starts_with(' '); });
  }

 private:
  template <typename Predicate>
  double Share(Predicate predicate) const {
    size_t num_cells = 0;
    size_t found = 0;
    for (const auto& row : sample.rows) {
      num_cells += row.size();
      for (const CsvCell& cell : row) found += predicate(cell.text);
    }
    return static_cast<double>(found) / static_cast<double>(num_cells);
  }
};

// Whether `a` is the more likely one; if there is nothing to choose between them, `b` is.
bool IsBetter(const Candidate& a, const Candidate& b, const CellOptions& cells) {
  if (!a.fits || !b.fits) return a.fits && !b.fits;
  const double numbers_a = a.Numbers(cells);
  const double numbers_b = b.Numbers(cells);
  if (numbers_a != numbers_b) return numbers_a > numbers_b;
  if (a.agreeing != b.agreeing) return a.agreeing > b.agreeing;
  return a.Blanks() < b.Blanks();
}

// A comma is the decimal mark if some cells are numbers with it that could not have a mark of
// thousands there, and no cell is a number with a point that could not be such a mark. `thousands`
// is the mark that was given.
char GuessDecimal(const Rows& rows, char thousands) {
  bool comma = false;
  for (const auto& row : rows) {
    for (const CsvCell& cell : row) {
      const std::string_view text = Trimmed(cell.text);
      if (text.find(',') != text.npos) {
        comma |= (IsNumberWith(text, ',', '.') || IsNumberWith(text, ',', thousands)) &&
                 !IsNumberWith(text, '.', ',');
      } else if (text.find('.') != text.npos && IsNumberWith(text, '.', '\0') &&
                 !IsNumberWith(text, ',', '.')) {
        return '.';
      }
    }
  }
  return comma ? ',' : '.';
}

// The first row is data if it has numbers, or words for missing values, in columns of numbers, or
// dates in columns of dates, and no name above any of them.
bool GuessHeader(const Rows& rows, const CellRules& rules) {
  if (rows.size() < 2) return true;
  bool data = false;
  bool number = false;
  bool date = false;
  for (size_t c = 0; c < rows[0].size(); ++c) {
    bool numbers = false;
    bool dates = false;
    bool texts = false;
    for (size_t r = 1; r < rows.size() && !texts; ++r) {
      if (c >= rows[r].size()) continue;
      const CellSort sort = SortOf(rows[r][c].text, rules);
      numbers |= sort == CellSort::kNumber;
      dates |= sort == CellSort::kDate;
      texts = sort == CellSort::kText || (numbers && dates);
    }
    if (texts || (!numbers && !dates)) continue;
    const CellSort first = SortOf(rows[0][c].text, rules);
    if (first == CellSort::kText) return true;
    if (dates) {
      date |= first == CellSort::kDate;
      continue;
    }
    if (first == CellSort::kDate) return true;  // as pivot tables have it
    number |= first == CellSort::kNumber;
    // A column may have no name, and one of row numbers has none.
    data |= first == CellSort::kNumber || (c > 0 && !Trimmed(rows[0][c].text).empty());
  }
  if (date) return false;
  if (!data) return true;
  if (!number) return false;
  // Names of columns may be numbers that count: years, or 0, 1, 2.
  std::vector<int64_t> names;
  for (const CsvCell& cell : rows[0]) {
    if (SortOf(cell.text, rules) != CellSort::kNumber) continue;
    const std::optional<int64_t> name = ParseInt64(Trimmed(cell.text));
    if (!name || (!names.empty() && *name != names.back() + 1)) return false;
    names.push_back(*name);
  }
  const bool years = names.front() >= 1800 && names.back() <= 2200;
  return years ? names.size() >= 2 : names.front() == 0 && names.size() >= 3;
}

}  // namespace

CsvStart FindCsvStart(std::string_view text, bool at_end, bool comments) {
  CsvStart start;
  size_t at = 0;
  uint64_t lines = 0;
  while (at < text.size()) {
    size_t end = text.find('\n', at);
    if (end == text.npos && !at_end) break;
    end = end == text.npos ? text.size() : end + 1;
    const std::string_view line = WithoutLineBreak(text.substr(at, end - at));
    const bool comment = comments && line.starts_with('#');
    const bool separator = lines == 0 && line.size() == 5 && line.starts_with("sep=");
    if (!line.empty() && !comment && !separator) break;
    at = end;
    ++lines;
    if (comment) {
      ++start.comments;
      start.last_comment = Trimmed(line.substr(1));
    }
    if (separator) start.delimiter = line.back();
    if (!line.empty()) {
      start.bytes = at;
      start.lines = lines;
    }
  }
  return start;
}

CsvGuess GuessCsv(std::string_view text, bool at_end, const CsvGiven& given) {
  if (text.size() > kMaxBytes) {
    text = text.substr(0, kMaxBytes);
    at_end = false;
  }
  const auto split = [&](char delimiter) {
    CsvDialect dialect{.delimiter = delimiter, .quotes = given.quotes};
    dialect.skip_blanks = given.skip_blanks.value_or(MayHaveBlanks(text, delimiter));
    Sample sample = Split(text, at_end, dialect);
    if (dialect.skip_blanks && !given.skip_blanks && !HasBlanks(sample.rows, given.quotes)) {
      dialect.skip_blanks = false;
      sample = Split(text, at_end, dialect);
    }
    return Candidate(dialect, std::move(sample));
  };
  Candidate best = split(given.delimiter.value_or(','));
  if (!given.delimiter) {
    for (char delimiter : {';', '\t', '|'}) {
      Candidate other = split(delimiter);
      if (IsBetter(other, best, given.cells)) best = std::move(other);
    }
  }

  CsvGuess guess;
  guess.dialect = best.dialect;
  CellOptions cells = given.cells;
  guess.decimal = given.decimal.value_or('.');
  if (!given.decimal && guess.dialect.delimiter != ',' && cells.thousands != ',') {
    guess.decimal = GuessDecimal(best.sample.rows, cells.thousands);
  }
  cells.decimal = guess.decimal;
  guess.header = given.header ? *given.header : GuessHeader(best.sample.rows, CellRules(cells));
  return guess;
}

}  // namespace shardfeed
