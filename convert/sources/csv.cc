#include "convert/sources/csv.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "base/excerpt.h"
#include "base/suggestion.h"
#include "convert/features/column.h"
#include "convert/features/column_names.h"
#include "convert/features/csv_guess.h"
#include "convert/features/table_column.h"
#include "convert/input/csv_row.h"
#include "convert/input/csv_rows.h"
#include "convert/input/name_list.h"
#include "convert/input/text_inputs.h"
#include "convert/input/text_reader.h"
#include "convert/items/item_list.h"
#include "convert/items/split_names.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/remedy.h"

namespace shardfeed {
namespace {

class CsvSource : public Source {
 public:
  CsvSource(std::vector<std::string> paths, CsvOptions options)
      : files_(std::move(paths), options.max_row_bytes), options_(std::move(options)) {
    files_.SetEncoding(options_.encoding);
  }

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return files_.num_bytes(); }
  std::string InputFingerprint() const override { return files_.InputFingerprint(); }
  FeatureTypes types() const override;
  std::vector<ColumnDescription> columns() const override;
  std::vector<std::string> notes() const override;
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override;
  absl::Status AppendKey(const Item& item, std::string* key) const override;
  bool names_splits() const override { return !options_.split_column.empty(); }
  std::vector<SplitCount> splits() const override { return splits_.splits(); }
  absl::StatusOr<size_t> SplitOf(const Item& item) const override;

 private:
  struct Column {
    TableColumn cells;
    bool chosen = true;
    ColumnKind kind = ColumnKind::kBytes;  // available after Scan

    const std::string& name() const { return cells.name(); }
  };
  // What the first pass found in a file.
  struct FileRows {
    TextEncoding encoding = TextEncoding::kUtf8;
    size_t start_bytes = 0;  // before the rows
    uint64_t start_lines = 0;
    bool header = false;  // whether the first row names the columns
    uint64_t num_rows = 0;
    ItemList left_out;  // row numbers, without the header
  };

  absl::Status ScanFile(uint32_t file, TextReader& reader);
  // Skips what comes before the rows and, in the first file, guesses how they are written.
  absl::Status ReadStart(uint32_t file, TextReader& reader);
  absl::Status ReadHeader(uint32_t file, uint64_t line, std::vector<std::string> names);
  absl::Status ChooseColumns();
  std::vector<std::string> ColumnNames() const;
  absl::Status CheckRow(uint32_t file, const CsvRow& row, const std::vector<CsvCell>& cells) const;
  // Splits the row of an item. FailedPrecondition: the file has changed.
  absl::Status SplitItem(const Item& item, std::vector<CsvCell>* cells) const;
  void TrimCells(std::vector<CsvCell>* cells) const {
    if (options_.trim != CsvOptions::Trim::kAll) return;
    for (CsvCell& cell : *cells) cell.text = Trimmed(cell.text);
  }
  std::string EncodingsText() const;
  std::string ReadAs() const;
  // Counts a row in its split.
  absl::Status AddToSplit(uint32_t file, const CsvRow& row, const std::vector<CsvCell>& cells);
  // Returns a cell of an item, valid until the thread's next call.
  absl::StatusOr<std::string_view> CellOf(const Item& item, size_t column) const;

