// Labels of images, from a file beside them.

#ifndef SHARDFEED_CONVERT_FEATURES_LABEL_FILE_H_
#define SHARDFEED_CONVERT_FEATURES_LABEL_FILE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"

namespace shardfeed {

// Two forms, told by the file's name:
//
//   *.csv, *.tsv   a table with a header. The first column names the image; the label is in the
//                  column "label" or, where there are just two columns, in the other one
//   all others     lines "NAME LABEL", split at their tab or, without one, at their last blank
//
// NAME is the path below the source, with or without the image's suffix. A label is a number if
// all labels of the file are integers from 0 on, otherwise the name of a class.
//
// The file is held in memory, with about 60 bytes for each label. Immutable, thread safe.
class LabelFile {
 public:
  // NotFound and the like: it cannot be read. DataLoss, with "FILE:LINE: ...": a line or row
  // without a name or a label, a name twice, columns that leave open which is the label.
  static absl::StatusOr<LabelFile> Read(const std::string& path);

  LabelFile(LabelFile&&) = default;
  LabelFile& operator=(LabelFile&&) = default;

  // The label of the image at `name`, as it stands in the file; nothing if it has none.
  std::optional<std::string_view> Find(std::string_view name) const;

  bool is_numeric() const { return is_numeric_; }
  // The different labels, sorted by their bytes; empty if they are numbers.
  const std::vector<std::string_view>& class_names() const { return class_names_; }
  size_t size() const { return labels_.size(); }
  const std::string& path() const { return path_; }

 private:
  LabelFile() = default;
  absl::Status Parse();
  absl::Status ParseTable(char delimiter);
  absl::Status ParseLines();
  absl::Status Add(std::string_view name, std::string_view label, uint64_t line);
  absl::Status ErrorAt(uint64_t line, std::string_view what) const;

  std::string path_;
  // Behind a pointer, so that views of it outlive a move.
  std::unique_ptr<std::string> text_;
  std::deque<std::string> unquoted_;  // names and labels that do not stand in the text as they are
  std::unordered_map<std::string_view, std::string_view> labels_;
  bool is_numeric_ = false;
  std::vector<std::string_view> class_names_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_LABEL_FILE_H_
