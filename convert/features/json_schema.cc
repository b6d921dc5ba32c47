#include "convert/features/json_schema.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "base/suggestion.h"
#include "convert/input/excerpt.h"
#include "fmt/format.h"

namespace shardfeed {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::key_value_pair;
using simdjson::dom::object;

// A key of the objects at one place in the tree.
struct JsonSchema::Key {
  static constexpr size_t kNone = SIZE_MAX;

  std::string name;          // name in the JSON
  std::string full_name;     // name with the names of the enclosing objects, dotted
  size_t index = 0;          // index among its parent's keys
  size_t column = kNone;     // set after the first value that is not an object
  bool is_object = false;    // set after the first object
  bool takes_values = true;  // whether this key or an enclosing one is chosen
  bool leads_on = true;      // whether its objects may have chosen keys
  Place first;               // place where `column` or `is_object` was first set
  uint64_t last_record = 0;  // last record that had the key

  std::vector<std::unique_ptr<Key>> keys;  // keys in the order in which they first appeared
  std::unordered_map<std::string_view, Key*> key_of_name;
};

// Looks up the keys of one object. Objects tend to repeat the order of their keys, so the key after
// the last one found is tried before the table.
struct JsonSchema::Finder {
  explicit Finder(const Key& key) : parent(key) {}

  Key* Find(std::string_view name) {
    Key* key = nullptr;
    if (next < parent.keys.size() && parent.keys[next]->name == name) {
      key = parent.keys[next].get();
    } else if (const auto it = parent.key_of_name.find(name); it != parent.key_of_name.end()) {
      key = it->second;
    }
    if (key != nullptr) next = key->index + 1;
    return key;
  }

