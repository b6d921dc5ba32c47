// A map between class names and numbers, read from a file or from the manifest of a dataset.

#ifndef SHARDFEED_CONVERT_FEATURES_CLASS_MAP_H_
#define SHARDFEED_CONVERT_FEATURES_CLASS_MAP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/declarations/named_manifest.h"
#include "shard/manifest/manifest.h"
#include "shard/schema/class_names.h"

namespace shardfeed {

// Immutable, thread-safe.
class ClassMap {
 public:
  // Reads the classes of a dataset (ReadNamedManifest says how it is named), or a file in one of
  // three forms: a JSON object {"cat": 0, "dog": 1}, one name per line, numbered from 0, or a
  // manifest. Blank lines at the end of the second form are ignored.
  //
  // NotFound and the like: the file cannot be read. DataLoss: not UTF-8, an empty name, a name or
  // number that appears twice, or a number that is not an integer of at least 0; the message gives
  // the line if there are lines. FailedPrecondition: a dataset whose manifest names no classes.
  static absl::StatusOr<ClassMap> Read(const std::string& path);
  // The classes of image/class/label in a manifest. FailedPrecondition: it names none.
  static absl::StatusOr<ClassMap> Of(const NamedManifest& dataset);

  ClassMap(ClassMap&&) = default;
  ClassMap& operator=(ClassMap&&) = default;

  std::optional<int64_t> NumberOf(std::string_view name) const;
  // The name is valid as long as the map.
  std::optional<std::string_view> NameOf(int64_t number) const;
  ClassNames classes() const { return {name_of_number_.begin(), name_of_number_.end()}; }
  // Returns a message that the map lacks a class, and what to do about it. `what` names the class:
  // "the class \"cat\"".
  std::string Lacks(std::string_view what) const;
  // A note on the classes of the map that are not among the `used` numbers; empty if all are.
  std::string NoteOfUnused(const std::set<int64_t>& used) const;
  size_t size() const { return number_of_name_.size(); }
  const std::string& path() const { return path_; }

 private:
  ClassMap() = default;
  absl::Status Add(std::string_view name, int64_t number, std::string_view place);

  std::string path_;
  bool of_dataset_ = false;
  std::map<std::string, int64_t, std::less<>> number_of_name_;
  std::map<int64_t, std::string_view> name_of_number_;  // views of the other map's keys
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_CLASS_MAP_H_
