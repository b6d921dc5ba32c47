// The keys that JSON objects have, the feature that each becomes, and how objects are turned into
// features. json.h says which values become what.

#ifndef SHARDFEED_CONVERT_FEATURES_JSON_SCHEMA_H_
#define SHARDFEED_CONVERT_FEATURES_JSON_SCHEMA_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "convert/features/column.h"
#include "convert/features/feature_choice.h"
#include "shardfeed/examples.h"
#include "simdjson.h"

namespace shardfeed {

// A tree of keys that mirrors how objects nest. First all objects are added, by one thread; then
// any number of threads may call Build.
class JsonSchema {
 public:
  // More different keys than this are taken for data (names of users, say) in the place of keys.
  static constexpr size_t kMaxKeys = 100000;

  // `name_of` writes the places of earlier records into messages. Columns and kinds are chosen by
  // dotted names; a column also stands for the keys of its objects. What is not chosen is not
  // looked at, whatever it holds. Numbers become text where bytes are asked for.
  explicit JsonSchema(std::function<std::string(Place)> name_of, FeatureChoice choice = {});
  ~JsonSchema();
  JsonSchema(JsonSchema&&) noexcept;
  JsonSchema& operator=(JsonSchema&&) noexcept;

  // Learns the keys and kinds of one record, which stands at `place`. DataLoss: it cannot become a
  // record, or does not go with earlier ones; nothing is then learnt of it. The message does not
  // name `place`: the caller does.
  absl::Status Add(simdjson::dom::object object, Place place);

  // Adds the features of an object that Add has seen. FailedPrecondition, with no message fit for
  // users: the object has a key or a kind of value that Add has not seen there.
  absl::Status Build(simdjson::dom::object object, ExampleBuilder& builder) const;

  // Whether some record had a value for the feature `name`.
  bool HasFeature(const std::string& name) const { return column_of_name_.count(name) > 0; }
  // OK unless a chosen column, or a kind that is asked for, is of no key in any record. The message
  // names it; that of a column is an error, that of a kind is something to note.
  absl::Status CheckColumns() const;
  std::vector<std::string> KindsWithoutKey() const;
  // The keys, dotted, that were null in every record.
  std::vector<std::string> KeysWithoutValue() const;

 private:
  struct Column {
    std::string name;
    ColumnKind kind = ColumnKind::kUnknown;  // stays so while there are only empty lists
    bool asked = false;                      // the kind was not inferred
    Place first;                             // place of the first value of known kind
    uint64_t last_record = 0;                // last record that had a value
  };
  struct Key;
  struct Finder;

  absl::StatusOr<Key*> AddKey(Key& parent, std::string_view name);
  absl::Status AddObject(Key& parent, simdjson::dom::object object, Place place);
  absl::Status AddValue(Key& key, simdjson::dom::element value, Place place);
  absl::Status BuildObject(const Key& parent, simdjson::dom::object object,
                           ExampleBuilder& builder) const;

  std::function<std::string(Place)> name_of_;
  FeatureChoice choice_;
  std::vector<std::function<void()>> undo_;  // changes made by the current record
  std::unique_ptr<Key> root_;
  size_t num_keys_ = 0;
  std::vector<Column> columns_;
  std::unordered_map<std::string, size_t> column_of_name_;
  uint64_t record_ = 0;  // counts from 1
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_JSON_SCHEMA_H_
