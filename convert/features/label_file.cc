#include "convert/features/label_file.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "convert/features/column.h"
#include "convert/input/csv_row.h"
#include "convert/input/excerpt.h"
#include "convert/input/text_reader.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

}  // namespace

absl::Status LabelFile::ErrorAt(uint64_t line, std::string_view what) const {
  return absl::DataLossError(fmt::format("{}:{}: {}", path_, line, what));
}

absl::StatusOr<LabelFile> LabelFile::Read(const std::string& path) {
  LabelFile file;
  file.path_ = path;
  absl::StatusOr<std::string> text = ReadText(path, kMaxBytes);
  if (!text.ok()) return text.status();
  file.text_ = std::make_unique<std::string>(*std::move(text));
  if (absl::Status status = file.Parse(); !status.ok()) return status;
  return file;
}

absl::Status LabelFile::Parse() {
  absl::Status status = path_.ends_with(".csv")   ? ParseTable(',')
                        : path_.ends_with(".tsv") ? ParseTable('\t')
                                                  : ParseLines();
  if (!status.ok()) return status;
  if (labels_.empty()) return absl::DataLossError(fmt::format("{}: no labels", path_));
  is_numeric_ = std::all_of(labels_.begin(), labels_.end(), [](const auto& entry) {
    return ParseInt64(entry.second).value_or(-1) >= 0;
  });
  if (is_numeric_) return absl::OkStatus();
  for (const auto& [name, label] : labels_) class_names_.push_back(label);
  std::sort(class_names_.begin(), class_names_.end());
  class_names_.erase(std::unique(class_names_.begin(), class_names_.end()), class_names_.end());
  return absl::OkStatus();
}

absl::Status LabelFile::Add(std::string_view name, std::string_view label, uint64_t line) {
  while (name.starts_with("./")) name.remove_prefix(2);
  if (name.empty()) return ErrorAt(line, "expected the name of an image");
  if (label.empty()) return ErrorAt(line, fmt::format("no label for {}", Excerpt(name)));
  if (!labels_.emplace(name, label).second) {
    return ErrorAt(line, fmt::format("{} appears twice", Excerpt(name)));
  }
  return absl::OkStatus();
}

absl::Status LabelFile::ParseTable(char delimiter) {
  std::string_view text = *text_;
  std::vector<CsvCell> cells;
  size_t label_column = 0;
  size_t num_columns = 0;
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
    if (!blank && num_columns == 0) {
      num_columns = cells.size();
      for (size_t i = 1; i < cells.size() && label_column == 0; ++i) {
        if (cells[i].text == "label") label_column = i;
      }
      if (label_column == 0 && num_columns == 2) label_column = 1;
      if (label_column == 0) {
        return ErrorAt(line, num_columns < 2
                                 ? "expected two columns, the image's name and its label, got one"
                                 : fmt::format("expected a column named \"label\" among the {} "
                                               "columns",
                                               num_columns));
      }
    } else if (!blank) {
      if (cells.size() != num_columns) {
        return ErrorAt(line, fmt::format("expected {} cells as in the header, got {}", num_columns,
                                         cells.size()));
      }
      absl::Status status = Add(value(cells[0]), value(cells[label_column]), line);
      if (!status.ok()) return status;
    }
    line += std::count(row.begin(), row.end(), '\n');
  }
  return absl::OkStatus();
}

absl::Status LabelFile::ParseLines() {
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
    absl::Status status = Add(name, one.substr(split + 1), line);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::optional<std::string_view> LabelFile::Find(std::string_view name) const {
  auto it = labels_.find(name);
  if (it == labels_.end()) it = labels_.find(name.substr(0, name.rfind('.')));
  if (it == labels_.end()) return std::nullopt;
  return it->second;
}

}  // namespace shardfeed
