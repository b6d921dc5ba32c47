#include "convert/features/label_file.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "convert/input/csv_row.h"
#include "convert/input/excerpt.h"
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

}  // namespace

absl::Status LabelFile::ErrorAt(uint64_t line, std::string_view what) const {
  return absl::DataLossError(fmt::format("{}:{}: {}", path_, line, what));
}

absl::StatusOr<LabelFile> LabelFile::Read(const std::string& path,
                                          const LabelFileOptions& options) {
  LabelFile file;
  file.path_ = path;
  absl::StatusOr<std::string> text = ReadText(path, kMaxBytes);
  if (!text.ok()) return text.status();
  file.text_ = std::make_unique<std::string>(*std::move(text));
  if (absl::Status status = file.Parse(options); !status.ok()) return status;
  return file;
}

absl::Status LabelFile::Parse(const LabelFileOptions& options) {
  absl::Status status = path_.ends_with(".csv")   ? ParseTable(',', options)
                        : path_.ends_with(".tsv") ? ParseTable('\t', options)
                                                  : ParseLines(options);
  if (!status.ok()) return status;
  if (lines_.empty()) return absl::DataLossError(fmt::format("{}: no labels", path_));
  if (status = FindKinds(options); !status.ok() || labels_ != Labels::kNames) return status;
  for (size_t row = 0; row < size(); ++row) class_names_.push_back(LabelOf(row));
  std::sort(class_names_.begin(), class_names_.end());
  class_names_.erase(std::unique(class_names_.begin(), class_names_.end()), class_names_.end());
  return absl::OkStatus();
}

absl::Status LabelFile::AddRow(uint64_t line) {
  const size_t row = lines_.size();
  lines_.push_back(line);
  std::string_view name = Cell(row, 0);
  while (name.starts_with("./")) name.remove_prefix(2);
  if (name.empty()) return ErrorAt(line, "expected the name of an image");
  if (LabelOf(row).empty()) return ErrorAt(line, fmt::format("no label for {}", Excerpt(name)));
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

absl::StatusOr<size_t> LabelFile::FindColumn(const std::string& name, std::string_view role) const {
  std::vector<std::string> there;
  for (size_t i = 0; i < columns_.size(); ++i) {
    there.push_back(Excerpt(columns_[i].name));
    if (columns_[i].name != name) continue;
    if (i > 0) return i;
    return absl::InvalidArgumentError(fmt::format(
        "{}: column {} is the first one, which names the images; it cannot be that of the {}",
        path_, Excerpt(name), role));
  }
  return absl::InvalidArgumentError(fmt::format("{}: column {} does not exist; the columns are {}",
                                                path_, Excerpt(name), fmt::join(there, ", ")));
}

absl::Status LabelFile::SetColumns(const std::vector<std::string_view>& names, uint64_t line,
                                   const LabelFileOptions& options) {
  std::set<std::string_view> seen;
  for (std::string_view name : names) {
    columns_.push_back({.name = std::string(name)});
    // pandas writes the names of rows without a name of their column.
    if (name.empty() && columns_.size() > 1) {
      return ErrorAt(line, fmt::format("column {} has no name", columns_.size()));
    }
    if (!seen.insert(name).second) {
      return ErrorAt(line, fmt::format("two columns are named {}", Excerpt(name)));
    }
  }
  std::string label = options.label_column;
  if (label.empty() && names.size() == 2) label = names[1];
  if (label.empty()) {
    label = "label";
    if (names.size() < 2) {
      return ErrorAt(line, "expected two columns, the image's name and its label, got one");
    }
    if (seen.count(label) == 0) {
      return WithRemedy(
          ErrorAt(line, fmt::format("expected a column named \"label\" among the {} columns",
                                    names.size())),
          {"label_column", "NAME", "say which one it is"});
    }
  }
  absl::StatusOr<size_t> found = FindColumn(label, "label");
  if (!found.ok()) return found.status();
  label_column_ = *found;
  if (!options.split_column.empty()) {
    found = FindColumn(options.split_column, "split");
    if (!found.ok()) return found.status();
    if (*found == label_column_) {
      return absl::InvalidArgumentError(
          fmt::format("{}: column {} cannot be both the label and the split", path_,
                      Excerpt(options.split_column)));
    }
    split_column_ = *found;
  }
  for (size_t i = 1; i < columns_.size(); ++i) {
    columns_[i].is_feature = i != label_column_;
    if (!columns_[i].is_feature || !IsFeatureOfImages(columns_[i].name)) continue;
    return ErrorAt(line, fmt::format("column {} has the name of a feature that each image has; "
                                     "rename it",
                                     Excerpt(columns_[i].name)));
  }
  return absl::OkStatus();
}

absl::Status LabelFile::ParseTable(char delimiter, const LabelFileOptions& options) {
  std::string_view text = *text_;
  std::vector<CsvCell> cells;
  uint64_t line = 1;
  const auto value = [this](const CsvCell& cell) -> std::string_view {
    if (!cell.doubled_quotes) return cell.text;
    std::string& single = unquoted_.emplace_back();
    UndoubleQuotes(cell.text, &single);
    return single;
  };
  while (!text.empty()) {
    const CsvSplit split = SplitCsvRow(text, /*at_end=*/true, {delimiter}, &cells);
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
      for (const CsvCell& cell : cells) names.push_back(value(cell));
      status = SetColumns(names, line, options);
    } else if (!blank) {
      if (cells.size() != columns_.size()) {
        return ErrorAt(line, fmt::format("expected {} cells as in the header, got {}",
                                         columns_.size(), cells.size()));
      }
      for (const CsvCell& cell : cells) cells_.push_back(value(cell));
      status = AddRow(line);
    }
    if (!status.ok()) return status;
    line += std::count(row.begin(), row.end(), '\n');
  }
  return absl::OkStatus();
}

