#include "convert/sources/csv.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "convert/features/column.h"
#include "convert/input/csv_row.h"
#include "convert/input/excerpt.h"
#include "convert/input/text_inputs.h"
#include "convert/input/text_reader.h"
#include "convert/items/item_list.h"
#include "convert/items/split_names.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/remedy.h"

namespace shardfeed {
namespace {

// Returns the value of the cell as a view of the cell or, if it has doubled quotes, of `scratch`.
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
      : files_(std::move(paths), options.max_row_bytes), options_(std::move(options)) {}

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return files_.num_bytes(); }
  std::string InputFingerprint() const override { return files_.InputFingerprint(); }
  std::vector<std::string> notes() const override;
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override;
  absl::Status AppendKey(const Item& item, std::string* key) const override;
  bool names_splits() const override { return !options_.split_column.empty(); }
  std::vector<SplitCount> splits() const override { return splits_.splits(); }
  absl::StatusOr<size_t> SplitOf(const Item& item) const override;

 private:
  struct Column {
    TextColumn text;
    bool chosen = true;
    std::optional<ColumnKind> asked;

    const std::string& name() const { return text.name(); }
    ColumnKind kind() const { return asked.value_or(text.kind()); }
  };
  // A row that is not blank.
  struct Row {
    std::string_view text;  // row including its line break
    uint64_t line = 0;      // line at which the row starts
    // Not OK if the row cannot be split. The row then ends with its first line, since the next line
    // may begin a valid row.
    absl::Status defect;
  };

  // Reads the next row of file `file` and splits it; `cells` are views of the reader's text.
  // Returns false at the end and after an error of the reader.
  bool NextRow(uint32_t file, TextReader& reader, Row* row, std::vector<CsvCell>* cells) const;
  // The same without splitting, for text that Scan has checked.
  bool NextSoundRow(TextReader& reader, Row* row, std::vector<CsvCell>* scratch) const;
  // Returns what is wrong with the row at the start of the unread text.
  absl::Status SplitError(uint32_t file, const TextReader& reader, CsvSplit split) const;
  void TakeRow(TextReader& reader, size_t bytes, Row* row) const;

  absl::Status ScanFile(uint32_t file, TextReader& reader);
  absl::Status ReadHeader(uint32_t file, uint64_t line, const std::vector<std::string>& names);
  absl::Status ChooseColumns();
  // Counts a row in its split.
  absl::Status AddToSplit(uint32_t file, const Row& row, const std::vector<CsvCell>& cells);
  // Returns a cell of an item, valid until the thread's next call.
  absl::StatusOr<std::string_view> CellOf(const Item& item, size_t column) const;
  absl::Status CheckRow(uint32_t file, const Row& row, const std::vector<CsvCell>& cells) const;
  bool has_header() const { return options_.names.empty(); }

  TextFiles files_;
  CsvOptions options_;
  std::vector<Column> columns_;
  // Indices of the chosen columns, sorted by name, which is the order of features in records.
  std::vector<size_t> by_name_;
  bool kinds_asked_ = false;
  size_t key_index_ = 0;    // index of key_column
  size_t split_index_ = 0;  // index of split_column
  SplitNames splits_{""};
  std::vector<uint64_t> rows_of_file_;
  std::vector<ItemList> left_out_of_file_;  // row numbers, without the header
  uint64_t num_records_ = 0;
};

Remedy NoQuotes() { return {"no_quotes", "", "treat quotes as ordinary characters"}; }

absl::Status CsvSource::SplitError(uint32_t file, const TextReader& reader, CsvSplit split) const {
  const std::string_view before = reader.unread().substr(0, split.bytes);
  const uint64_t line = reader.line() + std::count(before.begin(), before.end(), '\n');
  if (split.result == CsvSplit::kOpenQuote) {
    return WithRemedy(files_.ErrorAt(file, line, "the quote that opens here is never closed"),
                      NoQuotes());
  }
  if (split.result == CsvSplit::kLoneCr) {
    return files_.ErrorAt(file, line,
                          "a carriage return without a line feed, outside quotes; lines end in LF "
                          "or CRLF");
  }
  return WithRemedy(
      files_.ErrorAt(
          file, line,
          fmt::format("expected a delimiter ({}) or the end of the row after a closing quote, got "
                      "{}; a quote inside quotes must be doubled",
                      Excerpt({&options_.dialect.delimiter, 1}),
                      Excerpt(reader.unread().substr(split.bytes, 10)))),
      NoQuotes());
}

