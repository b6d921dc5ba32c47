#include "convert/csv.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "convert/column.h"
#include "convert/csv_row.h"
#include "convert/excerpt.h"
#include "convert/text_files.h"
#include "convert/text_reader.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// The cell's value: a view of it, or of `scratch` where quotes had to be made single.
std::string_view ValueOf(const CsvCell& cell, std::string* scratch) {
  if (!cell.doubled_quotes) return cell.text;
  scratch->clear();
  UndoubleQuotes(cell.text, scratch);
  return *scratch;
}

bool IsBlank(const std::vector<CsvCell>& cells, std::string_view row) {
  return cells.size() == 1 && cells[0].text.empty() && !row.starts_with('"');
}

std::string_view WithoutLineBreak(std::string_view row) {
  if (row.ends_with('\n')) row.remove_suffix(1);
  if (row.ends_with('\r')) row.remove_suffix(1);
  return row;
}

class CsvSource : public Source {
 public:
  CsvSource(std::vector<std::string> paths, CsvOptions options)
      : files_(std::move(paths)), options_(std::move(options)) {}

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return files_.num_bytes(); }
  std::vector<std::string> notes() const override;
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override;

 private:
  // A row that is not blank: its text with the line break, and the line where it starts.
  struct Row {
    std::string_view text;
    uint64_t line = 0;
  };
  // Reads the next row of file `file` and splits it; `cells` are views of the reader's window.
  // False at the end and after a failure: then `error`, or else the reader's status, is not OK.
  bool NextRow(uint32_t file, TextReader& reader, Row* row, std::vector<CsvCell>* cells,
               absl::Status* error) const;
  // The same without splitting, where the text is known to be sound.
  bool NextSoundRow(TextReader& reader, Row* row, std::vector<CsvCell>* scratch) const;
  absl::Status SplitError(uint32_t file, const TextReader& reader, CsvSplit split) const;

  absl::Status ScanFile(uint32_t file, TextReader& reader);
  absl::Status ReadHeader(uint32_t file, uint64_t line, const std::vector<std::string>& names);
  bool has_header() const { return options_.names.empty(); }

  TextFiles files_;
  CsvOptions options_;
  std::vector<TextColumn> columns_;
  // Indices of columns_ by name: records have their features in this order.
  std::vector<size_t> by_name_;
  std::vector<uint64_t> records_of_file_;
  uint64_t num_records_ = 0;
};

absl::Status CsvSource::SplitError(uint32_t file, const TextReader& reader, CsvSplit split) const {
  const std::string_view before = reader.window().substr(0, split.bytes);
  const uint64_t line = reader.line() + std::count(before.begin(), before.end(), '\n');
  if (split.result == CsvSplit::kOpenQuote) {
    return files_.ErrorAt(file, line,
                          "a quote opens here and is never closed; where quotes have no meaning, "
                          "--no-quotes takes them as they are");
  }
  if (split.result == CsvSplit::kLoneCr) {
    return files_.ErrorAt(file, line,
                          "a carriage return without a line feed, outside quotes; lines end in LF "
                          "or CRLF");
  }
  return files_.ErrorAt(
      file, line,
      fmt::format(
          "{} after a closing quote, where a delimiter ({}) or the end of the row is "
          "expected; a quote inside quotes is written twice, and --no-quotes takes quotes as "
          "they are",
          Excerpt(reader.window().substr(split.bytes, 10)),
          Excerpt({&options_.dialect.delimiter, 1})));
}

bool CsvSource::NextRow(uint32_t file, TextReader& reader, Row* row, std::vector<CsvCell>* cells,
                        absl::Status* error) const {
  while (true) {
    const std::string_view window = reader.window();
    if (window.empty()) {
      if (!reader.Extend()) return false;
      continue;
    }
    const CsvSplit split = SplitCsvRow(window, reader.at_end(), options_.dialect, cells);
    if (split.result == CsvSplit::kIncomplete) {
      if (!reader.Extend() && !reader.status().ok()) {
        if (absl::IsResourceExhausted(reader.status()) &&
            reader.window().find('"') != std::string_view::npos) {
          *error = absl::ResourceExhaustedError(
              fmt::format("{}; is a quote opened there and never closed?",
                          std::string(reader.status().message())));
        }
        return false;
      }
      continue;
    }
    if (split.result != CsvSplit::kRow) {
      *error = SplitError(file, reader, split);
      return false;
    }
    row->text = window.substr(0, split.bytes);
    row->line = reader.line();
    // Few rows hold more line breaks than the one at their end, and those have quotes.
    uint64_t line_breaks = row->text.ends_with('\n') ? 1 : 0;
    if (std::memchr(row->text.data(), '\n', row->text.size() - line_breaks) != nullptr) {
      line_breaks = std::count(row->text.begin(), row->text.end(), '\n');
    }
    const bool blank = IsBlank(*cells, row->text);
    reader.Consume(split.bytes, line_breaks);
    if (!blank) return true;
  }
}

