#include "convert/items/split_names.h"

#include <algorithm>
#include <cctype>

#include "base/excerpt.h"
#include "fmt/format.h"

namespace shardfeed {

bool IsSplitName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c >= 0x80 || std::isalnum(c) != 0 || c == '_' || c == '-';
  });
}

absl::Status SplitNames::Add(std::string_view value) {
  if (last_ < splits_.size() && splits_[last_].name == value) {
    ++splits_[last_].records;
    return absl::OkStatus();
  }
  if (const std::optional<size_t> known = Find(value)) {
    ++splits_[last_ = *known].records;
    return absl::OkStatus();
  }
  if (absl::Status status = Check(value); !status.ok()) return status;
  last_ = splits_.size();
  number_.emplace(value, last_);
  splits_.push_back({std::string(value), 1});
  return absl::OkStatus();
}

absl::Status SplitNames::Check(std::string_view value) const {
  if (value.empty()) {
    return absl::DataLossError(
        fmt::format("no value in {}, which names the split", Excerpt(column_)));
  }
  if (!IsSplitName(value)) {
    return absl::DataLossError(fmt::format(
        "{} in {} cannot name a split: the name of a dataset may contain only letters, digits, _ "
        "and - there",
        Excerpt(value), Excerpt(column_)));
  }
  if (splits_.size() == kMaxSplits && !Find(value)) {
    return absl::DataLossError(
        fmt::format("{} in {} is one split more than the {} that can be "
                    "written at once; is it the right column?",
                    Excerpt(value), Excerpt(column_), kMaxSplits));
  }
  return absl::OkStatus();
}

std::optional<size_t> SplitNames::Find(std::string_view name) const {
  const auto found = number_.find(name);
  if (found == number_.end()) return std::nullopt;
  return found->second;
}

}  // namespace shardfeed
