// Reads options from dicts of named values.

#ifndef SHARDFEED_PYTHON_CORE_FIELDS_H_
#define SHARDFEED_PYTHON_CORE_FIELDS_H_

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nanobind/nanobind.h"
#include "nanobind/stl/pair.h"
#include "nanobind/stl/string.h"

namespace shardfeed::python {

template <typename E>
using Choices = std::initializer_list<std::pair<std::string_view, E>>;

// A name that the dict lacks leaves the field unchanged; a value of the wrong type raises
// ValueError.
class Fields {
 public:
  explicit Fields(nanobind::dict fields) : fields_(std::move(fields)) {}

  template <typename T>
  void Read(const char* name, T* field) const {
    if (!fields_.contains(name)) return;
    const nanobind::object value = fields_[name];
    if (!nanobind::try_cast(value, *field)) {
      throw nanobind::value_error(
          fmt::format("{} cannot be {}", name, nanobind::cast<std::string>(nanobind::repr(value)))
              .c_str());
    }
  }
  void Read(const char* name, double (&field)[2]) const {
    std::pair<double, double> range = {field[0], field[1]};
    Read(name, &range);
    field[0] = range.first;
    field[1] = range.second;
  }
  // Raises ValueError if the dict has other names than these. `of` names what has the fields.
  void CheckNames(std::string_view of, const std::vector<std::string_view>& names) const {
    for (const auto& [key, value] : fields_) {
      const auto name = nanobind::cast<std::string>(key);
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      throw nanobind::value_error(fmt::format("{} has no field '{}'", of, name).c_str());
    }
  }
  template <typename E>
  void Choose(const char* name, Choices<E> choices, E* field) const {
    if (!fields_.contains(name)) return;
    const std::string chosen = nanobind::cast<std::string>(nanobind::str(fields_[name]));
    std::string all;
    for (const auto& [text, value] : choices) {
      if (chosen == text) {
        *field = value;
        return;
      }
      all += fmt::format("{}'{}'", all.empty() ? "" : ", ", text);
    }
    throw nanobind::value_error(
        fmt::format("{} must be one of {}, not '{}'", name, all, chosen).c_str());
  }

 private:
  const nanobind::dict fields_;
};

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_FIELDS_H_
