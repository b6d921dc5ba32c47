// The names of a table's columns.

#ifndef SHARDFEED_CONVERT_FEATURES_COLUMN_NAMES_H_
#define SHARDFEED_CONVERT_FEATURES_COLUMN_NAMES_H_

#include <string>
#include <vector>

namespace shardfeed {

// Gives names to the columns without one, and other names to those with an earlier one's, and tells
// it in `notes`.
void CompleteNames(std::vector<std::string>& names, std::vector<std::string>* notes);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_COLUMN_NAMES_H_
