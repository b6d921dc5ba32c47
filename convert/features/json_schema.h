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
#include "convert/features/dates.h"
#include "convert/features/feature_choice.h"
#include "convert/features/json_dates.h"
#include "convert/features/json_values.h"
#include "convert/input/json_document.h"
#include "shard/schema/schema.h"
#include "shardfeed/examples.h"
#include "simdjson.h"

namespace shardfeed {

// A tree of keys that mirrors the nesting of objects. First one thread adds all objects; then any
// number of threads may call Build.
class JsonSchema {
 public:
  // More different keys than this are taken for data (such as user names) rather than keys.
  static constexpr size_t kMaxKeys = 100000;
  // Each object of a list has a length for each key of the others.
  static constexpr size_t kMaxListedKeys = 1000;

  // `name_of` formats the places of earlier records for messages. Columns and kinds are chosen by
  // dotted names; a chosen key includes the keys of its objects. Values of keys that are not chosen
  // are ignored. Numbers become text if bytes are chosen. `dates` says what a key becomes of which
  // all values are dates.
  explicit JsonSchema(std::function<std::string(Place)> name_of, FeatureChoice choice = {},
                      DatesAs dates = DatesAs::kText);
  ~JsonSchema();
  JsonSchema(JsonSchema&&) noexcept;
  JsonSchema& operator=(JsonSchema&&) noexcept;

  // Learns the keys and kinds of one record, which is at `place`. DataLoss: the object cannot
  // become a record or contradicts earlier ones; nothing is learned from it. The message does not
  // name `place`: the caller adds it.
  absl::Status Add(simdjson::dom::object object, Place place);

  // Adds the features of an object that Add has seen. Thread-safe. FailedPrecondition, with a
  // message not meant for users: the object has a key or a kind of value that Add has not seen
  // there.
  absl::Status Build(simdjson::dom::object object, ExampleBuilder& builder) const;

  // How objects for Add and Build have to be parsed.
  JsonDigits digits() const { return digits_; }

  // Whether any record had a value for the feature `name`, or lists whose lengths it has.
  bool HasFeature(const std::string& name) const {
    return column_of_name_.count(name) > 0 || column_of_lengths_.count(name) > 0;
  }
  // Returns InvalidArgument, naming the key, if no record has a value for a chosen column.
  absl::Status CheckColumns() const;
  // Returns "; did you mean 'NAME'?" if `name` is a likely typo of a key's, otherwise nothing.
  std::string NearestTo(const std::string& name) const;
  // The types of features whose kind is chosen, and which are null in all records.
  FeatureTypes TypesWithoutValues() const;
  // Notes for the user: keys with a chosen kind that no record has, keys that are null in every
  // record, numbers whose digits the features do not keep, and dates.
  std::vector<std::string> Notes() const;

 private:
  struct Key;
  struct Finder;
  class ListBuilder;
  struct Column {
    std::string name;
    const ChosenKind* asked = nullptr;  // nullptr: the kind is inferred
    int lists = 0;                      // lists of objects around the values
    // What the values so far have shown.
    struct Learned {
      ColumnKind kind = ColumnKind::kUnknown;  // kUnknown while there are only empty lists
      Place kind_place;                        // place of the first value of known kind
      int depth = 0;                           // see JsonFacts
      bool depth_known = false;
      Place depth_place;
      uint64_t inexact = 0;  // numbers whose digits a float does not keep
      bool has_bools = false;
      bool has_numbers = false;
      Place bool_place;  // place of the first true or false
      JsonDates dates;
    } learned;
    InexactNumber first_inexact;
    Place inexact_place;
    const Key* last_key = nullptr;  // the last key that had a value, and its record
    uint64_t last_record = 0;
    int num_keys = 0;  // keys that give this name

    // How deep lists are nested, those of objects included.
    int depth() const { return lists + learned.depth; }
  };

  // Visits all keys but the root.
  void ForEachKey(const std::function<void(const Key&)>& visit) const;
  absl::StatusOr<Key*> AddKey(Key& parent, std::string_view name);
  absl::Status AddObject(Key& parent, simdjson::dom::object object, Place place);
  absl::Status AddValue(Key& key, simdjson::dom::element value, Place place);
  // Adds a value or a list, but not of objects.
  absl::Status AddFacts(Key& key, simdjson::dom::element value, Place place);
  absl::Status AddObjects(Key& key, simdjson::dom::array list, Place place);
  absl::Status AddColumn(Key& key);
  absl::Status DropColumn(Key& key);
  absl::Status LearnDepth(Column& column, const JsonFacts& facts, Place place);
  // How a column's values are read, once all objects were added.
  JsonForm FormOf(const Column& column) const;
  absl::Status LearnKind(Column& column, ColumnKind kind, Place place);
  // Call before Column::learned is changed.
  void Remember(const Column& column);

  absl::Status BuildObject(const Key& parent, simdjson::dom::object object,
                           ExampleBuilder& builder) const;

  std::function<std::string(Place)> name_of_;
  FeatureChoice choice_;
  DatesAs dates_;
  JsonDigits digits_;
  std::vector<std::function<void()>> undo_;  // changes made by the current record
  std::unique_ptr<Key> root_;
  size_t num_keys_ = 0;
  size_t num_listed_keys_ = 0;  // keys of objects in lists
  std::vector<Column> columns_;
  std::unordered_map<std::string, size_t> column_of_name_;
  std::unordered_map<std::string, size_t> column_of_lengths_;  // keyed by NAME_lengths
  uint64_t record_ = 0;                                        // counts from 1
  uint64_t object_ = 0;                                        // counts from 1
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_JSON_SCHEMA_H_