  TextFiles files_;
  CsvOptions options_;
  CsvGuess guess_;
  uint64_t num_comments_ = 0;
  bool names_in_comment_ = false;
  std::vector<std::string> encodings_;
  std::vector<std::string> header_notes_;
  std::unique_ptr<CellRules> rules_;
  std::vector<Column> columns_;
  // Indices of the chosen columns, sorted by name, which is the order of features in records.
  std::vector<size_t> by_name_;
  bool kinds_asked_ = false;
  size_t key_index_ = 0;    // index of key_column
  size_t split_index_ = 0;  // index of split_column
  SplitNames splits_{""};
  std::vector<FileRows> rows_of_file_;
  uint64_t num_records_ = 0;
};

absl::Status CsvSource::ReadStart(uint32_t file, TextReader& reader) {
  FileRows& rows = rows_of_file_.emplace_back();
  const CsvStart start = FindCsvStart(reader.unread(), reader.at_end(), options_.comments);
  const std::string comment(start.last_comment);
  rows.start_bytes = start.bytes;
  rows.start_lines = start.lines;
  num_comments_ += start.comments;
  reader.Consume(start.bytes, start.lines);
  rows.encoding = reader.encoding();
  std::string encoding = reader.EncodingText();
  if (reader.guessed_encoding() && files_.size() > 1) {
    encoding = fmt::format("{} in {} (a guess: not UTF-8)", TextEncodingName(reader.encoding()),
                           files_.path(file));
  }
  if (std::ranges::find(encodings_, encoding) == encodings_.end()) encodings_.push_back(encoding);
  if (file == 0) {
    CsvGiven given;
    given.delimiter = options_.delimiter ? options_.delimiter : start.delimiter;
    given.quotes = options_.quotes;
    if (options_.trim != CsvOptions::Trim::kGuessed) {
      given.skip_blanks = options_.trim == CsvOptions::Trim::kAll;
    }
    given.decimal = options_.decimal;
    given.header = options_.header;
    if (!options_.header && !options_.names.empty()) given.header = false;
    given.cells.missing = options_.missing;
    given.cells.trim_numbers = options_.trim != CsvOptions::Trim::kNone;
    given.cells.thousands = options_.thousands;
    given.cells.dates = options_.dates;
    guess_ = GuessCsv(reader.unread(), reader.at_end(), given);
    given.cells.decimal = guess_.decimal;
    rules_ = std::make_unique<CellRules>(given.cells);
  }
  rows.header = guess_.header;
  if (guess_.header || options_.header || !options_.names.empty() || comment.empty()) {
    return absl::OkStatus();
  }
  // The header of a file without one may stand in its last comment.
  std::vector<CsvCell> names;
  std::vector<CsvCell> first;
  const bool named =
      SplitCsvRow(comment, /*at_end=*/true, guess_.dialect, &names).result == CsvSplit::kRow &&
      SplitCsvRow(reader.unread(), reader.at_end(), guess_.dialect, &first).result ==
          CsvSplit::kRow &&
      names.size() == first.size() && names.size() > 1;
  if (!named) return absl::OkStatus();
  std::vector<std::string> texts;
  texts.reserve(names.size());
  std::string scratch;
  for (const CsvCell& cell : names) texts.emplace_back(Trimmed(ValueOf(cell, &scratch)));
  if (file == 0) names_in_comment_ = true;
  return ReadHeader(file, reader.line() - 1, std::move(texts));
}

absl::Status CsvSource::ReadHeader(uint32_t file, uint64_t line, std::vector<std::string> names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (IsText(names[i])) continue;
    return files_.ErrorAt(file, line, fmt::format("the name of column {} is not UTF-8", i + 1));
  }
  std::vector<std::string> notes;
  CompleteNames(names, &notes);
  if (file == 0) {
    header_notes_ = std::move(notes);
    for (std::string& name : names) {
      const ChosenKind* const asked = options_.choice.KindOf(name);
      const bool chosen = options_.choice.Chooses(name);
      columns_.push_back(
          {TableColumn(std::move(name),
                       asked != nullptr ? std::optional(asked->kind) : std::nullopt, rules_.get()),
           chosen});
    }
    return ChooseColumns();
  }
  if (names.size() != columns_.size()) {
    return files_.ErrorAt(file, line,
                          fmt::format("the header has {} columns, but the header of {} has {}; all "
                                      "files need the same header",
                                      names.size(), files_.path(0), columns_.size()));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == columns_[i].name()) continue;
    return files_.ErrorAt(
        file, line,
        fmt::format("column {} is named {}, but in {} it is named {}; all files need the same "
                    "header",
                    i + 1, Excerpt(names[i]), files_.path(0), Excerpt(columns_[i].name())));
  }
  return absl::OkStatus();
}

std::vector<std::string> CsvSource::ColumnNames() const {
  std::vector<std::string> names;
  for (const Column& column : columns_) names.push_back(column.name());
  return names;
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
    return absl::InvalidArgumentError(
        fmt::format("{}: column {} does not exist; the columns are {}{}", files_.path(0),
                    Excerpt(wanted), ListOf(ColumnNames()), DidYouMean(wanted, ColumnNames())));
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].name() == options_.key_column) key_index_ = i;
    if (columns_[i].name() == options_.split_column) split_index_ = i;
    if (!columns_[i].chosen) continue;
    by_name_.push_back(i);
    kinds_asked_ |= columns_[i].cells.asked();
  }
  std::sort(by_name_.begin(), by_name_.end(),
            [this](size_t a, size_t b) { return columns_[a].name() < columns_[b].name(); });
  return absl::OkStatus();
}

