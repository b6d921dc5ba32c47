// The names of classes: which number of an integer feature means what.

#ifndef SHARDFEED_SHARD_SCHEMA_CLASS_NAMES_H_
#define SHARDFEED_SHARD_SCHEMA_CLASS_NAMES_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"

namespace shardfeed {

// The feature with an image's class.
inline constexpr std::string_view kClassLabel = "image/class/label";
// The feature with the classes of the objects in an image.
inline constexpr std::string_view kObjectLabel = "image/object/class/label";

// The names of one feature's classes by their numbers, which are not negative. Names are UTF-8, not
// empty and different.
using ClassNames = std::map<int64_t, std::string>;
// By feature.
using FeatureClasses = std::map<std::string, ClassNames, std::less<>>;

// Returns the classes of images or, if they have none, of the objects in them; null without either.
const ClassNames* ClassesOfImages(const FeatureClasses& classes);

// Returns the beginning of a name in quotes, on one line, for messages.
std::string QuotedName(std::string_view name);

// The classes 0, 1 and so on.
ClassNames ClassesInOrder(const std::vector<std::string>& names);
// The names of classes 0, 1 and so on; empty if numbers are missing.
std::vector<std::string> NamesInOrder(const ClassNames& classes);

// Whether a manifest can keep them: there are some, and their numbers and names are as ClassNames
// says. For names that are read from a file.
bool AreClassNames(const ClassNames& classes);

// Returns {"FEATURE": {"names": ["cat", "dog"]}}; docs/manifest.md explains the keys.
nlohmann::json ClassesToJson(const FeatureClasses& classes);
// DataLoss: ClassesToJson cannot have written `json`.
absl::Status ClassesFromJson(const nlohmann::json& json, FeatureClasses* classes);

// Describes the first class in which `b` contradicts `a`: `class 1 is "dog" in A and "bird" in B`,
// or the same name with two numbers. Empty if there is none; a class that only one of them has
// contradicts nothing.
std::string Contradiction(const ClassNames& a, std::string_view of_a, const ClassNames& b,
                          std::string_view of_b);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SCHEMA_CLASS_NAMES_H_
