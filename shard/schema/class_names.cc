#include "shard/schema/class_names.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/utf8.h"
#include "fmt/format.h"
#include "io/bounded_json.h"
#include "nlohmann/json.hpp"

namespace shardfeed {
namespace {

bool CountFromZero(const ClassNames& classes) {
  return !classes.empty() && classes.begin()->first == 0 &&
         static_cast<uint64_t>(classes.rbegin()->first) == classes.size() - 1;
}

// Reads the classes of one feature.
absl::Status FromJson(const nlohmann::json& entry, ClassNames* classes) {
  JsonMembers members;
  const std::vector<std::string> names = members.Texts(entry, "names");
  if (names.empty()) members.Fail("\"names\" is empty");
  std::vector<int64_t> numbers;
  if (entry.contains("numbers")) {
    for (const nlohmann::json& number : members.Array(entry, "numbers")) {
      const bool fits = number.is_number_unsigned() && number.get<uint64_t>() <= INT64_MAX;
      if (!fits) members.Fail(fmt::format("{} is not the number of a class", number.dump()));
      numbers.push_back(fits ? number.get<int64_t>() : 0);
    }
    if (numbers.size() != names.size()) {
      members.Fail(fmt::format("there are {} names and {} numbers", names.size(), numbers.size()));
    }
  }
  std::unordered_set<std::string_view> seen;
  for (size_t i = 0; i < names.size() && members.status().ok(); ++i) {
    const int64_t number = numbers.empty() ? static_cast<int64_t>(i) : numbers[i];
    if (names[i].empty()) members.Fail(fmt::format("class {} has an empty name", number));
    if (!seen.insert(names[i]).second) {
      members.Fail(fmt::format("two classes are named {}", QuotedName(names[i])));
    }
    if (!classes->emplace(number, names[i]).second) {
      members.Fail(fmt::format("two classes have the number {}", number));
    }
  }
  return members.status();
}

}  // namespace

const ClassNames* ClassesOfImages(const FeatureClasses& classes) {
  for (std::string_view feature : {kClassLabel, kObjectLabel}) {
    if (const auto it = classes.find(feature); it != classes.end()) return &it->second;
  }
  return nullptr;
}

std::string QuotedName(std::string_view name) {
  constexpr size_t kShown = 60;
  const auto replace = nlohmann::json::error_handler_t::replace;
  return nlohmann::json(name.substr(0, kShown)).dump(-1, ' ', false, replace) +
         (name.size() > kShown ? "..." : "");
}

ClassNames ClassesInOrder(const std::vector<std::string>& names) {
  ClassNames classes;
  for (size_t i = 0; i < names.size(); ++i) {
    classes.emplace_hint(classes.end(), static_cast<int64_t>(i), names[i]);
  }
  return classes;
}

std::vector<std::string> NamesInOrder(const ClassNames& classes) {
  std::vector<std::string> names;
  if (!CountFromZero(classes)) return names;
  for (const auto& [number, name] : classes) names.push_back(name);
  return names;
}

bool AreClassNames(const ClassNames& classes) {
  std::unordered_set<std::string_view> seen;
  for (const auto& [number, name] : classes) {
    if (number < 0 || name.empty() || !seen.insert(name).second) return false;
    if (!IsUtf8(name)) return false;
  }
  return !classes.empty();
}

nlohmann::json ClassesToJson(const FeatureClasses& classes) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [feature, of_feature] : classes) {
    nlohmann::json& entry = json[feature];
    nlohmann::json& names = entry["names"] = nlohmann::json::array();
    for (const auto& [number, name] : of_feature) names.push_back(name);
    if (CountFromZero(of_feature)) continue;
    nlohmann::json& numbers = entry["numbers"] = nlohmann::json::array();
    for (const auto& [number, name] : of_feature) numbers.push_back(number);
  }
  return json;
}

absl::Status ClassesFromJson(const nlohmann::json& json, FeatureClasses* classes) {
  for (const auto& [feature, entry] : json.items()) {
    absl::Status status = entry.is_object() ? FromJson(entry, &(*classes)[feature])
                                            : absl::DataLossError("expected an object");
    if (status.ok()) continue;
    return absl::DataLossError(
        fmt::format("the classes of {}: {}", QuotedName(feature), std::string(status.message())));
  }
  return absl::OkStatus();
}

std::string Contradiction(const ClassNames& a, std::string_view of_a, const ClassNames& b,
                          std::string_view of_b) {
  std::unordered_map<std::string_view, int64_t> number_in_b;
  for (const auto& [number, name] : b) number_in_b.emplace(name, number);
  for (const auto& [number, name] : a) {
    const auto same_number = b.find(number);
    if (same_number != b.end() && same_number->second != name) {
      return fmt::format("class {} is {} in {} and {} in {}", number, QuotedName(name), of_a,
                         QuotedName(same_number->second), of_b);
    }
    const auto same_name = number_in_b.find(name);
    if (same_name != number_in_b.end() && same_name->second != number) {
      return fmt::format("{} is class {} in {} and {} in {}", QuotedName(name), number, of_a,
                         same_name->second, of_b);
    }
  }
  return "";
}

}  // namespace shardfeed