void CsvSource::TakeRow(TextReader& reader, size_t bytes, Row* row) const {
  row->text = reader.unread().substr(0, bytes);
  row->line = reader.line();
  // Only rows with quotes can contain line breaks other than the last one.
  uint64_t line_breaks = row->text.ends_with('\n') ? 1 : 0;
  if (std::memchr(row->text.data(), '\n', row->text.size() - line_breaks) != nullptr) {
    line_breaks = std::count(row->text.begin(), row->text.end(), '\n');
  }
  reader.Consume(bytes, line_breaks);
}

bool CsvSource::NextRow(uint32_t file, TextReader& reader, Row* row,
                        std::vector<CsvCell>* cells) const {
  row->defect = absl::OkStatus();
  while (true) {
    const std::string_view unread = reader.unread();
    if (unread.empty()) {
      if (!reader.Extend()) return false;
      continue;
    }
    const CsvSplit split = SplitCsvRow(unread, reader.at_end(), options_.dialect, cells);
    if (split.result == CsvSplit::kRow) {
      const bool blank = IsBlank(*cells, unread.substr(0, split.bytes));
      TakeRow(reader, split.bytes, row);
      if (!blank) return true;
      continue;
    }
    if (split.result == CsvSplit::kIncomplete) {
      const size_t quote = options_.dialect.quotes ? unread.find('"') : unread.npos;
      if (unread.size() <= options_.max_row_bytes || quote == unread.npos) {
        if (!reader.Extend() && !reader.status().ok()) return false;
        continue;
      }
      const absl::Status too_long = TextReader::TooLong(
          fmt::format("{}:{}", files_.path(file), reader.line()), options_.max_row_bytes);
      row->defect = WithMessage(too_long, fmt::format("{}; perhaps a quote in it is never closed",
                                                      std::string(too_long.message())));
    } else {
      row->defect = SplitError(file, reader, split);
    }
    if (!skips_defects()) return true;
    const size_t line_break = unread.find('\n');
    TakeRow(reader, line_break == unread.npos ? unread.size() : line_break + 1, row);
    return true;
  }
}

bool CsvSource::NextSoundRow(TextReader& reader, Row* row, std::vector<CsvCell>* scratch) const {
  while (true) {
    const std::string_view unread = reader.unread();
    row->line = reader.line();
    const size_t line_break = unread.find('\n');
    if (line_break != std::string_view::npos &&
        (!options_.dialect.quotes || std::memchr(unread.data(), '"', line_break) == nullptr)) {
      row->text = unread.substr(0, line_break + 1);
      reader.Consume(line_break + 1, 1);
      if (!WithoutLineBreak(row->text).empty()) return true;
      continue;
    }
    // A row with quotes or the last line is rarer, so leave it to the splitter.
    return NextRow(0, reader, row, scratch);
  }
}

absl::Status CsvSource::ReadHeader(uint32_t file, uint64_t line,
                                   const std::vector<std::string>& names) {
  std::vector<Column> header;
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
    if (!IsText(name)) {
      return files_.ErrorAt(file, line, fmt::format("the name of column {} is not UTF-8", i + 1));
    }
    header.push_back(
        {TextColumn(name), options_.choice.Chooses(name), options_.choice.KindOf(name)});
  }
  if (file == 0) {
    columns_ = std::move(header);
    return ChooseColumns();
  }
  if (header.size() != columns_.size()) {
    return files_.ErrorAt(file, line,
                          fmt::format("the header has {} columns, but the header of {} has {}; all "
                                      "files need the same header",
                                      header.size(), files_.path(0), columns_.size()));
  }
  for (size_t i = 0; i < header.size(); ++i) {
    if (header[i].name() == columns_[i].name()) continue;
    return files_.ErrorAt(
        file, line,
        fmt::format("column {} is named {}, but in {} it is named {}; all files need the same "
                    "header",
                    i + 1, Excerpt(header[i].name()), files_.path(0), Excerpt(columns_[i].name())));
  }
  return absl::OkStatus();
}

absl::Status CsvSource::ChooseColumns() {
  std::vector<std::string> all_wanted = options_.choice.columns;
  for (const std::string& column : {options_.key_column, options_.split_column}) {
    if (!column.empty()) all_wanted.push_back(column);
  }
  for (const std::string& wanted : all_wanted) {
    if (std::any_of(columns_.begin(), columns_.end(),
                    [&](const Column& column) { return column.name() == wanted; })) {
      continue;
    }
    std::vector<std::string> there;
    for (const Column& column : columns_) there.push_back(Excerpt(column.name()));
    return absl::InvalidArgumentError(
        fmt::format("{}: column {} does not exist; the columns are {}", files_.path(0),
                    Excerpt(wanted), fmt::join(there, ", ")));
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].name() == options_.key_column) key_index_ = i;
    if (columns_[i].name() == options_.split_column) split_index_ = i;
    if (!columns_[i].chosen) continue;
    by_name_.push_back(i);
    kinds_asked_ |= columns_[i].asked.has_value();
  }
  std::sort(by_name_.begin(), by_name_.end(),
            [this](size_t a, size_t b) { return columns_[a].name() < columns_[b].name(); });
  return absl::OkStatus();
}

