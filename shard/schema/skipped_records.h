// Broken records of raw data that were left out on request.

#ifndef SHARDFEED_SHARD_SCHEMA_SKIPPED_RECORDS_H_
#define SHARDFEED_SHARD_SCHEMA_SKIPPED_RECORDS_H_

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "io/remedy.h"
#include "shardfeed/options.h"

namespace shardfeed {

struct SkippedRecords {
  // Maximum number of stored descriptions.
  static constexpr size_t kMaxFirst = 100;
  // Maximum count that is believed from a file, so that sums do not overflow.
  static constexpr uint64_t kMaxCount = uint64_t{1} << 48;

  uint64_t count = 0;
  std::vector<std::string> first;

  void Add(std::string what, uint64_t records = 1) {
    count += records;
    if (first.size() < kMaxFirst) first.push_back(std::move(what));
  }
  void Append(const SkippedRecords& later) {
    count += later.count;
    for (const std::string& what : later.first) {
      if (first.size() < kMaxFirst) first.push_back(what);
    }
  }

  // Whether the descriptions may be those of the records, for what comes from a file.
  bool IsPlausible() const {
    return first.size() <= kMaxFirst && first.size() <= count && first.empty() == (count == 0);
  }

  friend bool operator==(const SkippedRecords&, const SkippedRecords&) = default;
};

// Parses "100" or "5%". Nullopt: neither of these forms.
inline std::optional<SkipCeiling> ParseSkipCeiling(std::string_view text) {
  const bool is_share = text.ends_with('%');
  if (is_share) text.remove_suffix(1);
  const char* const end = text.data() + text.size();
  SkipCeiling ceiling{.share = 0, .at_least = 0};
  if (!is_share) {
    const auto [stop, error] = std::from_chars(text.data(), end, ceiling.at_least);
    return error == std::errc() && stop == end ? std::optional(ceiling) : std::nullopt;
  }
  const auto [stop, error] = std::from_chars(text.data(), end, ceiling.share);
  ceiling.share /= 100;
  const bool is_valid =
      error == std::errc() && stop == end && ceiling.share >= 0 && ceiling.share <= 1;
  return is_valid ? std::optional(ceiling) : std::nullopt;
}

// Returns the error for more than `ceiling` broken records, with the option that allows more.
inline absl::Status TooManySkipped(uint64_t skipped, uint64_t ceiling, std::string_view first) {
  return WithRemedy(absl::DataLossError(fmt::format(
                        "at least {} records are broken, and no more than {} may be left out; the "
                        "first is {}",
                        skipped, ceiling, first)),
                    {"max_skipped", "N", "leave out more"});
}

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SCHEMA_SKIPPED_RECORDS_H_
