// A key of JSON objects, for the files of json_schema.h alone.

#ifndef SHARDFEED_CONVERT_FEATURES_JSON_KEY_H_
#define SHARDFEED_CONVERT_FEATURES_JSON_KEY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "convert/features/json_schema.h"

namespace shardfeed {

// A key of the objects at one place in the tree.
struct JsonSchema::Key {
  static constexpr size_t kNone = SIZE_MAX;

  enum class Shape {
    kUnknown,
    kEmpty,  // only empty lists so far, of values or objects
    kValues,
    kObject,
    kObjects,  // lists of objects
  };

  std::string name;          // name in the JSON
  std::string full_name;     // name with the names of the enclosing objects, dotted
  size_t index = 0;          // index among its parent's keys
  size_t number = 0;         // number among all keys
  int lists = 0;             // lists of objects around its values
  size_t column = kNone;     // set after the first value or list, but not of objects
  bool takes_values = true;  // whether this key or an enclosing one is chosen
  bool leads_on = true;      // whether its objects may have chosen keys
  Shape shape = Shape::kUnknown;
  Place first;               // place where `shape` was set
  uint64_t last_object = 0;  // last object that had the key

  std::vector<std::unique_ptr<Key>> keys;  // keys in the order in which they first appeared
  std::unordered_map<std::string_view, Key*> key_of_name;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_JSON_KEY_H_