// Checks a row that was split.
absl::Status CsvSource::CheckRow(uint32_t file, const Row& row,
                                 const std::vector<CsvCell>& cells) const {
  if (cells.size() != columns_.size()) {
    return files_.ErrorAt(file, row.line,
                          fmt::format("expected {} cells as in the {}, got {}{}", columns_.size(),
                                      has_header() ? "header" : "given names", cells.size(),
                                      cells.size() > columns_.size()
                                          ? fmt::format("; cells that contain {} must be quoted",
                                                        Excerpt({&options_.dialect.delimiter, 1}))
                                          : ""));
  }
  if (skips_defects() && !IsText(row.text)) {
    return files_.ErrorAt(file, row.line, "the row is not UTF-8 or contains a NUL byte");
  }
  for (size_t i = 0; kinds_asked_ && i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    const std::string_view text = cells[i].text;
    if (!column.chosen || !column.asked || text.empty()) continue;
    if ((column.asked == ColumnKind::kInt64 && !ParseAnyInt64(text)) ||
        (column.asked == ColumnKind::kFloat && !ParseAnyFloat(text))) {
      return files_.ErrorAt(
          file, row.line,
          fmt::format("expected {} in column {}, as the schema says, got {}",
                      ColumnKindName(*column.asked), Excerpt(column.name()), Excerpt(text)));
    }
  }
  return absl::OkStatus();
}

absl::Status CsvSource::ScanFile(uint32_t file, TextReader& reader) {
  Row row;
  std::vector<CsvCell> cells;
  if (!has_header()) {
    if (file == 0) {
      if (absl::Status status = ReadHeader(0, 0, options_.names); !status.ok()) return status;
    }
  } else if (NextRow(file, reader, &row, &cells)) {
    if (!row.defect.ok()) return row.defect;
    std::vector<std::string> names;
    std::string scratch;
    for (const CsvCell& cell : cells) names.emplace_back(ValueOf(cell, &scratch));
    if (absl::Status status = ReadHeader(file, row.line, names); !status.ok()) return status;
  } else {
    if (!reader.status().ok()) return reader.status();
    return files_.ErrorAt(file, 0, "the file is empty; its first row must name the columns");
  }

  uint64_t num_rows = 0;
  ItemList& left_out = left_out_of_file_.emplace_back();
  while (NextRow(file, reader, &row, &cells)) {
    absl::Status defect = row.defect.ok() ? CheckRow(file, row, cells) : row.defect;
    if (defect.ok() && names_splits()) defect = AddToSplit(file, row, cells);
    if (!defect.ok()) {
      if (!LeaveOut(defect)) return defect;
      left_out.Add(num_rows++);
      continue;
    }
    // A cell with doubled quotes is text in any case, so it need not be unquoted here.
    for (size_t i : by_name_) {
      if (!columns_[i].asked) columns_[i].text.Add(cells[i].text, {file, row.line});
    }
    ++num_rows;
  }
  if (!reader.status().ok()) return reader.status();
  rows_of_file_.push_back(num_rows);
  num_records_ += num_rows - left_out.size();
  return absl::OkStatus();
}

absl::Status CsvSource::Scan(std::stop_token stop,
                             const std::function<void(uint64_t bytes)>& progress) {
  columns_.clear();
  by_name_.clear();
  rows_of_file_.clear();
  left_out_of_file_.clear();
  splits_ = SplitNames(options_.split_column);
  num_records_ = 0;
  if (absl::Status status = files_.Stat(); !status.ok()) return status;
  for (uint32_t file = 0; file < files_.size(); ++file) {
    absl::StatusOr<std::unique_ptr<TextReader>> reader =
        files_.OpenFirst(file, !skips_defects(), stop, progress);
    if (!reader.ok()) return reader.status();
    if (absl::Status status = ScanFile(file, **reader); !status.ok()) return status;
  }
  if (num_records_ == 0) {
    return files_.Error(0, has_header() ? "no records: nothing follows the header"
                                        : "no records: the file is empty");
  }
  return absl::OkStatus();
}