bool CsvSource::NextSoundRow(TextReader& reader, Row* row, std::vector<CsvCell>* scratch) const {
  while (true) {
    const std::string_view window = reader.window();
    row->line = reader.line();
    const size_t line_break = window.find('\n');
    if (line_break != std::string_view::npos &&
        (!options_.dialect.quotes || std::memchr(window.data(), '"', line_break) == nullptr)) {
      row->text = window.substr(0, line_break + 1);
      reader.Consume(line_break + 1, 1);
      if (!WithoutLineBreak(row->text).empty()) return true;
      continue;
    }
    // Quotes, or the last line: rarer, and left to the splitter.
    absl::Status error;
    return NextRow(0, reader, row, scratch, &error);
  }
}

absl::Status CsvSource::ReadHeader(uint32_t file, uint64_t line,
                                   const std::vector<std::string>& names) {
  std::vector<TextColumn> header;
  std::unordered_map<std::string, size_t> seen;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    if (name.empty()) {
      return files_.ErrorAt(
          file, line,
          fmt::format("column {} of {} has no name; the first row names the columns", i + 1,
                      names.size()));
    }
    const auto [first, fresh] = seen.emplace(name, i);
    if (!fresh) {
      return files_.ErrorAt(file, line,
                            fmt::format("columns {} and {} are both named {}", first->second + 1,
                                        i + 1, Excerpt(name)));
    }
    header.emplace_back(name);
  }
  if (file == 0) {
    columns_ = std::move(header);
    by_name_.resize(columns_.size());
    std::iota(by_name_.begin(), by_name_.end(), 0);
    std::sort(by_name_.begin(), by_name_.end(),
              [this](size_t a, size_t b) { return columns_[a].name() < columns_[b].name(); });
    return absl::OkStatus();
  }
  if (header.size() != columns_.size()) {
    return files_.ErrorAt(file, line,
                          fmt::format("the header has {} columns, that of {} has {}; all files "
                                      "need the same header",
                                      header.size(), files_.path(0), columns_.size()));
  }
  for (size_t i = 0; i < header.size(); ++i) {
    if (header[i].name() == columns_[i].name()) continue;
    return files_.ErrorAt(
        file, line,
        fmt::format("column {} is named {}, in {} it is {}; all files need the same header", i + 1,
                    Excerpt(header[i].name()), files_.path(0), Excerpt(columns_[i].name())));
  }
  return absl::OkStatus();
}

absl::Status CsvSource::ScanFile(uint32_t file, TextReader& reader) {
  Row row;
  std::vector<CsvCell> cells;
  absl::Status error;
  if (!has_header()) {
    if (file == 0) {
      if (absl::Status status = ReadHeader(0, 0, options_.names); !status.ok()) return status;
    }
  } else if (NextRow(file, reader, &row, &cells, &error)) {
    std::vector<std::string> names;
    std::string scratch;
    for (const CsvCell& cell : cells) names.emplace_back(ValueOf(cell, &scratch));
    if (absl::Status status = ReadHeader(file, row.line, names); !status.ok()) return status;
  } else {
    if (!error.ok()) return error;
    if (!reader.status().ok()) return reader.status();
    return files_.ErrorAt(file, 0, "the file is empty; its first row must name the columns");
  }

  const size_t num_columns = columns_.size();
  uint64_t num_records = 0;
  while (NextRow(file, reader, &row, &cells, &error)) {
    if (cells.size() != num_columns) {
      return files_.ErrorAt(
          file, row.line,
          fmt::format("{} cells where {} {}{}", cells.size(),
                      has_header() ? "the header has" : "the names given are", num_columns,
                      cells.size() > num_columns
                          ? fmt::format("; is a cell that holds {} not quoted?",
                                        Excerpt({&options_.dialect.delimiter, 1}))
                          : ""));
    }
    // A cell with doubled quotes is text either way, so it need not be undoubled here.
    for (size_t i = 0; i < num_columns; ++i) columns_[i].Add(cells[i].text, {file, row.line});
    ++num_records;
  }
  if (!error.ok()) return error;
  if (!reader.status().ok()) return reader.status();
  records_of_file_.push_back(num_records);
  num_records_ += num_records;
  return absl::OkStatus();
}