  const Key& parent;
  size_t next = 0;
};

namespace {

absl::Status Defect(std::string_view name, std::string_view what) {
  return absl::DataLossError(fmt::format("{}: {}", Excerpt(name), what));
}

std::string_view KindText(ColumnKind kind) {
  return kind == ColumnKind::kBytes ? "text" : "a number";
}

// Returns the kind of a value, alone or in a list; kUnknown for null, lists and objects. DataLoss:
// a number that no feature can hold.
absl::StatusOr<ColumnKind> KindOfValue(std::string_view name, element value) {
  switch (value.type()) {
    case element_type::STRING:
      return ColumnKind::kBytes;
    case element_type::INT64:
    case element_type::BOOL:
      return ColumnKind::kInt64;
    case element_type::UINT64:
      return Defect(name, fmt::format("the integer {} is outside of int64",
                                      value.get_uint64().value_unsafe()));
    case element_type::DOUBLE: {
      const double number = value.get_double().value_unsafe();
      if (!ToFloat(number)) {
        return Defect(name, fmt::format("the number {} is outside of float32", number));
      }
      return ColumnKind::kFloat;
    }
    case element_type::NULL_VALUE:
    case element_type::ARRAY:
    case element_type::OBJECT:
      break;
  }
  return ColumnKind::kUnknown;
}

absl::StatusOr<ColumnKind> KindOfList(std::string_view name, array list) {
  ColumnKind kind = ColumnKind::kUnknown;
  for (element value : list) {
    absl::StatusOr<ColumnKind> one = KindOfValue(name, value);
    if (!one.ok()) return one;
    if (*one == ColumnKind::kUnknown) {
      const element_type type = value.type();
      return Defect(name, type == element_type::NULL_VALUE
                              ? "null in a list, but features cannot have missing values in lists"
                          : type == element_type::OBJECT
                              ? "a list of objects, which a feature cannot hold"
                              : "a list of lists, which a feature cannot hold; flatten it");
    }
    if (kind != ColumnKind::kUnknown &&
        (kind == ColumnKind::kBytes) != (*one == ColumnKind::kBytes)) {
      return Defect(name, "text and numbers in one list");
    }
    kind = MergedKind(kind, *one);
  }
  return kind;
}

// Calls `visit` with the value, or with each value of a list, until it returns false.
template <typename Visit>
bool ForEachValue(element value, Visit visit) {
  if (value.type() != element_type::ARRAY) return visit(value);
  const simdjson::dom::array list = value.get_array().value_unsafe();
  for (element one : list) {
    if (!visit(one)) return false;
  }
  return true;
}

// Adds the values as a feature of the given kind; returns false if they have another kind.
// `numbers_too`: numbers become text in a bytes feature.
bool BuildFeature(std::string_view name, ColumnKind kind, bool numbers_too, element value,
                  ExampleBuilder& builder) {
  switch (kind) {
    case ColumnKind::kInt64: {
      thread_local std::vector<int64_t> numbers;
      numbers.clear();
      const bool sound = ForEachValue(value, [](element one) {
        if (one.type() == element_type::INT64) {
          numbers.push_back(one.get_int64().value_unsafe());
        } else if (one.type() == element_type::BOOL) {
          numbers.push_back(one.get_bool().value_unsafe() ? 1 : 0);
        } else {
          return false;
        }
        return true;
      });
      if (sound) builder.AddInt64List(name, numbers);
      return sound;
    }
    case ColumnKind::kFloat: {
      thread_local std::vector<float> numbers;
      numbers.clear();
      const bool sound = ForEachValue(value, [](element one) {
        if (one.type() == element_type::DOUBLE) {
          const std::optional<float> number = ToFloat(one.get_double().value_unsafe());
          numbers.push_back(number.value_or(0));
          return number.has_value();
        }
        if (one.type() == element_type::INT64) {
          numbers.push_back(static_cast<float>(one.get_int64().value_unsafe()));
        } else if (one.type() == element_type::BOOL) {
          numbers.push_back(one.get_bool().value_unsafe() ? 1 : 0);
        } else {
          return false;
        }
        return true;
      });
      if (sound) builder.AddFloatList(name, numbers);
      return sound;
    }
    case ColumnKind::kBytes:
    case ColumnKind::kUnknown: {
      thread_local std::vector<std::string_view> texts;
      thread_local std::deque<std::string> numbers;
      texts.clear();
      numbers.clear();
      const bool sound = ForEachValue(value, [numbers_too](element one) {
        if (one.type() == element_type::STRING) {
          texts.push_back(one.get_string().value_unsafe());
          return true;
        }
        if (!numbers_too || one.type() == element_type::NULL_VALUE || one.is_array() ||
            one.is_object()) {
          return false;
        }
        texts.push_back(numbers.emplace_back(simdjson::minify(one)));
        return true;
      });
      if (sound) builder.AddBytesList(name, texts);
      return sound;
    }
  }
  return false;
}

// Checks that the value, or each value of a list, can become a feature of the kind that the user
// chose.
absl::Status CheckAsked(std::string_view name, ColumnKind asked, element value) {
  absl::Status status;
  ForEachValue(value, [&](element one) {
    absl::StatusOr<ColumnKind> kind = asked == ColumnKind::kBytes && one.is_number()
                                          ? ColumnKind::kBytes
                                          : KindOfValue(name, one);
    if (!kind.ok()) {
      status = kind.status();
    } else if (*kind == ColumnKind::kUnknown) {
      status = KindOfList(name, value.get_array().value_unsafe()).status();
    } else if (asked != ColumnKind::kBytes && MergedKind(asked, *kind) != asked) {
      status = Defect(name, fmt::format("expected {1}, as the schema says, got {0}",
                                        Excerpt(simdjson::minify(one)), ColumnKindName(asked)));
    }
    return status.ok();
  });
  return status;
}

}  // namespace

JsonSchema::JsonSchema(std::function<std::string(Place)> name_of, FeatureChoice choice)
    : name_of_(std::move(name_of)), choice_(std::move(choice)), root_(std::make_unique<Key>()) {
  root_->takes_values = choice_.columns.empty();
}
JsonSchema::~JsonSchema() = default;
JsonSchema::JsonSchema(JsonSchema&&) noexcept = default;
JsonSchema& JsonSchema::operator=(JsonSchema&&) noexcept = default;

absl::StatusOr<JsonSchema::Key*> JsonSchema::AddKey(Key& parent, std::string_view name) {
  if (name.empty()) {
    return absl::DataLossError(parent.full_name.empty()
                                   ? "an empty key, which cannot name a feature"
                                   : fmt::format("an empty key in {}, which cannot name a feature",
                                                 Excerpt(parent.full_name)));
  }
  if (num_keys_ == kMaxKeys) {
    return absl::DataLossError(fmt::format(
        "more than {} different keys; if the keys are data, store them as a list of names and a "
        "list of values",
        kMaxKeys));
  }
  ++num_keys_;
  auto key = std::make_unique<Key>();
  key->name = name;
  key->full_name = parent.full_name.empty() ? key->name : parent.full_name + "." + key->name;
  key->index = parent.keys.size();
  key->takes_values = parent.takes_values || choice_.Chooses(key->full_name);
  key->leads_on =
      key->takes_values ||
      std::any_of(choice_.columns.begin(), choice_.columns.end(), [&key](std::string_view column) {
        return column.starts_with(key->full_name + ".");
      });
  Key* const borrowed = key.get();
  parent.keys.push_back(std::move(key));
  parent.key_of_name.emplace(borrowed->name, borrowed);
  undo_.emplace_back([this, &parent, borrowed] {
    parent.key_of_name.erase(borrowed->name);
    parent.keys.pop_back();
    --num_keys_;
  });
  return borrowed;
}

absl::Status JsonSchema::Add(object record, Place place) {
  ++record_;
  undo_.clear();
  absl::Status status = AddObject(*root_, record, place);
  if (status.ok()) return status;
  for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) (*undo)();
  return status;
}

