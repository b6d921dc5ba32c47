#include "convert/features/json_schema.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/excerpt.h"
#include "base/suggestion.h"
#include "convert/features/json_key.h"
#include "convert/input/name_list.h"
#include "fmt/format.h"

namespace shardfeed {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::key_value_pair;
using simdjson::dom::object;

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

// Builds the features of the keys of a list of objects.
class JsonSchema::ListBuilder {
 public:
  ListBuilder(const JsonSchema& schema, const Key& key) : columns_(schema.columns_), key_(key) {
    if (features_.size() < columns_.size()) features_.resize(columns_.size());
    if (last_object_of_.size() < schema.num_keys_) last_object_of_.resize(schema.num_keys_);
    ForEachColumn(key, [this, &schema](size_t column) {
      if (features_[column] == nullptr) features_[column] = std::make_unique<NestedJsonFeature>();
      features_[column]->Start(schema.FormOf(columns_[column]), columns_[column].depth());
    });
  }

  // Returns false if Add has not seen such objects.
  bool Build(array list, ExampleBuilder& builder) {
    if (!AddList(key_, list, 0)) return false;
    ForEachColumn(
        key_, [&](size_t column) { features_[column]->Finish(columns_[column].name, builder); });
    return true;
  }

 private:
  // Calls `visit` with the columns of the key and of the keys of its objects.
  template <typename Visit>
  static void ForEachColumn(const Key& key, const Visit& visit) {
    if (key.column != Key::kNone) visit(key.column);
    for (const std::unique_ptr<Key>& child : key.keys) ForEachColumn(*child, visit);
  }
  void AddLength(const Key& key, int level, uint64_t length) {
    ForEachColumn(key, [&](size_t column) { features_[column]->AddLength(level, length); });
  }

  // Adds a list of objects that is in `level` others.
  bool AddList(const Key& key, array list, int level) {
    uint64_t length = 0;
    for (element one : list) {
      object fields;
      if (one.get(fields) != simdjson::SUCCESS || !AddObject(key, fields, level + 1)) return false;
      ++length;
    }
    AddLength(key, level, length);
    return true;
  }

  bool AddObject(const Key& parent, object fields, int level) {
    Finder finder(parent);
    const uint64_t this_object = ++last_object_;
    for (key_value_pair field : fields) {
      const Key* key = finder.Find(field.key);
      if (key == nullptr) return false;
      const element_type type = field.value.type();
      if (!key->leads_on || type == element_type::NULL_VALUE) continue;
      if (type == element_type::OBJECT) {
        if (key->shape != Key::Shape::kObject) return false;
        if (!AddObject(*key, field.value.get_object().value_unsafe(), level)) return false;
      } else if (type == element_type::ARRAY && key->shape == Key::Shape::kObjects) {
        if (!AddList(*key, field.value.get_array().value_unsafe(), level)) return false;
      } else if (!key->takes_values) {
        continue;
      } else if (key->column == Key::kNone || !features_[key->column]->Add(field.value, level)) {
        return false;
      }
      last_object_of_[key->number] = this_object;
    }
    for (const std::unique_ptr<Key>& key : parent.keys) {
      if (last_object_of_[key->number] != this_object) AddLength(*key, level, 0);
    }
    return true;
  }

  // Reused for all lists of a thread, by the number of a column and of a key.
  static thread_local std::vector<std::unique_ptr<NestedJsonFeature>> features_;
  static thread_local std::vector<uint64_t> last_object_of_;
  static thread_local uint64_t last_object_;

