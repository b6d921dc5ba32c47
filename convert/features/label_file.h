// Labels of images, read from a file.

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

// The file has one of two forms, depending on its name:
//
//   *.csv, *.tsv   a table with a header. The first column names the image; the label is in the
//                  column "label" or, if there are just two columns, in the second one
//   all others     lines "NAME LABEL", split at their tab or, without one, at their last space
//
// NAME is the path below the source, with or without the image's suffix. Labels are numbers if all
// labels of the file are integers of at least 0, otherwise they are names of classes.
//
// The file is held in memory, with about 60 extra bytes per label. Immutable, thread safe.
class LabelFile {
 public:
  // NotFound and the like: the file cannot be read. DataLoss, with "FILE:LINE: ...": a line or row
  // without a name or a label, a name that appears twice, or no unique label column.
  static absl::StatusOr<LabelFile> Read(const std::string& path);

  LabelFile(LabelFile&&) = default;
  LabelFile& operator=(LabelFile&&) = default;

  // Returns the label of the image at `name` as written in the file; nullopt if it has none.
  std::optional<std::string_view> Find(std::string_view name) const;

  bool is_numeric() const { return is_numeric_; }
  // The distinct labels, sorted by their bytes; empty if they are numbers.
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
  // Held by pointer, so that views of the text survive a move.
  std::unique_ptr<std::string> text_;
  std::deque<std::string> unquoted_;  // names and labels that had doubled quotes
  std::unordered_map<std::string_view, std::string_view> labels_;
  bool is_numeric_ = false;
  std::vector<std::string_view> class_names_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_LABEL_FILE_H_
