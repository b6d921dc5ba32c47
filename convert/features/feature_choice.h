// The choice of columns of a table, or keys of objects, that become features, and of their kinds.

#ifndef SHARDFEED_CONVERT_FEATURES_FEATURE_CHOICE_H_
#define SHARDFEED_CONVERT_FEATURES_FEATURE_CHOICE_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/column.h"
#include "convert/input/name_list.h"
#include "shard/schema/schema.h"

namespace shardfeed {

// A kind to use instead of an inferred one: int64, float or bytes.
struct ChosenKind {
  ColumnKind kind;
  std::string like;  // name of the dataset that it was taken from; empty: a schema has it

  ChosenKind(ColumnKind kind, std::string like = "") : kind(kind), like(std::move(like)) {}
  bool operator==(const ChosenKind&) const = default;
  // "as the schema says" or "as in out/train@64", for messages about values that do not fit.
  std::string Reason() const;
  // "the schema" or "out/train@64".
  std::string Origin() const;
};

// By the names of columns or keys.
using ChosenKinds = std::map<std::string, ChosenKind, std::less<>>;

struct FeatureChoice {
  // Chosen columns; all if empty.
  std::vector<std::string> columns;
  // A value that does not fit is an error.
  ChosenKinds kinds;

  bool Chooses(std::string_view name) const;
  // Returns nullptr if no kind is chosen. Valid as long as `kinds` is unchanged.
  const ChosenKind* KindOf(std::string_view name) const;
  // Notes on chosen kinds of names that the input does not have. `one` makes the note on a name,
  // and `many` that on too many names for a note each; both get the kind's Origin.
  std::vector<std::string> NotesOfUnused(
      const std::function<bool(const std::string& name)>& is_used,
      const std::function<std::string(const std::string& name, const std::string& origin)>& one,
      const std::function<std::string(const NameList& names, const std::string& origin)>& many)
      const;
};

// Reads kinds from a JSON file in one of two forms: {"age": "int64", "zip": "bytes"}, or the
// manifest of a dataset, whose features are used.
//
// NotFound and the like: the file cannot be read. DataLoss: another form, or an unknown kind.
absl::StatusOr<ChosenKinds> ReadFeatureKinds(const std::string& path);

// The kinds of the features of the dataset `name`; those that no record had have none.
ChosenKinds KindsLike(const Schema& schema, const std::string& name);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_FEATURE_CHOICE_H_