// Checks a row that was split.
absl::Status CsvSource::CheckRow(uint32_t file, const CsvRow& row,
                                 const std::vector<CsvCell>& cells) const {
  if (cells.size() != columns_.size()) {
    const bool hint = cells.size() > columns_.size() && columns_.size() > 1 && options_.quotes;
    // A decimal comma in the only column.
    const bool marks = cells.size() == 2 && columns_.size() == 1 &&
                       guess_.dialect.delimiter == ',' &&
                       IsNumberWith(WithoutLineBreak(row.text), ',', '\0');
    absl::Status defect =
        files_.ErrorAt(file, row.line,
                       fmt::format("expected {} cells as in the {}, got {}{}", columns_.size(),
                                   !options_.names.empty() ? "given names"
                                   : guess_.header         ? "header"
                                                           : "first row",
                                   cells.size(),
                                   hint ? fmt::format("; cells that contain {} must be quoted",
                                                      Excerpt({&guess_.dialect.delimiter, 1}))
                                        : ""));
    if (!marks) return defect;
    return WithRemedy(defect, {"delimiter", ";", "read such numbers as one cell"});
  }
  if (skips_defects() && !IsText(row.text)) {
    return files_.ErrorAt(file, row.line, "the row is not UTF-8 or contains a NUL byte");
  }
  for (size_t i = 0; kinds_asked_ && i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    if (!column.chosen || column.cells.FitsAsked(cells[i].text)) continue;
    const absl::Status defect = files_.ErrorAt(
        file, row.line,
        fmt::format("expected {} in column {}, {}, got {}", ColumnKindName(column.cells.kind()),
                    Excerpt(column.name()), options_.choice.KindOf(column.name())->Reason(),
                    Excerpt(cells[i].text)));
    const std::optional<Remedy> remedy = column.cells.RemedyFor(cells[i].text);
    return remedy ? WithRemedy(defect, *remedy) : defect;
  }
  return absl::OkStatus();
}

absl::Status CsvSource::ScanFile(uint32_t file, TextReader& reader) {
  if (absl::Status status = ReadStart(file, reader); !status.ok()) return status;
  FileRows& found = rows_of_file_.back();
  CsvRows rows(files_, file, reader, guess_.dialect);
  CsvRow row;
  std::vector<CsvCell> cells;
  if (found.header) {
    if (!rows.Next(&row, &cells)) {
      if (!reader.status().ok()) return reader.status();
      if (num_comments_ > 0) {
        return WithRemedy(files_.ErrorAt(file, 0, "no rows follow the lines that begin with #"),
                          {"no_comments", "", "take these lines for rows"});
      }
      return files_.ErrorAt(file, 0, "the file is empty; its first row must name the columns");
    }
    if (!row.defect.ok()) return row.defect;
    TrimCells(&cells);
    std::vector<std::string> names = options_.names;
    std::string scratch;
    if (names.empty()) {
      for (const CsvCell& cell : cells) names.emplace_back(ValueOf(cell, &scratch));
    } else if (names.size() != cells.size()) {
      return files_.ErrorAt(file, row.line,
                            fmt::format("the header has {} columns, but {} names are given",
                                        cells.size(), names.size()));
    }
    if (absl::Status status = ReadHeader(file, row.line, std::move(names)); !status.ok()) {
      return status;
    }
  } else if (!options_.names.empty() && file == 0) {
    if (absl::Status status = ReadHeader(0, 0, options_.names); !status.ok()) return status;
  }

  while (rows.Next(&row, &cells)) {
    TrimCells(&cells);
    if (columns_.empty() && row.defect.ok()) {
      std::vector<std::string> names(cells.size());
      for (size_t i = 0; i < names.size(); ++i) names[i] = fmt::format("column{}", i + 1);
      if (absl::Status status = ReadHeader(0, 0, std::move(names)); !status.ok()) return status;
    }
    absl::Status defect = row.defect.ok() ? CheckRow(file, row, cells) : row.defect;
    if (defect.ok() && names_splits()) defect = AddToSplit(file, row, cells);
    if (!defect.ok()) {
      if (!LeaveOut(defect)) return defect;
      found.left_out.Add(found.num_rows++);
      continue;
    }
    // A cell with doubled quotes is text in any case, so it need not be unquoted here.
    for (size_t i : by_name_) columns_[i].cells.Add(cells[i].text, {file, row.line});
    ++found.num_rows;
  }
  if (!reader.status().ok()) return reader.status();
  num_records_ += found.num_rows - found.left_out.size();
  return absl::OkStatus();
}

