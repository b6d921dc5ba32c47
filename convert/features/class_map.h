// Which number stands for which class, from a file.

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
  // Reads a file in one of two forms: a JSON object {"cat": 0, "dog": 1}, or one name a line, whose
  // numbers count from 0. Blank lines at the end of the second form do not count.
  //
  // NotFound and the like: it cannot be read. DataLoss: not UTF-8, an empty name, a name or number
  // twice, a number that is no integer from 0 on; with the line where there are lines.
  static absl::StatusOr<ClassMap> Read(const std::string& path);

  ClassMap(ClassMap&&) = default;
  ClassMap& operator=(ClassMap&&) = default;

  std::optional<int64_t> NumberOf(std::string_view name) const;
  // The name lives as long as the map.
  std::optional<std::string_view> NameOf(int64_t number) const;
  // The names of 0, 1 ...; empty where numbers are left out.
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
