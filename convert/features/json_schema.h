// The keys of JSON objects, the feature that each becomes, and the conversion of objects to
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

// A tree of keys that mirrors the nesting of objects. First one thread adds all objects; then any
// number of threads may call Build.
class JsonSchema {
 public:
  // More different keys than this are taken for data (such as user names) rather than keys.
  static constexpr size_t kMaxKeys = 100000;

  // `name_of` formats the places of earlier records for messages. Columns and kinds are chosen by
  // dotted names; a chosen key includes the keys of its objects. Values of keys that are not chosen
  // are ignored. Numbers become text if bytes are chosen.
  explicit JsonSchema(std::function<std::string(Place)> name_of, FeatureChoice choice = {});
  ~JsonSchema();
  JsonSchema(JsonSchema&&) noexcept;
  JsonSchema& operator=(JsonSchema&&) noexcept;

  // Learns the keys and kinds of one record, which is at `place`. DataLoss: the object cannot
  // become a record or contradicts earlier ones; nothing is learned from it. The message does not
  // name `place`: the caller adds it.
  absl::Status Add(simdjson::dom::object object, Place place);

  // Adds the features of an object that Add has seen. FailedPrecondition, with a message not meant
  // for users: the object has a key or a kind of value that Add has not seen there.
  absl::Status Build(simdjson::dom::object object, ExampleBuilder& builder) const;

  // Whether any record had a value for the feature `name`.
  bool HasFeature(const std::string& name) const { return column_of_name_.count(name) > 0; }
  // Returns InvalidArgument, naming the key, if no record has a value for a chosen column.
  absl::Status CheckColumns() const;
  // Returns "; did you mean 'NAME'?" if `name` is a likely typo of a key's, otherwise nothing.
  std::string NearestTo(const std::string& name) const;
  // The keys with a chosen kind that no record has, which are worth a note.
  std::vector<std::string> KindsWithoutKey() const;
  // The keys, dotted, that were null in every record.
  std::vector<std::string> KeysWithoutValue() const;

 private:
  struct Column {
    std::string name;
    ColumnKind kind = ColumnKind::kUnknown;  // kUnknown while there are only empty lists
    bool asked = false;                      // the user chose the kind
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
