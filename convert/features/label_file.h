// Labels of images, read from a file.

#ifndef SHARDFEED_CONVERT_FEATURES_LABEL_FILE_H_
#define SHARDFEED_CONVERT_FEATURES_LABEL_FILE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/column.h"
#include "convert/features/feature_choice.h"
#include "convert/features/table_column.h"
#include "shardfeed/examples.h"

namespace shardfeed {

// These are about tables.
struct LabelFileOptions {
  // The column of the label. Empty: the one named "label" or, of two columns, the second.
  std::string label_column;
  // The column that names each image's split. Empty: there is none.
  std::string split_column;
  // Kinds of columns to use instead of the inferred ones.
  ChosenKinds kinds;
};

// The file has one of two forms, depending on its name without the suffix of a compression, and on
// the options:
//
//   *.csv, *.tsv   a table with a header, whose dialect is guessed as in csv_guess.h. The first
//                  column names the image, another one holds the label, and each further column is
//                  a feature of its own, as in table_column.h. A column without a name before them
//                  that numbers the rows does not count. Any file is a table for which the options
//                  name a column
//   all others     lines "NAME LABEL", split at their tab or, without one, at their last space
//
// NAME is the path below the source, with or without the image's suffix. Labels are classes unless
// all of them are numbers: integers are numbers of classes, and numbers with a fraction are values.
// Blanks around labels do not belong to them.
//
// The file is held in memory, with about 60 extra bytes per label and 16 per cell. Immutable,
// thread-safe.
class LabelFile {
 public:
  enum class Labels {
    kNames,    // names of classes
    kNumbers,  // numbers of classes
    kValues,   // floats, which are no classes
  };

  // Rows without a label are no error here, see CheckLabels.
  //
  // NotFound and the like: the file cannot be read. DataLoss, with "FILE:LINE: ...": a line or row
  // without a name, a name that appears twice, a table without a header or a unique
  // label column, a column without a name or with that of another feature, or a cell that does not
  // fit a chosen kind. InvalidArgument: a chosen column that does not exist, or that has two roles.
  static absl::StatusOr<LabelFile> Read(const std::string& path,
                                        const LabelFileOptions& options = {});

  LabelFile(LabelFile&&) = default;
  LabelFile& operator=(LabelFile&&) = default;

  // Returns the row of the image at `name`; nullopt if it has none.
  std::optional<size_t> Find(std::string_view name) const;
  size_t size() const { return lines_.size(); }

  // Whether the header of the table names this image, so that it may be no header.
  bool HeaderNames(std::string_view name) const;

  // DataLoss, with "FILE:LINE: ...": the row has no label, or a word for one that is missing among
  // labels that are numbers.
  absl::Status CheckLabel(size_t row) const;
  // Returns the error of the first row without a label.
  absl::Status CheckLabels() const;
  // The label as it is written in the file, which may be none.
  std::string_view LabelOf(size_t row) const { return Cell(row, label_column_); }
  Labels labels() const { return labels_; }
  // The distinct labels, sorted by their bytes; empty unless they are names.
  const std::vector<std::string_view>& class_names() const { return class_names_; }
  // The name of the split; empty if there is none.
  std::string_view SplitOf(size_t row) const {
    return split_column_ == 0 ? std::string_view() : Cell(row, split_column_);
  }
  bool has_splits() const { return split_column_ != 0; }
  // The name of the column of splits.
  const std::string& split_name() const { return columns_[split_column_].name(); }

  // Adds what the row's columns hold: all except the image's name and its class.
  void AddColumns(size_t row, ExampleBuilder& builder) const;

  // "FILE:LINE"
  std::string PlaceOf(size_t row) const;
  const std::string& path() const { return path_; }
  // What was inferred and is worth telling.
  std::vector<std::string> notes() const;

 private:
  struct Column {
    TableColumn cells;
    bool is_feature = false;
    ColumnKind kind = ColumnKind::kBytes;  // known once all rows are read

    const std::string& name() const { return cells.name(); }
  };

  LabelFile() = default;
  std::string_view Cell(size_t row, size_t column) const {
    return cells_[row * columns_.size() + column];
  }
  absl::Status Parse(const LabelFileOptions& options);
  absl::Status ParseTable(std::optional<char> delimiter, const LabelFileOptions& options);
  absl::Status ParseLines(const LabelFileOptions& options);
  absl::Status SetColumns(const std::vector<std::string_view>& names, uint64_t line,
                          const LabelFileOptions& options);
  absl::StatusOr<size_t> FindColumn(const std::vector<std::string_view>& names,
                                    std::string_view name, std::string_view role) const;
  void AddColumn(std::string_view name, const LabelFileOptions& options);
  // Finds the kinds of all columns from all of their cells.
  absl::Status FindKinds(const LabelFileOptions& options);
  // Finds out what the labels are.
  absl::Status FindLabels();
  // Adds the last row of cells_.
  absl::Status AddRow(uint64_t line);
  absl::Status ErrorAt(uint64_t line, std::string_view what) const;

  std::string path_;
  // Held by pointer, so that views of the text survive a move.
  std::unique_ptr<std::string> text_;
  std::deque<std::string> unquoted_;  // cells that had doubled quotes
  std::unique_ptr<CellRules> rules_;
  std::vector<Column> columns_;
  size_t label_column_ = 1;
  size_t split_column_ = 0;              // 0: none, since the first column is the image's name
  std::vector<std::string_view> cells_;  // cells of all rows, row by row
  std::vector<uint64_t> lines_;          // line of each row
  std::unordered_map<std::string_view, size_t> rows_;  // row of each image's name
  Labels labels_ = Labels::kNames;
  std::vector<std::string_view> class_names_;
  bool has_header_ = false;
  uint64_t num_padded_ = 0;         // labels that had blanks around them
  uint64_t first_padded_ = 0;       // line of the first of them
  std::vector<std::string> notes_;  // notes without the name of the file
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_LABEL_FILE_H_