absl::Status CsvSource::Scan(std::stop_token stop,
                             const std::function<void(uint64_t bytes)>& progress) {
  columns_.clear();
  records_of_file_.clear();
  num_records_ = 0;
  if (absl::Status status = files_.Stat(); !status.ok()) return status;
  for (uint32_t file = 0; file < files_.size(); ++file) {
    absl::StatusOr<std::unique_ptr<TextReader>> reader = files_.OpenFirst(file, stop, progress);
    if (!reader.ok()) return reader.status();
    if (absl::Status status = ScanFile(file, **reader); !status.ok()) return status;
  }
  if (num_records_ == 0) {
    return files_.Error(0, has_header() ? "no records: nothing comes after the header"
                                        : "no records: the file is empty");
  }
  return absl::OkStatus();
}

std::vector<std::string> CsvSource::notes() const {
  std::vector<std::string> notes;
  for (const TextColumn& column : columns_) {
    if (column.empty()) {
      notes.push_back(
          fmt::format("column {} is empty in every row: no record has it", Excerpt(column.name())));
    } else if (column.numbers_before_text() > 0) {
      const Place place = column.first_text_place();
      notes.push_back(fmt::format(
          "column {} is bytes because of {} at {}:{}; the {} values before it are numbers",
          Excerpt(column.name()), Excerpt(column.first_text()), files_.path(place.file), place.line,
          column.numbers_before_text()));
    }
  }
  return notes;
}

absl::Status CsvSource::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  std::vector<CsvCell> cells;
  for (uint32_t file = 0; file < files_.size(); ++file) {
    absl::StatusOr<std::unique_ptr<TextReader>> reader = files_.OpenAgain(file);
    if (!reader.ok()) return reader.status();
    Row row;
    uint64_t num_rows = 0;
    while (NextSoundRow(**reader, &row, &cells)) {
      if (num_rows++ == 0 && has_header()) continue;
      Item item;
      item.bytes = WithoutLineBreak(row.text);
      item.file = file;
      item.line = row.line;
      if (absl::Status status = sink(item); !status.ok()) return status;
    }
    if (!(*reader)->status().ok()) return (*reader)->status();
    if (absl::Status status = files_.CheckUnchanged(file); !status.ok()) return status;
    if (num_rows != records_of_file_[file] + (has_header() ? 1 : 0)) return files_.Changed(file);
  }
  return absl::OkStatus();
}

absl::Status CsvSource::Build(const Item& item, ExampleBuilder& builder) const {
  thread_local std::vector<CsvCell> cells;
  thread_local std::string scratch;
  const CsvSplit split = SplitCsvRow(item.bytes, /*at_end=*/true, options_.dialect, &cells);
  if (split.result != CsvSplit::kRow || cells.size() != columns_.size()) {
    return files_.Changed(item.file);
  }
  for (size_t i : by_name_) {
    if (cells[i].text.empty()) continue;
    const std::string& name = columns_[i].name();
    switch (columns_[i].kind()) {
      case ColumnKind::kInt64: {
        const std::optional<int64_t> value = ParseInt64(cells[i].text);
        if (!value) return files_.Changed(item.file);
        builder.AddInt64(name, *value);
        break;
      }
      case ColumnKind::kFloat: {
        const std::optional<float> value = ParseFloat(cells[i].text);
        if (!value) return files_.Changed(item.file);
        builder.AddFloat(name, *value);
        break;
      }
      case ColumnKind::kBytes:
      case ColumnKind::kUnknown:
        builder.AddBytes(name, ValueOf(cells[i], &scratch));
        break;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeCsvSource(std::vector<std::string> paths,
                                                      CsvOptions options) {
  if (paths.empty()) return absl::InvalidArgumentError("no CSV files are named");
  const char c = options.dialect.delimiter;
  if (c == '"' || c == '\n' || c == '\r' || c <= 0 || c > '~') {
    return absl::InvalidArgumentError(fmt::format(
        "delimiter {} cannot be used: one ASCII character other than a quote or a line break",
        Excerpt({&c, 1})));
  }
  return std::make_unique<CsvSource>(std::move(paths), std::move(options));
}

}  // namespace shardfeed