absl::Status CsvSource::Scan(std::stop_token stop,
                             const std::function<void(uint64_t bytes)>& progress) {
  columns_.clear();
  by_name_.clear();
  rows_of_file_.clear();
  encodings_.clear();
  num_comments_ = 0;
  splits_ = SplitNames(options_.split_column);
  num_records_ = 0;
  names_in_comment_ = false;
  if (absl::Status status = files_.Stat(); !status.ok()) return status;
  for (uint32_t file = 0; file < files_.size(); ++file) {
    absl::StatusOr<std::unique_ptr<TextReader>> reader =
        files_.OpenFirst(file, !skips_defects(), stop, progress);
    if (!reader.ok()) return reader.status();
    if (absl::Status status = ScanFile(file, **reader); !status.ok()) return status;
  }
  for (Column& column : columns_) column.kind = column.cells.kind();
  if (num_records_ > 0) return absl::OkStatus();
  if (absl::Status broken = CheckNotAllLeftOut(); !broken.ok()) return broken;
  if (!guess_.header) return files_.Error(0, "no records: the file is empty");
  absl::Status none = files_.Error(0, "no records: nothing follows the header");
  if (options_.header) return none;
  return WithRemedy(none, {"no_header", "", "take the first row for a record"});
}

std::vector<ColumnDescription> CsvSource::columns() const {
  std::vector<ColumnDescription> columns;
  for (size_t i : by_name_) {
    columns.push_back({columns_[i].name(), std::string(ColumnKindName(columns_[i].kind))});
  }
  return columns;
}

// Of columns whose kind is known although no record of a dataset may tell it.
FeatureTypes CsvSource::types() const {
  FeatureTypes types;
  for (size_t i : by_name_) {
    const TableColumn& cells = columns_[i].cells;
    if (cells.has_no_values() ? cells.asked() : names_splits()) {
      types[cells.name()].dtype = DtypeOf(columns_[i].kind);
    }
  }
  return types;
}

std::string CsvSource::EncodingsText() const {
  constexpr size_t kShown = 5;
  const std::span<const std::string> shown(encodings_.data(), std::min(encodings_.size(), kShown));
  const size_t others = encodings_.size() - shown.size();
  return fmt::format("{}{}", fmt::join(shown, " and "),
                     others == 0 ? "" : fmt::format(" and {} more files", others));
}

std::string CsvSource::ReadAs() const {
  std::string text = "read as CSV: ";
  const char delimiter = guess_.dialect.delimiter;
  text += columns_.size() == 1 ? "one column"
          : delimiter == '\t'  ? "delimiter tab"
                               : fmt::format("delimiter '{}'", delimiter);
  if (!options_.quotes) text += ", quotes are ordinary characters";
  if (guess_.header) {
    text += options_.names.empty() ? ", header" : ", header replaced by the given names";
  } else {
    text += names_in_comment_         ? ", header in a comment"
            : !options_.names.empty() ? ", no header, given names"
            : columns_.size() == 1
                ? ", no header (the name is column1)"
                : fmt::format(", no header (the names are column1 to column{})", columns_.size());
  }
  text += fmt::format(", {}", EncodingsText());
  if (guess_.decimal != '.') text += fmt::format(", decimal mark '{}'", guess_.decimal);
  if (options_.thousands != '\0') text += fmt::format(", thousands mark '{}'", options_.thousands);
  if (options_.trim == CsvOptions::Trim::kAll) {
    text += ", without the blanks around cells";
  } else if (guess_.dialect.skip_blanks) {
    text += ", without the blanks after delimiters";
  }
  if (num_comments_ > 0) {
    text += num_comments_ == 1 ? ", 1 comment line skipped"
                               : fmt::format(", {} comment lines skipped", num_comments_);
  }
  return text;
}

std::vector<std::string> CsvSource::notes() const {
  std::vector<std::string> notes = {ReadAs()};
  notes.insert(notes.end(), header_notes_.begin(), header_notes_.end());
  const auto name_of = [this](Place place) {
    return fmt::format("{}:{}", files_.path(place.file), place.line);
  };
  for (size_t i : by_name_) {
    for (std::string& note : columns_[i].cells.Notes(name_of, options_.spell)) {
      notes.push_back(std::move(note));
    }
  }
  NameList dates;
  for (size_t i : by_name_) {
    if (columns_[i].cells.keeps_dates()) dates.Add(Excerpt(columns_[i].name()));
  }
  if (dates.count() > 0) {
    std::string note = dates.Text("column", "columns", "of dates, kept as text");
    if (options_.spell) {
      note += fmt::format("; {} makes them seconds since 1970", options_.spell("dates", "epoch"));
    }
    notes.push_back(std::move(note));
  }
  if (options_.dates != DatesAs::kText &&
      std::ranges::none_of(by_name_, [this](size_t i) { return columns_[i].cells.has_dates(); })) {
    notes.push_back(NoteOfNoDates("column"));
  }
  const std::vector<std::string> names = ColumnNames();
  const std::unordered_set<std::string_view> there(names.begin(), names.end());
  for (std::string& note : options_.choice.NotesOfUnused(
           [&there](const std::string&name) { return there.contains(name); },
           [&names](const std::string&name, const std::string&origin) {
             return fmt::format("column {} of {} does not exist{}", Excerpt(name), origin,
                                DidYouMean(name, names));
           },
           [](const NameList&missing, const std::string&origin) {
             return fmt::format("{} columns of {} do not exist: {}", missing.count(), origin,
                                missing.names());
           })) {
    notes.push_back(std::move(note));
  }
  return notes;
}

