// The choice of columns of a table, or keys of objects, that become features, and of their kinds.

#ifndef SHARDFEED_CONVERT_FEATURES_FEATURE_CHOICE_H_
#define SHARDFEED_CONVERT_FEATURES_FEATURE_CHOICE_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/column.h"
#include "shard/schema.h"

namespace shardfeed {

struct FeatureChoice {
  // Chosen columns; all if empty.
  std::vector<std::string> columns;
  // Kinds to use instead of inferred ones: int64, float or bytes. A value that does not fit is an
  // error.
  std::map<std::string, ColumnKind, std::less<>> kinds;

  bool Chooses(std::string_view name) const;
  std::optional<ColumnKind> KindOf(std::string_view name) const;
};

// Reads kinds from a JSON file in one of two forms: {"age": "int64", "zip": "bytes"}, or the
// manifest of a dataset, whose features are used.
//
// NotFound and the like: the file cannot be read. DataLoss: another form, or an unknown kind.
absl::StatusOr<std::map<std::string, ColumnKind, std::less<>>> ReadFeatureKinds(
    const std::string& path);

// The kinds of a dataset's features; those that no record had have none.
std::map<std::string, ColumnKind, std::less<>> KindsOf(const Schema& schema);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_FEATURE_CHOICE_H_
