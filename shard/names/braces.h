// Braces in names, as shells and WebDataset expand them: "train-{00000..00146}.tar", "{a,b}/x".

#ifndef SHARDFEED_SHARD_NAMES_BRACES_H_
#define SHARDFEED_SHARD_NAMES_BRACES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace shardfeed {

// The names that `text` stands for, in order, those of the last braces changing fastest; only the
// text itself if there are no braces of these forms in it:
//   {FIRST..LAST}        the numbers from FIRST to LAST, with leading zeros if one of the two has
//                        any, or the letters
//   {FIRST..LAST..STEP}  every STEPth of them
//   {A,B,...}            each of these texts, which may have braces in them
//
// InvalidArgument: more than a million names, or more than 100 pairs of braces. Thread-safe.
absl::StatusOr<std::vector<std::string>> ExpandBraces(std::string_view text);

// The names that the braces in a path or a spec stand for; empty if there are none, or a file has
// them in its name. InvalidArgument: as ExpandBraces. Thread-safe.
absl::StatusOr<std::vector<std::string>> NamesInBraces(const std::string& name);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_NAMES_BRACES_H_
