#include "pipeline/rows/augment_identity.h"

#include <array>
#include <optional>
#include <string>
#include <variant>

#include "pipeline/rows/augment_fields.h"

namespace shardfeed {
namespace augment {
namespace {

template <typename T>
const T& Value(const T& value) {
  return value;
}
std::vector<double> Value(const Range& range) { return {range.min, range.max}; }
template <typename T, size_t n>
std::vector<T> Value(const std::array<T, n>& values) {
  return {values.begin(), values.end()};
}
std::vector<double> Value(const std::array<Range, 2>& ranges) {
  return {ranges[0].min, ranges[0].max, ranges[1].min, ranges[1].max};
}
std::vector<double> Value(const std::optional<std::array<double, 2>>& center) {
  return center ? Value(*center) : std::vector<double>();
}

std::vector<Identity> Value(const std::vector<Augmentation>& transforms) {
  return IdentitiesOf(transforms);
}

}  // namespace
}  // namespace augment

std::vector<Identity> IdentitiesOf(const std::vector<Augmentation>& steps) {
  std::vector<Identity> identities;
  identities.reserve(steps.size());
  for (const Augmentation& step : steps) {
    std::visit(
        [&identities]<typename A>(const A& augmentation) {
          Identity& identity = identities.emplace_back(std::string(augment::FieldsOf<A>::kName));
          augment::VisitFields(augmentation, [&identity](const char* name, const auto& field) {
            identity.Add(name, augment::Value(field));
          });
        },
        step);
  }
  return identities;
}

}  // namespace shardfeed
