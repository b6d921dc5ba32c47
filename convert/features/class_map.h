// A map between class names and numbers, read from a file.

#ifndef SHARDFEED_CONVERT_FEATURES_CLASS_MAP_H_
#define SHARDFEED_CONVERT_FEATURES_CLASS_MAP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace shardfeed {

// Immutable, thread safe.
class ClassMap {
 public:
  // Reads a file in one of two forms: a JSON object {"cat": 0, "dog": 1}, or one name per line,
  // numbered from 0. Blank lines at the end of the second form are ignored.
  //
  // NotFound and the like: the file cannot be read. DataLoss: not UTF-8, an empty name, a name or
  // number that appears twice, or a number that is not an integer of at least 0; the message gives
  // the line if there are lines.
  static absl::StatusOr<ClassMap> Read(const std::string& path);

  ClassMap(ClassMap&&) = default;
  ClassMap& operator=(ClassMap&&) = default;

  std::optional<int64_t> NumberOf(std::string_view name) const;
  // The name is valid as long as the map.
  std::optional<std::string_view> NameOf(int64_t number) const;
  // The names of classes 0, 1 and so on; empty if numbers are missing.
  std::vector<std::string> NamesInOrder() const;
  size_t size() const { return number_of_name_.size(); }
  const std::string& path() const { return path_; }

 private:
  ClassMap() = default;
  absl::Status Add(std::string_view name, int64_t number, std::string_view place);

  std::string path_;
  std::map<std::string, int64_t, std::less<>> number_of_name_;
  std::map<int64_t, std::string_view> name_of_number_;  // views of the other map's keys
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_CLASS_MAP_H_
