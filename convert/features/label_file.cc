#include "convert/features/label_file.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "base/excerpt.h"
#include "convert/features/csv_guess.h"
#include "convert/features/image_file.h"
#include "convert/input/csv_row.h"
#include "convert/input/name_list.h"
#include "convert/input/text_reader.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/remedy.h"

namespace shardfeed {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

bool IsFeatureOfImages(std::string_view name) {
  constexpr std::array<std::string_view, 7> kNames = {
      "image/class/label", "image/class/text", "image/encoded", "image/filename",
      "image/format",      "image/height",     "image/width"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// Whether the first of the columns numbers the rows, as that of pandas' index does, and the second
// one names the images. `rows` are those after the header.
bool NumbersRows(std::string_view rows, const CsvDialect& dialect, size_t num_columns) {
  std::vector<CsvCell> cells;
  return num_columns > 2 &&
         SplitCsvRow(rows, /*at_end=*/true, dialect, &cells).result == CsvSplit::kRow &&
         cells.size() == num_columns && KindOfText(cells[0].text) == ColumnKind::kInt64 &&
         IsImageName(cells[1].text);
}

}  // namespace

absl::Status LabelFile::ErrorAt(uint64_t line, std::string_view what) const {
  return absl::DataLossError(fmt::format("{}:{}: {}", path_, line, what));
}

absl::StatusOr<LabelFile> LabelFile::Read(const std::string& path,
                                          const LabelFileOptions& options) {
  LabelFile file;
  file.path_ = path;
  std::string encoding;
  absl::StatusOr<std::string> text = ReadText(path, kMaxBytes, &encoding);
  if (!text.ok()) return text.status();
  if (!encoding.empty()) file.notes_.push_back(fmt::format("read as {}", encoding));
  file.text_ = std::make_unique<std::string>(*std::move(text));
  if (absl::Status status = file.Parse(options); !status.ok()) return status;
  return file;
}

absl::Status LabelFile::Parse(const LabelFileOptions& options) {
  std::string_view name = path_;
  for (const std::string_view compressed : {".gz", ".zst", ".xz", ".bz2"}) {
    if (name.ends_with(compressed)) name.remove_suffix(compressed.size());
  }
  // Only tables have columns; the name of a pipe does not tell what it is.
  const bool named_column = !options.label_column.empty() || !options.split_column.empty();
  const bool table = name.ends_with(".csv") || (named_column && !name.ends_with(".tsv"));
  absl::Status status = table                    ? ParseTable(std::nullopt, options)
                        : name.ends_with(".tsv") ? ParseTable('\t', options)
                                                 : ParseLines(options);
  if (!status.ok()) return status;
  if (lines_.empty()) return absl::DataLossError(fmt::format("{}: no labels", path_));
  if (status = FindKinds(options); !status.ok() || labels_ != Labels::kNames) return status;
  for (size_t row = 0; row < size(); ++row) {
    if (!LabelOf(row).empty()) class_names_.push_back(LabelOf(row));
  }
  std::sort(class_names_.begin(), class_names_.end());
  class_names_.erase(std::unique(class_names_.begin(), class_names_.end()), class_names_.end());
  return absl::OkStatus();
}

absl::Status LabelFile::AddRow(uint64_t line) {
  const size_t row = lines_.size();
  lines_.push_back(line);
  std::string_view& label = cells_[row * columns_.size() + label_column_];
  if (Trimmed(label).size() != label.size()) {
    label = Trimmed(label);
    if (num_padded_++ == 0) first_padded_ = line;
  }
  std::string_view name = Cell(row, 0);
  while (name.starts_with("./")) name.remove_prefix(2);
  if (name.empty()) return ErrorAt(line, "expected the name of an image");
  const auto [earlier, fresh] = rows_.emplace(name, row);
  if (fresh) return absl::OkStatus();
  if (LabelOf(earlier->second) == LabelOf(row)) {
    return ErrorAt(line, fmt::format("{} appears twice, first at line {}", Excerpt(name),
                                     lines_[earlier->second]));
  }
  return ErrorAt(line, fmt::format("{} has the label {}, but {} at line {}; an image has one label",
                                   Excerpt(name), Excerpt(LabelOf(row)),
                                   Excerpt(LabelOf(earlier->second)), lines_[earlier->second]));
}

absl::StatusOr<size_t> LabelFile::FindColumn(const std::vector<std::string_view>& names,
                                             std::string_view name, std::string_view role) const {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: column {} does not exist; the columns are {}", path_, Excerpt(name),
                    ListOf({names.begin(), names.end()})));
  }
  if (found != names.begin()) return static_cast<size_t>(found - names.begin());
  return absl::InvalidArgumentError(fmt::format(
      "{}: column {} is the first one, which names the images; it cannot be that of the {}", path_,
      Excerpt(name), role));
}