std::vector<std::string> CsvSource::notes() const {
  std::vector<std::string> notes;
  for (size_t i : by_name_) {
    const TextColumn& column = columns_[i].text;
    if (columns_[i].asked) continue;
    if (column.empty()) {
      notes.push_back(fmt::format("column {} is empty in every row, so no record has this feature",
                                  Excerpt(column.name())));
    } else if (column.numbers_before_text() > 0) {
      const Place place = column.first_text_place();
      notes.push_back(fmt::format(
          "column {} is bytes because of {} at {}:{}; the {} values before it are numbers",
          Excerpt(column.name()), Excerpt(column.first_text()), files_.path(place.file), place.line,
          column.numbers_before_text()));
    }
  }
  for (const auto& chosen : options_.choice.kinds) {
    const std::string& name = chosen.first;
    if (std::none_of(columns_.begin(), columns_.end(),
                     [&name](const Column& column) { return column.name() == name; })) {
      notes.push_back(fmt::format("column {} of the schema does not exist", Excerpt(name)));
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
    bool at_header = has_header();
    uint64_t num_rows = 0;
    ItemList::Pass left_out(left_out_of_file_[file]);
    while (NextSoundRow(**reader, &row, &cells)) {
      if (std::exchange(at_header, false)) continue;
      ++num_rows;
      if (left_out.Next()) continue;
      Item item;
      item.bytes = WithoutLineBreak(row.text);
      item.file = file;
      item.line = row.line;
      if (absl::Status status = sink(item); !status.ok()) return status;
    }
    if (!(*reader)->status().ok()) return (*reader)->status();
    if (absl::Status status = files_.CheckUnchanged(file); !status.ok()) return status;
    if (num_rows != rows_of_file_[file]) return files_.Changed(file);
  }
  return absl::OkStatus();
}

absl::Status CsvSource::AppendKey(const Item& item, std::string* key) const {
  if (options_.key_column.empty()) {
    key->append(item.bytes);
    return absl::OkStatus();
  }
  absl::StatusOr<std::string_view> cell = CellOf(item, key_index_);
  if (cell.ok()) key->append(*cell);
  return cell.status();
}

absl::StatusOr<std::string_view> CsvSource::CellOf(const Item& item, size_t column) const {
  thread_local std::vector<CsvCell> cells;
  thread_local std::string scratch;
  const CsvSplit split = SplitCsvRow(item.bytes, /*at_end=*/true, options_.dialect, &cells);
  if (split.result != CsvSplit::kRow || cells.size() != columns_.size()) {
    return files_.Changed(item.file);
  }
  return ValueOf(cells[column], &scratch);
}

absl::Status CsvSource::AddToSplit(uint32_t file, const Row& row,
                                   const std::vector<CsvCell>& cells) {
  std::string scratch;
  absl::Status status = splits_.Add(ValueOf(cells[split_index_], &scratch));
  return status.ok() ? status : files_.ErrorAt(file, row.line, std::string(status.message()));
}

absl::StatusOr<size_t> CsvSource::SplitOf(const Item& item) const {
  absl::StatusOr<std::string_view> cell = CellOf(item, split_index_);
  if (!cell.ok()) return cell.status();
  if (const std::optional<size_t> split = splits_.Find(*cell)) return *split;
  return files_.Changed(item.file);
}

absl::Status CsvSource::Build(const Item& item, ExampleBuilder& builder) const {
  thread_local std::vector<CsvCell> cells;
  thread_local std::string scratch;
  const CsvSplit split = SplitCsvRow(item.bytes, /*at_end=*/true, options_.dialect, &cells);
  if (split.result != CsvSplit::kRow || cells.size() != columns_.size()) {
    return files_.Changed(item.file);
  }
  for (size_t i : by_name_) {
    const std::string_view text = cells[i].text;
    if (text.empty()) continue;
    const Column& column = columns_[i];
    switch (column.kind()) {
      case ColumnKind::kInt64: {
        const std::optional<int64_t> value = column.asked ? ParseAnyInt64(text) : ParseInt64(text);
        if (!value) return files_.Changed(item.file);
        builder.AddInt64(column.name(), *value);
        break;
      }
      case ColumnKind::kFloat: {
        const std::optional<float> value = column.asked ? ParseAnyFloat(text) : ParseFloat(text);
        if (!value) return files_.Changed(item.file);
        builder.AddFloat(column.name(), *value);
        break;
      }
      case ColumnKind::kBytes:
      case ColumnKind::kUnknown:
        builder.AddBytes(column.name(), ValueOf(cells[i], &scratch));
        break;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeCsvSource(std::vector<std::string> paths,
                                                      CsvOptions options) {
  if (paths.empty()) return absl::InvalidArgumentError("expected CSV files, got none");
  const char c = options.dialect.delimiter;
  if (c == '"' || c == '\n' || c == '\r' || c <= 0 || c > '~') {
    return absl::InvalidArgumentError(fmt::format(
        "expected a delimiter that is an ASCII character other than a quote or a line break, got "
        "{}",
        Excerpt({&c, 1})));
  }
  return std::make_unique<CsvSource>(std::move(paths), std::move(options));
}

}  // namespace shardfeed