absl::Status CsvSource::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  for (uint32_t file = 0; file < files_.size(); ++file) {
    const FileRows& found = rows_of_file_[file];
    absl::StatusOr<std::unique_ptr<TextReader>> reader = files_.OpenAgain(file, found.encoding);
    if (!reader.ok()) return reader.status();
    if ((*reader)->unread().size() < found.start_bytes) return files_.Changed(file);
    (*reader)->Consume(found.start_bytes, found.start_lines);
    CsvRows rows(files_, file, **reader, guess_.dialect);
    CsvRow row;
    bool at_header = found.header;
    uint64_t num_rows = 0;
    ItemList::Pass left_out(found.left_out);
    while (rows.NextSound(&row)) {
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
    if (num_rows != found.num_rows) return files_.Changed(file);
  }
  return absl::OkStatus();
}

absl::Status CsvSource::SplitItem(const Item& item, std::vector<CsvCell>* cells) const {
  const CsvSplit split = SplitCsvRow(item.bytes, /*at_end=*/true, guess_.dialect, cells);
  if (split.result != CsvSplit::kRow || cells->size() != columns_.size()) {
    return files_.Changed(item.file);
  }
  TrimCells(cells);
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
  if (absl::Status status = SplitItem(item, &cells); !status.ok()) return status;
  return ValueOf(cells[column], &scratch);
}

absl::Status CsvSource::AddToSplit(uint32_t file, const CsvRow& row,
                                   const std::vector<CsvCell>& cells) {
  std::string scratch;
  std::string_view name = ValueOf(cells[split_index_], &scratch);
  // A word such as NA names no split, whatever the kind of the column.
  if (rules_->IsMissing(rules_->Inside(name))) name = {};
  absl::Status status = splits_.Add(name);
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
  if (absl::Status status = SplitItem(item, &cells); !status.ok()) return status;
  for (size_t i : by_name_) {
    const Column& column = columns_[i];
    if (!column.cells.AddFeature(column.kind, cells[i], builder)) {
      return files_.Changed(item.file);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeCsvSource(std::vector<std::string> paths,
                                                      CsvOptions options) {
  if (paths.empty()) return absl::InvalidArgumentError("expected CSV files, got none");
  const auto check = [](std::string_view what, std::optional<char> c) -> absl::Status {
    if (!c || (*c != '"' && *c != '\n' && *c != '\r' && *c > 0 && *c <= '~')) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(fmt::format(
        "expected a {} that is an ASCII character other than a quote or a line break, got {}", what,
        Excerpt({&*c, 1})));
  };
  // One of the two marks says what the other is.
  if (options.thousands == '.' && !options.decimal) options.decimal = ',';
  const bool grouped = options.thousands != '\0';
  for (const absl::Status& status :
       {check("delimiter", options.delimiter), check("decimal mark", options.decimal),
        check("thousands mark", grouped ? std::optional(options.thousands) : std::nullopt)}) {
    if (!status.ok()) return status;
  }
  constexpr std::string_view kOfNumbers = "+-0123456789Ee";
  for (const char mark : {options.decimal.value_or('.'), options.thousands}) {
    if (mark == '\0' || kOfNumbers.find(mark) == kOfNumbers.npos) continue;
    return absl::InvalidArgumentError(fmt::format(
        "expected marks for decimals and thousands that numbers do not have otherwise, got {}",
        Excerpt({&mark, 1})));
  }
  if (grouped && options.decimal.value_or('.') == options.thousands) {
    return absl::InvalidArgumentError(
        fmt::format("expected different marks for decimals and thousands, got {} for both",
                    Excerpt({&options.thousands, 1})));
  }
  if (!options.names_options) {
    options.spell = nullptr;
  } else if (!options.spell) {
    options.spell = [](std::string_view option, std::string_view value) {
      return fmt::format("the option {}={}", option, value);
    };
  }
  return std::make_unique<CsvSource>(std::move(paths), std::move(options));
}

}  // namespace shardfeed