void LabelFile::AddColumn(std::string_view name, const LabelFileOptions& options) {
  const auto chosen = options.kinds.find(name);
  std::optional<ColumnKind> asked;
  if (chosen != options.kinds.end()) asked = chosen->second.kind;
  // Labels that are integers or names are the feature image/class/label and not their column.
  if (columns_.size() == label_column_ && asked != ColumnKind::kFloat) asked = std::nullopt;
  columns_.push_back({.cells = TableColumn(std::string(name), asked, rules_.get())});
}

absl::Status LabelFile::SetColumns(const std::vector<std::string_view>& names, uint64_t line,
                                   const LabelFileOptions& options) {
  if (IsImageName(names[0])) {
    return ErrorAt(line, fmt::format("the first row must name the columns, but names the image "
                                     "{}; add a header such as name,label",
                                     Excerpt(names[0])));
  }
  std::set<std::string_view> seen;
  for (size_t i = 0; i < names.size(); ++i) {
    // pandas writes the names of rows without a name of their column.
    if (names[i].empty() && i > 0) {
      return ErrorAt(line, fmt::format("column {} has no name", i + 1));
    }
    if (!seen.insert(names[i]).second) {
      return ErrorAt(line, fmt::format("two columns are named {}", Excerpt(names[i])));
    }
  }
  std::string_view label = options.label_column;
  if (label.empty() && names.size() == 2) label = names[1];
  if (label.empty()) {
    label = "label";
    if (names.size() < 2) {
      return ErrorAt(line, fmt::format("expected two columns, the image's name and its label, got "
                                       "one, {}; , ; | or tabs separate columns",
                                       Excerpt(names[0])));
    }
    if (seen.count(label) == 0) {
      return WithRemedy(
          ErrorAt(line, fmt::format("expected a column named \"label\" among the {} columns",
                                    names.size())),
          {"label_column", "NAME", "say which one it is"});
    }
  }
  absl::StatusOr<size_t> found = FindColumn(names, label, "label");
  if (!found.ok()) return found.status();
  label_column_ = *found;
  if (!options.split_column.empty()) {
    found = FindColumn(names, options.split_column, "split");
    if (!found.ok()) return found.status();
    if (*found == label_column_) {
      return absl::InvalidArgumentError(
          fmt::format("{}: column {} cannot be both the label and the split", path_,
                      Excerpt(options.split_column)));
    }
    split_column_ = *found;
  }
  has_header_ = true;
  for (std::string_view name : names) {
    AddColumn(name, options);
    const size_t i = columns_.size() - 1;
    columns_[i].is_feature = i > 0 && i != label_column_;
    if (!columns_[i].is_feature || !IsFeatureOfImages(name)) continue;
    return ErrorAt(line, fmt::format("column {} has the name of a feature that each image has; "
                                     "rename it",
                                     Excerpt(name)));
  }
  return absl::OkStatus();
}