  const std::vector<Column>& columns_;
  const Key& key_;
};

thread_local std::vector<std::unique_ptr<NestedJsonFeature>> JsonSchema::ListBuilder::features_;
thread_local std::vector<uint64_t> JsonSchema::ListBuilder::last_object_of_;
thread_local uint64_t JsonSchema::ListBuilder::last_object_ = 0;

namespace {

absl::Status Defect(std::string_view name, std::string_view what) {
  return absl::DataLossError(fmt::format("{}: {}", Excerpt(name), what));
}

absl::Status TwoKeys(std::string_view name) {
  return absl::DataLossError(fmt::format(
      "two keys give the feature name {}: one with a dot in it, one in an object", Excerpt(name)));
}

std::string_view KindText(ColumnKind kind) {
  return kind == ColumnKind::kBytes ? "text" : "a number";
}

std::string DepthText(int depth) {
  if (depth == 1) return "a value or a list of values";
  return depth == 2 ? "a list of lists" : fmt::format("lists nested {} deep", depth);
}

}  // namespace

JsonSchema::JsonSchema(std::function<std::string(Place)> name_of, FeatureChoice choice,
                       DatesAs dates)
    : name_of_(std::move(name_of)),
      choice_(std::move(choice)),
      dates_(dates),
      root_(std::make_unique<Key>()) {
  root_->takes_values = choice_.columns.empty();
  root_->shape = Key::Shape::kObject;
  const bool texts = std::any_of(choice_.kinds.begin(), choice_.kinds.end(), [](const auto& one) {
    return one.second.kind == ColumnKind::kBytes;
  });
  digits_ = texts ? JsonDigits::kOwn : JsonDigits::kOfDoubles;
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
  const int lists = parent.lists + (parent.shape == Key::Shape::kObjects ? 1 : 0);
  if (num_keys_ == kMaxKeys || (lists > 0 && num_listed_keys_ == kMaxListedKeys)) {
    return absl::DataLossError(fmt::format(
        "more than {} different keys{}; if the keys are data, store them as a list of names and a "
        "list of values",
        lists > 0 ? kMaxListedKeys : kMaxKeys, lists > 0 ? " in lists of objects" : ""));
  }
  auto key = std::make_unique<Key>();
  key->name = name;
  key->full_name = parent.full_name.empty() ? key->name : parent.full_name + "." + key->name;
  key->index = parent.keys.size();
  key->number = num_keys_;
  key->lists = lists;
  key->takes_values = parent.takes_values || choice_.Chooses(key->full_name);
  key->leads_on =
      key->takes_values ||
      std::any_of(choice_.columns.begin(), choice_.columns.end(), [&key](std::string_view column) {
        return column.starts_with(key->full_name + ".");
      });
  Key* const borrowed = key.get();
  parent.keys.push_back(std::move(key));
  parent.key_of_name.emplace(borrowed->name, borrowed);
  ++num_keys_;
  num_listed_keys_ += lists > 0 ? 1 : 0;
  undo_.emplace_back([this, &parent, borrowed] {
    --num_keys_;
    num_listed_keys_ -= borrowed->lists > 0 ? 1 : 0;
    parent.key_of_name.erase(borrowed->name);
    parent.keys.pop_back();
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
  const uint64_t this_object = ++object_;
  for (key_value_pair field : fields) {
    Key* key = finder.Find(field.key);
    if (key == nullptr) {
      absl::StatusOr<Key*> added = AddKey(parent, field.key);
      if (!added.ok()) return added.status();
      key = *added;
      finder.next = key->index + 1;
    }
    if (key->last_object == this_object) {
      return absl::DataLossError(
          fmt::format("the key {} appears twice in one object", Excerpt(key->full_name)));
    }
    key->last_object = this_object;
    if (!key->leads_on) continue;
    if (absl::Status status = AddValue(*key, field.value, place); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status JsonSchema::AddValue(Key& key, element value, Place place) {
  using Shape = Key::Shape;
  const element_type type = value.type();
  if (type == element_type::NULL_VALUE) return absl::OkStatus();
  Shape shape = type == element_type::OBJECT ? Shape::kObject : Shape::kValues;
  if (type == element_type::ARRAY) {
    const array list = value.get_array().value_unsafe();
    if (list.begin() == list.end()) {
      shape = Shape::kEmpty;
    } else if ((*list.begin()).type() == element_type::OBJECT) {
      shape = Shape::kObjects;
    }
  }
  if (!key.takes_values && (shape == Shape::kValues || shape == Shape::kEmpty)) {
    return absl::OkStatus();
  }
  if (shape != key.shape) {
    const bool was_empty = key.shape == Shape::kEmpty && shape != Shape::kObject;
    if (key.shape == Shape::kUnknown || was_empty) {
      undo_.emplace_back([&key, shape = key.shape, first = key.first] {
        key.shape = shape;
        key.first = first;
      });
      if (was_empty && shape == Shape::kObjects) {
        if (absl::Status status = DropColumn(key); !status.ok()) return status;
      }
      key.shape = shape;
      key.first = place;
    } else if (shape != Shape::kEmpty || key.shape == Shape::kObject) {
      const auto text = [](Shape one) {
        return one == Shape::kObject    ? "an object"
               : one == Shape::kObjects ? "a list of objects"
                                        : "a value or list";
      };
      return Defect(key.full_name, fmt::format("{} here, but {} at {}", text(shape),
                                               text(key.shape), name_of_(key.first)));
    }
  }
  if (type == element_type::OBJECT) {
    return AddObject(key, value.get_object().value_unsafe(), place);
  }
  if (key.shape == Shape::kObjects) {
    return AddObjects(key, value.get_array().value_unsafe(), place);
  }
  return AddFacts(key, value, place);
}

absl::Status JsonSchema::AddObjects(Key& key, array list, Place place) {
  if (key.lists + 1 >= kMaxJsonLists) {
    return Defect(key.full_name, fmt::format("lists are nested more than {} deep", kMaxJsonLists));
  }
  for (element one : list) {
    object fields;
    if (one.get(fields) != simdjson::SUCCESS) {
      return Defect(key.full_name, one.is_null() ? "null in a list of objects"
                                                 : "values or lists in a list of objects");
    }
    if (absl::Status status = AddObject(key, fields, place); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status JsonSchema::AddColumn(Key& key) {
  if (const auto it = column_of_lengths_.find(key.full_name); it != column_of_lengths_.end()) {
    return Defect(key.full_name,
                  fmt::format("the lengths of the lists in {} have this feature name, too; rename "
                              "the key",
                              Excerpt(columns_[it->second].name)));
  }
  const auto [it, fresh] = column_of_name_.emplace(key.full_name, columns_.size());
  if (fresh) {
    Column& added = columns_.emplace_back();
    added.name = key.full_name;
    added.lists = key.lists;
    added.asked = choice_.KindOf(added.name);
    added.learned.kind = added.asked != nullptr ? added.asked->kind : ColumnKind::kUnknown;
    undo_.emplace_back([this, name = key.full_name] {
      column_of_name_.erase(name);
      columns_.pop_back();
    });
  } else if (key.lists > 0 || columns_[it->second].lists > 0) {
    return TwoKeys(key.full_name);
  }
  key.column = it->second;
  ++columns_[key.column].num_keys;
  undo_.emplace_back([this, &key] {
    --columns_[key.column].num_keys;
    key.column = Key::kNone;
  });
  return absl::OkStatus();
}

// Its lists turn out to be lists of objects: only the keys of these have columns.
absl::Status JsonSchema::DropColumn(Key& key) {
  if (key.column == Key::kNone) return absl::OkStatus();
  if (columns_[key.column].num_keys > 1) return TwoKeys(key.full_name);
  const size_t column = std::exchange(key.column, Key::kNone);
  auto name = column_of_name_.extract(key.full_name);
  std::vector<std::string> lengths;
  for (const auto& [of_lengths, owner] : column_of_lengths_) {
    if (owner == column) lengths.push_back(of_lengths);
  }
  for (const std::string& of_lengths : lengths) column_of_lengths_.erase(of_lengths);
  undo_.emplace_back([this, &key, column, lengths] {
    key.column = column;
    column_of_name_.emplace(key.full_name, column);
    for (const std::string& of_lengths : lengths) column_of_lengths_.emplace(of_lengths, column);
  });
  return absl::OkStatus();
}

void JsonSchema::Remember(const Column& column) {
  undo_.emplace_back([this, index = &column - columns_.data(), before = column.learned] {
    columns_[index].learned = before;
  });
}

absl::Status JsonSchema::AddFacts(Key& key, element value, Place place) {
  if (key.column == Key::kNone) {
    if (absl::Status status = AddColumn(key); !status.ok()) return status;
  }
  Column& column = columns_[key.column];
  if (column.last_record == record_ && column.last_key != &key) return TwoKeys(column.name);
  column.last_record = record_;
  column.last_key = &key;
  if (column.asked == nullptr && column.learned.depth == 1 && column.learned.depth_known &&
      (dates_ == DatesAs::kText || column.learned.kind != ColumnKind::kBytes) &&
      (value.type() == element_type::BOOL
           ? column.learned.has_bools
           : column.learned.has_numbers || column.learned.kind == ColumnKind::kBytes) &&
      IsPlainJson(value, column.learned.kind)) {
    return absl::OkStatus();
  }
  JsonFacts facts;
  absl::Status status = FindJsonFacts(key.full_name, column.asked, dates_, value, &facts);
  if (!status.ok()) return status;
  if (facts.depth != column.learned.depth || facts.has_values != column.learned.depth_known) {
    if (status = LearnDepth(column, facts, place); !status.ok()) return status;
  }
  if ((facts.has_bools && !column.learned.has_bools) ||
      (facts.has_numbers && !column.learned.has_numbers)) {
    Remember(column);
    if (facts.has_bools && !column.learned.has_bools) column.learned.bool_place = place;
    column.learned.has_bools |= facts.has_bools;
    column.learned.has_numbers |= facts.has_numbers;
  }
  if (facts.inexact > 0) {
    Remember(column);
    if (column.learned.inexact == 0) {
      column.first_inexact = std::move(facts.first_inexact);
      column.inexact_place = place;
    }
    column.learned.inexact += facts.inexact;
  }
  if (facts.dates.any()) {
    Remember(column);
    column.learned.dates.Add(facts.dates, place);
  }
  if (facts.kind == column.learned.kind || facts.kind == ColumnKind::kUnknown ||
      column.asked != nullptr) {
    return absl::OkStatus();
  }
  return LearnKind(column, facts.kind, place);
}

JsonForm JsonSchema::FormOf(const Column& column) const {
  const bool are_dates = column.asked == nullptr && column.learned.kind == ColumnKind::kBytes &&
                         column.learned.dates.AllFit(dates_);
  return {.kind = are_dates ? ColumnKind::kInt64 : column.learned.kind,
          .numbers_too = column.asked != nullptr,
          .dates = dates_};
}

absl::Status JsonSchema::LearnKind(Column& column, ColumnKind kind, Place place) {
  Column::Learned& learned = column.learned;
  const ColumnKind merged = MergedKind(learned.kind, kind);
  if (merged == learned.kind && (merged == ColumnKind::kBytes) == (kind == ColumnKind::kBytes)) {
    return absl::OkStatus();
  }
  if (learned.kind != ColumnKind::kUnknown &&
      (learned.kind == ColumnKind::kBytes) != (kind == ColumnKind::kBytes)) {
    return Defect(column.name, fmt::format("{} here, but {} at {}", KindText(kind),
                                           KindText(learned.kind), name_of_(learned.kind_place)));
  }
  Remember(column);
  if (learned.kind == ColumnKind::kUnknown) learned.kind_place = place;
  learned.kind = merged;
  return absl::OkStatus();
}

absl::Status JsonSchema::LearnDepth(Column& column, const JsonFacts& facts, Place place) {
  Column::Learned& learned = column.learned;
  if (learned.depth_known ? facts.has_values || facts.depth > learned.depth
                          : facts.has_values && facts.depth < learned.depth) {
    return Defect(column.name,
                  fmt::format("{} here, but {} at {}", DepthText(facts.depth),
                              DepthText(learned.depth), name_of_(learned.depth_place)));
  }
  if (learned.depth_known || (!facts.has_values && facts.depth <= learned.depth)) {
    return absl::OkStatus();
  }
  Remember(column);
  learned.depth_known = facts.has_values;
  learned.depth_place = place;
  learned.depth = facts.depth;
  if (column.depth() > kMaxJsonLists) {
    return Defect(column.name, fmt::format("lists are nested more than {} deep", kMaxJsonLists));
  }
  std::string lengths = column.name;
  for (int level = 1; level < column.depth(); ++level) {
    lengths += kLengthsSuffix;
    const auto [it, fresh] =
        column_of_lengths_.emplace(lengths, static_cast<size_t>(&column - columns_.data()));
    if (!fresh) continue;
    undo_.emplace_back([this, lengths] { column_of_lengths_.erase(lengths); });
    if (column_of_name_.count(lengths) > 0) {
      return Defect(lengths, fmt::format("the lengths of the lists in {} have this feature name, "
                                         "too; rename the key",
                                         Excerpt(column.name)));
    }
    const ChosenKind* const asked = choice_.KindOf(lengths);
    if (asked != nullptr && asked->kind != ColumnKind::kInt64) {
      return Defect(lengths, fmt::format("lengths of lists are int64, but {} has another kind",
                                         asked->Origin()));
    }
  }
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
    if (type == element_type::OBJECT) {
      if (key->shape != Key::Shape::kObject) {
        return absl::FailedPreconditionError("an unknown object");
      }
      absl::Status status = BuildObject(*key, field.value.get_object().value_unsafe(), builder);
      if (!status.ok()) return status;
      continue;
    }
    if (type == element_type::ARRAY && key->shape == Key::Shape::kObjects) {
      if (!ListBuilder(*this, *key).Build(field.value.get_array().value_unsafe(), builder)) {
        return absl::FailedPreconditionError("another list of objects");
      }
      continue;
    }
    if (!key->takes_values) continue;
    if (key->column == Key::kNone) return absl::FailedPreconditionError("unknown value");
    const Column& column = columns_[key->column];
    if (column.depth() > 1) {
      thread_local NestedJsonFeature feature;
      feature.Start(FormOf(column), column.depth());
      if (!feature.Add(field.value, 0)) {
        return absl::FailedPreconditionError("another kind of value");
      }
      feature.Finish(column.name, builder);
    } else if (!AddJsonFeature(column.name, FormOf(column), field.value, builder)) {
      return absl::FailedPreconditionError("another kind of value");
    }
  }
  return absl::OkStatus();
}

absl::Status JsonSchema::CheckColumns() const {
  for (const std::string& wanted : choice_.columns) {
    if (std::none_of(column_of_name_.begin(), column_of_name_.end(), [&wanted](const auto& one) {
          return one.first == wanted || one.first.starts_with(wanted + ".");
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
  ForEachKey([&names](const Key& key) { names.push_back(key.full_name); });
  return DidYouMean(name, names);
}

void JsonSchema::ForEachKey(const std::function<void(const Key&)>& visit) const {
  std::vector<const Key*> open = {root_.get()};
  while (!open.empty()) {
    const Key* key = open.back();
    open.pop_back();
    for (const std::unique_ptr<Key>& child : key->keys) {
      visit(*child);
      open.push_back(child.get());
    }
  }
}

}  // namespace shardfeed