absl::Status LabelFile::ParseLines(const LabelFileOptions& options) {
  for (const std::string& column : {options.label_column, options.split_column}) {
    if (column.empty()) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: has no column {}: only tables have columns, whose names end in .csv or "
                    ".tsv",
                    path_, Excerpt(column)));
  }
  columns_ = {{.name = "name"}, {.name = "label"}};
  std::string_view text = *text_;
  for (uint64_t line = 1; !text.empty(); ++line) {
    std::string_view one = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    while (!one.empty() && (one.back() == '\r' || one.back() == ' ')) one.remove_suffix(1);
    if (one.empty()) continue;
    size_t split = one.find('\t');
    if (split == one.npos) split = one.rfind(' ');
    if (split == one.npos) {
      return ErrorAt(line, fmt::format("expected \"NAME LABEL\", got {}; if the file is a table, "
                                       "its name must end in .csv or .tsv",
                                       Excerpt(one)));
    }
    std::string_view name = one.substr(0, split);
    while (name.ends_with(' ')) name.remove_suffix(1);
    cells_.push_back(name);
    cells_.push_back(one.substr(split + 1));
    if (absl::Status status = AddRow(line); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status LabelFile::CheckKind(const Column& column, size_t row, std::string_view cell) const {
  if (cell.empty() || (column.kind == ColumnKind::kInt64 && ParseAnyInt64(cell)) ||
      (column.kind == ColumnKind::kFloat && ParseAnyFloat(cell)) ||
      column.kind == ColumnKind::kBytes) {
    return absl::OkStatus();
  }
  return ErrorAt(lines_[row],
                 fmt::format("expected {} in column {}, as the schema says, got {}",
                             ColumnKindName(column.kind), Excerpt(column.name), Excerpt(cell)));
}

absl::Status LabelFile::FindKinds(const LabelFileOptions& options) {
  for (size_t i = 1; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    const auto asked = options.kinds.find(column.name);
    // Labels that are integers or names are the feature image/class/label and not their column.
    const bool values_asked = asked != options.kinds.end() && asked->second == ColumnKind::kFloat;
    if (i == label_column_ ? values_asked : asked != options.kinds.end()) {
      column.asked = true;
      column.kind = asked->second;
      for (size_t row = 0; row < size(); ++row) {
        absl::Status status = CheckKind(column, row, Cell(row, i));
        if (!status.ok()) return status;
      }
      continue;
    }
    TextColumn text(column.name);
    for (size_t row = 0; row < size(); ++row) text.Add(Cell(row, i), {.line = lines_[row]});
    column.kind = text.kind();
    if (text.empty()) {
      column.note = fmt::format("column {} is empty in every row, so no record has this feature",
                                Excerpt(column.name));
    } else if (text.numbers_before_text() > 0) {
      column.note = fmt::format(
          "{} because of {} at line {}; the {} values before it are numbers",
          i == label_column_ ? "labels are names of classes"
                             : fmt::format("column {} is bytes", Excerpt(column.name)),
          Excerpt(text.first_text()), text.first_text_place().line, text.numbers_before_text());
    }
  }
  Column& label = columns_[label_column_];
  labels_ = label.kind == ColumnKind::kInt64   ? Labels::kNumbers
            : label.kind == ColumnKind::kFloat ? Labels::kValues
                                               : Labels::kNames;
  if (labels_ != Labels::kValues) return absl::OkStatus();
  label.is_feature = true;
  for (size_t row = 0; row < size() && !label.asked; ++row) {
    if (ParseInt64(LabelOf(row))) continue;
    label.note = fmt::format(
        "labels are numbers with fractions (the first is {} at line {}): they become the feature "
        "{} and not classes",
        Excerpt(LabelOf(row)), lines_[row], Excerpt(label.name));
    break;
  }
  return absl::OkStatus();
}

void LabelFile::AddColumns(size_t row, ExampleBuilder& builder) const {
  for (size_t i = 1; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    const std::string_view cell = Cell(row, i);
    if (!column.is_feature || cell.empty()) continue;
    switch (column.kind) {
      case ColumnKind::kInt64:
        builder.AddInt64(column.name, *ParseAnyInt64(cell));
        break;
      case ColumnKind::kFloat:
        builder.AddFloat(column.name, column.asked ? *ParseAnyFloat(cell) : *ParseFloat(cell));
        break;
      case ColumnKind::kBytes:
      case ColumnKind::kUnknown:
        builder.AddBytes(column.name, cell);
        break;
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

std::vector<std::string> LabelFile::notes() const {
  std::vector<std::string> notes;
  for (const Column& column : columns_) {
    if (!column.note.empty()) notes.push_back(fmt::format("{}: {}", path_, column.note));
  }
  return notes;
}

}  // namespace shardfeed