absl::Status LabelFile::ParseTable(std::optional<char> delimiter, const LabelFileOptions& options) {
  std::string_view text = *text_;
  const CsvStart start = FindCsvStart(text, /*at_end=*/true, /*comments=*/true);
  text.remove_prefix(start.bytes);
  const char usual = delimiter.value_or(',');
  CsvGiven given;
  given.delimiter = delimiter ? delimiter : start.delimiter;
  given.header = true;
  const CsvGuess guess = GuessCsv(text, /*at_end=*/true, given);
  rules_ = std::make_unique<CellRules>(CellOptions{.decimal = guess.decimal});
  std::vector<std::string> told;
  if (guess.dialect.delimiter != usual) {
    told.push_back(fmt::format("delimiter {}", guess.dialect.delimiter == '\t'
                                                   ? "tab"
                                                   : fmt::format("'{}'", guess.dialect.delimiter)));
  }
  if (guess.decimal != '.') told.push_back(fmt::format("decimal mark '{}'", guess.decimal));
  if (guess.dialect.skip_blanks) told.push_back("without the blanks after delimiters");
  if (start.comments > 0) told.push_back("without the comments at its beginning");
  if (!told.empty()) notes_.push_back(fmt::format("read as CSV: {}", fmt::join(told, ", ")));

  std::vector<CsvCell> cells;
  size_t num_numbering = 0;  // columns in front that only number the rows
  uint64_t line = start.lines + 1;
  const auto value = [this](const CsvCell& cell) -> std::string_view {
    if (!cell.doubled_quotes) return cell.text;
    std::string& single = unquoted_.emplace_back();
    UndoubleQuotes(cell.text, &single);
    return single;
  };
  while (!text.empty()) {
    const CsvSplit split = SplitCsvRow(text, /*at_end=*/true, guess.dialect, &cells);
    if (split.result != CsvSplit::kRow) {
      return ErrorAt(line,
                     "expected a row of a table: a quote is not closed, text follows a closing "
                     "quote, or a carriage return has no line feed");
    }
    const std::string_view row = text.substr(0, split.bytes);
    text.remove_prefix(split.bytes);
    const bool blank = cells.size() == 1 && cells[0].text.empty();
    absl::Status status;
    if (!blank && columns_.empty()) {
      std::vector<std::string_view> names;
      names.reserve(cells.size());
      for (const CsvCell& cell : cells) names.push_back(value(cell));
      if (names[0].empty() && NumbersRows(text, guess.dialect, names.size())) {
        num_numbering = 1;
        names.erase(names.begin());
        notes_.push_back(
            "the first column, which has no name and numbers the rows, was left out; the next one "
            "names the images");
      }
      status = SetColumns(names, line, options);
    } else if (!blank) {
      const size_t expected = columns_.size() + num_numbering;
      if (cells.size() != expected) {
        return ErrorAt(line, fmt::format("expected {} cells as in the header, got {}", expected,
                                         cells.size()));
      }
      for (size_t i = num_numbering; i < cells.size(); ++i) cells_.push_back(value(cells[i]));
      status = AddRow(line);
    }
    if (!status.ok()) return status;
    line += std::count(row.begin(), row.end(), '\n');
  }
  return absl::OkStatus();
}