absl::Status JsonSchema::AddObject(Key& parent, object fields, Place place) {
  Finder finder(parent);
  for (key_value_pair field : fields) {
    Key* key = finder.Find(field.key);
    if (key == nullptr) {
      absl::StatusOr<Key*> added = AddKey(parent, field.key);
      if (!added.ok()) return added.status();
      key = *added;
      finder.next = key->index + 1;
    }
    if (key->last_record == record_) {
      return absl::DataLossError(
          fmt::format("the key {} appears twice in one object", Excerpt(key->full_name)));
    }
    key->last_record = record_;
    if (!key->leads_on) continue;
    if (absl::Status status = AddValue(*key, field.value, place); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status JsonSchema::AddValue(Key& key, element value, Place place) {
  const element_type type = value.type();
  if (type == element_type::NULL_VALUE) return absl::OkStatus();
  const bool is_object = type == element_type::OBJECT;
  if (!is_object && !key.takes_values) return absl::OkStatus();
  if (!key.is_object && key.column == Key::kNone) {
    undo_.emplace_back([&key] {
      key.is_object = false;
      key.column = Key::kNone;
    });
    key.first = place;
    if (is_object) {
      key.is_object = true;
    } else {
      const auto [it, fresh] = column_of_name_.emplace(key.full_name, columns_.size());
      if (fresh) {
        Column& added = columns_.emplace_back();
        added.name = key.full_name;
        const std::optional<ColumnKind> asked = choice_.KindOf(added.name);
        added.asked = asked.has_value();
        added.kind = asked.value_or(ColumnKind::kUnknown);
        undo_.emplace_back([this, name = key.full_name] {
          column_of_name_.erase(name);
          columns_.pop_back();
        });
      }
      key.column = it->second;
    }
  }
  if (is_object != key.is_object) {
    return Defect(key.full_name,
                  fmt::format("{} here, but {} at {}", is_object ? "an object" : "a value or list",
                              is_object ? "a value or list" : "an object", name_of_(key.first)));
  }
  if (is_object) return AddObject(key, value.get_object().value_unsafe(), place);

  if (columns_[key.column].asked) {
    absl::Status status = CheckAsked(key.full_name, columns_[key.column].kind, value);
    if (!status.ok()) return status;
  }
  absl::StatusOr<ColumnKind> kind =
      columns_[key.column].asked    ? columns_[key.column].kind
      : type == element_type::ARRAY ? KindOfList(key.full_name, value.get_array().value_unsafe())
                                    : KindOfValue(key.full_name, value);
  if (!kind.ok()) return kind.status();
  Column& column = columns_[key.column];
  if (column.last_record == record_) {
    return absl::DataLossError(
        fmt::format("two keys give the feature name {}: one with a dot in it, one in an object",
                    Excerpt(column.name)));
  }
  column.last_record = record_;
  if (*kind == ColumnKind::kUnknown || column.asked) return absl::OkStatus();  // an empty list
  const ColumnKind merged = MergedKind(column.kind, *kind);
  if (merged != column.kind) {
    undo_.emplace_back(
        [this, index = key.column, before = column.kind] { columns_[index].kind = before; });
  }
  if (column.kind == ColumnKind::kUnknown) {
    column.first = place;
  } else if ((column.kind == ColumnKind::kBytes) != (*kind == ColumnKind::kBytes)) {
    return Defect(column.name, fmt::format("{} here, but {} at {}", KindText(*kind),
                                           KindText(column.kind), name_of_(column.first)));
  }
  column.kind = merged;
  return absl::OkStatus();
}

absl::Status JsonSchema::Build(object record, ExampleBuilder& builder) const {
  return BuildObject(*root_, record, builder);
}

absl::Status JsonSchema::BuildObject(const Key& parent, object fields,
                                     ExampleBuilder& builder) const {
  Finder finder(parent);
  for (key_value_pair field : fields) {
    const Key* key = finder.Find(field.key);
    if (key == nullptr) return absl::FailedPreconditionError("unknown key");
    const element_type type = field.value.type();
    if (!key->leads_on || type == element_type::NULL_VALUE) continue;
    if (type != element_type::OBJECT && !key->takes_values) continue;
    if (type == element_type::OBJECT) {
      absl::Status status = BuildObject(*key, field.value.get_object().value_unsafe(), builder);
      if (!status.ok()) return status;
      continue;
    }
    if (key->column == Key::kNone) return absl::FailedPreconditionError("unknown value");
    const Column& column = columns_[key->column];
    if (!BuildFeature(column.name, column.kind, column.asked, field.value, builder)) {
      return absl::FailedPreconditionError("another kind of value");
    }
  }
  return absl::OkStatus();
}

absl::Status JsonSchema::CheckColumns() const {
  for (const std::string& wanted : choice_.columns) {
    if (std::none_of(columns_.begin(), columns_.end(), [&wanted](const Column& column) {
          return column.name == wanted || column.name.starts_with(wanted + ".");
        })) {
      return absl::InvalidArgumentError(fmt::format("no record has a value for the key {}{}",
                                                    Excerpt(wanted), NearestTo(wanted)));
    }
  }
  return absl::OkStatus();
}

std::string JsonSchema::NearestTo(const std::string& name) const {
  // Keys that are not chosen have no column, and may be what is meant.
  std::vector<std::string> names;
  std::vector<const Key*> open = {root_.get()};
  while (!open.empty()) {
    const Key* key = open.back();
    open.pop_back();
    for (const std::unique_ptr<Key>& child : key->keys) {
      names.push_back(child->full_name);
      open.push_back(child.get());
    }
  }
  return DidYouMean(name, names);
}

std::vector<std::string> JsonSchema::KindsWithoutKey() const {
  std::vector<std::string> names;
  for (const auto& [name, kind] : choice_.kinds) {
    if (!HasFeature(name)) names.push_back(name);
  }
  return names;
}

std::vector<std::string> JsonSchema::KeysWithoutValue() const {
  std::vector<std::string> names;
  std::vector<const Key*> open = {root_.get()};
  while (!open.empty()) {
    const Key* key = open.back();
    open.pop_back();
    for (const std::unique_ptr<Key>& child : key->keys) {
      if (child->is_object) {
        open.push_back(child.get());
      } else if (child->column == Key::kNone && child->takes_values) {
        names.push_back(child->full_name);
      }
    }
  }
  return names;
}

}  // namespace shardfeed
