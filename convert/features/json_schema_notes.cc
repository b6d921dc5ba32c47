#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/excerpt.h"
#include "convert/features/json_key.h"
#include "convert/features/json_schema.h"
#include "convert/input/name_list.h"
#include "fmt/format.h"

namespace shardfeed {

FeatureTypes JsonSchema::TypesWithoutValues() const {
  FeatureTypes types;
  ForEachKey([&](const Key& key) {
    const ChosenKind* const chosen = choice_.KindOf(key.full_name);
    if (key.shape != Key::Shape::kUnknown || !key.takes_values || chosen == nullptr) return;
    types[key.full_name] = {.dtype = std::string(DtypeOf(chosen->kind)), .shape = {}};
  });
  return types;
}

std::vector<std::string> JsonSchema::Notes() const {
  std::vector<std::string> notes;
  NameList nulls;
  NameList empty;
  ForEachKey([&](const Key& key) {
    if (!key.takes_values) return;
    if (key.shape == Key::Shape::kUnknown) nulls.Add(Excerpt(key.full_name));
    const bool objects = key.shape == Key::Shape::kObject || key.shape == Key::Shape::kObjects;
    if (objects && key.keys.empty()) empty.Add(Excerpt(key.full_name));
  });
  const auto tell = [&notes](const NameList& keys, std::string_view is, std::string_view are) {
    if (keys.count() == 1) {
      notes.push_back(
          fmt::format("key {} {} everywhere, so no record has this feature", keys.names(), is));
    } else if (keys.count() > 1) {
      notes.push_back(keys.Text(
          "key", "keys", fmt::format("{} everywhere, so no record has these features", are)));
    }
  };
  tell(empty, "is an empty object", "are empty objects");
  tell(nulls, "is null", "are null");
  for (std::string& note :
       choice_.NotesOfUnused([this](const std::string&name) { return HasFeature(name); },
                             [this](const std::string&name, const std::string&origin) {
                               return fmt::format("no record has the key {} of {}{}", Excerpt(name),
                                                  origin, NearestTo(name));
                             },
                             [](const NameList&names, const std::string&origin) {
                               return fmt::format("no record has {} keys of {}: {}", names.count(),
                                                  origin, names.names());
                             })) {
    notes.push_back(std::move(note));
  }
  for (const Column& column : columns_) {
    const Column::Learned& learned = column.learned;
    std::string of_dates = NoteOfDates(column.name, learned.dates, dates_,
                                       FormOf(column).kind == ColumnKind::kInt64, name_of_);
    if (!of_dates.empty()) notes.push_back(std::move(of_dates));
    if (learned.has_bools && learned.kind != ColumnKind::kBytes) {
      notes.push_back(
          fmt::format("key {}: true and false became 1 and 0{}, first at {}", Excerpt(column.name),
                      learned.has_numbers ? " beside numbers" : "", name_of_(learned.bool_place)));
    }
    if (learned.kind != ColumnKind::kFloat || learned.inexact == 0) continue;
    notes.push_back(fmt::format(
        "key {}: {} digits because floats have 32 bits, the first is {} at {}, which becomes {}; "
        "declare the key as bytes in a schema to keep them",
        Excerpt(column.name),
        learned.inexact == 1 ? "1 number loses" : fmt::format("{} numbers lose", learned.inexact),
        column.first_inexact.text, name_of_(column.inexact_place),
        static_cast<double>(column.first_inexact.stored)));
  }
  if (dates_ != DatesAs::kText && std::ranges::none_of(columns_, [](const Column& column) {
        return column.learned.dates.dates > 0;
      })) {
    notes.push_back(NoteOfNoDates("key"));
  }
  return notes;
}

}  // namespace shardfeed