absl::Status LabelFile::ParseLines(const LabelFileOptions& options) {
  rules_ = std::make_unique<CellRules>(CellOptions{});
  AddColumn("name", options);
  AddColumn("label", options);
  std::string_view text = *text_;
  for (uint64_t line = 1; !text.empty(); ++line) {
    std::string_view one = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    while (!one.empty() && (one.back() == '\r' || one.back() == ' ')) one.remove_suffix(1);
    if (one.empty()) continue;
    size_t split = one.find('\t');
    if (split == one.npos) split = one.rfind(' ');
    if (split == one.npos) {
      return WithRemedy(ErrorAt(line, fmt::format("expected \"NAME LABEL\", got {}", Excerpt(one))),
                        {"label-column", "NAME", "read a table"});
    }
    std::string_view name = one.substr(0, split);
    while (name.ends_with(' ')) name.remove_suffix(1);
    cells_.push_back(name);
    cells_.push_back(one.substr(split + 1));
    if (absl::Status status = AddRow(line); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status LabelFile::FindKinds(const LabelFileOptions& options) {
  for (size_t i = 1; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    for (size_t row = 0; row < size(); ++row) {
      const std::string_view cell = Cell(row, i);
      column.cells.Add(cell, {.line = lines_[row]});
      if (!column.cells.asked() || column.cells.FitsAsked(cell)) continue;
      return ErrorAt(
          lines_[row],
          fmt::format("expected {} in column {}, {}, got {}", ColumnKindName(column.cells.kind()),
                      Excerpt(column.name()), options.kinds.find(column.name())->second.Reason(),
                      Excerpt(cell)));
    }
    column.kind = column.cells.kind();
  }
  return FindLabels();
}

absl::Status LabelFile::FindLabels() {
  struct Rows {
    uint64_t count = 0;
    size_t first = 0;
    void Add(size_t row) {
      if (count++ == 0) first = row;
    }
  };
  Rows integers, fractions, missing, names, like_numbers;
  std::string scratch;
  for (size_t row = 0; row < size(); ++row) {
    const std::string_view label = LabelOf(row);
    if (label.empty()) continue;
    const std::optional<std::string_view> plain = rules_->Plain(label, &scratch);
    const bool is_plain = plain && !label.starts_with('+');
    const ColumnKind kind = is_plain ? KindOfText(*plain) : ColumnKind::kBytes;
    if (rules_->IsMissing(label)) {
      missing.Add(row);
    } else if (kind != ColumnKind::kBytes) {
      (kind == ColumnKind::kInt64 ? integers : fractions).Add(row);
    } else {
      names.Add(row);
      if (ParseAnyFloat(label) || IsWrittenAsNumber(label)) like_numbers.Add(row);
    }
  }
  Column& label = columns_[label_column_];
  const auto first = [this](const Rows& rows) {
    return fmt::format("{} at line {}", Excerpt(LabelOf(rows.first)), lines_[rows.first]);
  };
  const uint64_t numbers = integers.count + fractions.count;
  if (names.count == 0 && (numbers > 0 || label.cells.asked())) {
    const bool values = fractions.count > 0 || label.cells.asked();
    labels_ = values ? Labels::kValues : Labels::kNumbers;
    label.is_feature = values;
    if (values && !label.cells.asked()) {
      notes_.push_back(
          fmt::format("labels are numbers with fractions (the first is {}): they become the "
                      "feature {} and not classes",
                      first(fractions), Excerpt(label.name())));
    }
  } else if (numbers > 0) {
    if (missing.count > 0 && missing.first < names.first) names.first = missing.first;
    names.count += missing.count;
    notes_.push_back(fmt::format(
        "labels are names of classes because of {}{}; the other {}",
        names.count == 1 ? "" : fmt::format("{} of them, the first is ", names.count), first(names),
        numbers == 1 ? "1 is a number" : fmt::format("{} are numbers", numbers)));
  } else if (like_numbers.count > 0) {
    notes_.push_back(fmt::format(
        "labels are names of classes, although {} like {}, the first is {}; only integers in their "
        "plain form are numbers of classes",
        like_numbers.count == 1 ? "1 of them looks"
                                : fmt::format("{} of them look", like_numbers.count),
        like_numbers.count == 1 ? "a number" : "numbers", first(like_numbers)));
  }
  return absl::OkStatus();
}

absl::Status LabelFile::CheckLabel(size_t row) const {
  const std::string_view label = LabelOf(row);
  if (label.empty()) {
    return ErrorAt(lines_[row], fmt::format("no label for {}", Excerpt(Cell(row, 0))));
  }
  if (labels_ == Labels::kNames || !rules_->IsMissing(label)) return absl::OkStatus();
  return ErrorAt(lines_[row],
                 fmt::format("no label for {}: {} means that a value is missing, since the other "
                             "labels are numbers",
                             Excerpt(Cell(row, 0)), Excerpt(label)));
}

absl::Status LabelFile::CheckLabels() const {
  for (size_t row = 0; row < size(); ++row) {
    if (absl::Status status = CheckLabel(row); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void LabelFile::AddColumns(size_t row, ExampleBuilder& builder) const {
  for (size_t i = 1; i < columns_.size(); ++i) {
    // The kind was found from all cells, so each fits.
    if (columns_[i].is_feature) {
      columns_[i].cells.AddFeature(columns_[i].kind, {.text = Cell(row, i)}, builder);
    }
  }
}

std::optional<size_t> LabelFile::Find(std::string_view name) const {
  auto it = rows_.find(name);
  if (it == rows_.end()) it = rows_.find(name.substr(0, name.rfind('.')));
  if (it == rows_.end()) return std::nullopt;
  return it->second;
}

std::string LabelFile::PlaceOf(size_t row) const {
  return fmt::format("{}:{}", path_, lines_[row]);
}

bool LabelFile::HeaderNames(std::string_view name) const {
  if (!has_header_ || columns_[0].name().empty()) return false;
  return columns_[0].name() == name || columns_[0].name() == name.substr(0, name.rfind('.'));
}

std::vector<std::string> LabelFile::notes() const {
  std::vector<std::string> notes;
  const auto add = [&](std::string_view note) {
    notes.push_back(fmt::format("{}: {}", path_, note));
  };
  for (const std::string& note : notes_) add(note);
  if (num_padded_ > 0) {
    add(fmt::format("blanks around {} were left out, first at line {}",
                    num_padded_ == 1 ? "1 label" : fmt::format("{} labels", num_padded_),
                    first_padded_));
  }
  const auto name_of = [](Place place) { return fmt::format("line {}", place.line); };
  for (const Column& column : columns_) {
    if (!column.is_feature) continue;
    for (const std::string& note : column.cells.Notes(name_of, nullptr)) add(note);
  }
  NameList dates;
  for (const Column& column : columns_) {
    if (column.is_feature && column.cells.keeps_dates()) dates.Add(Excerpt(column.cells.name()));
  }
  if (dates.count() > 0) add(dates.Text("column", "columns", "of dates, kept as text"));
  return notes;
}

}  // namespace shardfeed
