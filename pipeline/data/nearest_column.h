// Suggestions for names of columns that do not exist.

#ifndef SHARDFEED_PIPELINE_DATA_NEAREST_COLUMN_H_
#define SHARDFEED_PIPELINE_DATA_NEAREST_COLUMN_H_

#include <string>
#include <vector>

#include "base/suggestion.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// Returns "; did you mean 'NAME'?" if `name` is a likely typo of a column's, otherwise nothing.
inline std::string NearestColumn(const std::string& name, const RowSpec& spec) {
  std::vector<std::string> names;
  for (const ColumnSpec& column : spec) names.push_back(column.name);
  return DidYouMean(name, names);
}

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_NEAREST_COLUMN_H_
