// Splits that a column of the input names: each record says to which one it belongs.

#ifndef SHARDFEED_CONVERT_ITEMS_SPLIT_NAMES_H_
#define SHARDFEED_CONVERT_ITEMS_SPLIT_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace shardfeed {

// As many datasets can be written at once.
inline constexpr size_t kMaxSplits = 255;

// Whether a dataset can be named "STEM-NAME": letters, digits, _ and - only.
bool IsSplitName(std::string_view name);

struct SplitCount {
  std::string name;
  uint64_t records = 0;
};

// Collects the splits in the order of their first records.
class SplitNames {
 public:
  // `column` is used in messages.
  explicit SplitNames(std::string column) : column_(std::move(column)) {}

  // Counts a record in whose column the value stands. DataLoss: it is empty or not a name, or there
  // are more names than datasets that can be written at once; the message does not name the place.
  absl::Status Add(std::string_view value);
  // The error that Add would return.
  absl::Status Check(std::string_view value) const;

  std::optional<size_t> Find(std::string_view name) const;
  const std::vector<SplitCount>& splits() const { return splits_; }

 private:
  std::string column_;
  std::vector<SplitCount> splits_;
  std::map<std::string, size_t, std::less<>> number_;
  size_t last_ = 0;  // the split of the last record; the next one is often in it, too
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_ITEMS_SPLIT_NAMES_H_
