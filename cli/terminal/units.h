// Sizes, counts and times as people write and read them.

#ifndef SHARDFEED_CLI_TERMINAL_UNITS_H_
#define SHARDFEED_CLI_TERMINAL_UNITS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/schema/skipped_records.h"

namespace shardfeed {

// Parses "4096", "256KiB", "1.5 GiB", "100MB" as bytes; the short forms K, M, G, T are binary.
// Returns nullopt for anything else.
std::optional<uint64_t> ParseSize(std::string_view text);

// Parses "90s", "30m", "24h", "7d" or "0" as seconds. Returns nullopt for anything else.
std::optional<uint64_t> ParseDuration(std::string_view text);

std::string FormatSize(uint64_t bytes);  // "1.4 GiB"
std::string FormatCount(uint64_t n);     // "1,234,567"
// Returns "1 shard", "1,234 shards".
std::string Counted(uint64_t n, std::string_view one);
std::string FormatDuration(double seconds);  // "3.2 s", "4 min 10 s"

struct Range {
  uint64_t begin;
  uint64_t end;  // not included
};

// Parses "5", "10-19" (both ends included), "7-" (up to `total`), or several separated by commas,
// and keeps their order. InvalidArgument: another form. OutOfRange: a number that is not below
// `total`. Messages call what is counted `what`.
absl::StatusOr<std::vector<Range>> ParseRanges(std::string_view text, uint64_t total,
                                               std::string_view what = "record");

// Parses the value of --max-skipped. InvalidArgument: neither a number nor a share.
absl::StatusOr<SkipCeiling> ParseMaxSkipped(const std::string& text);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_TERMINAL_UNITS_H_
