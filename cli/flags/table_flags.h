// The options of tables: how they are written, and what their cells mean.

#ifndef SHARDFEED_CLI_FLAGS_TABLE_FLAGS_H_
#define SHARDFEED_CLI_FLAGS_TABLE_FLAGS_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "convert/features/dates.h"
#include "convert/sources/csv.h"

namespace shardfeed {

// The values of the options as they are given.
struct TableFlags {
  CsvOptions options;
  bool no_quotes = false;
  bool header = false;
  bool no_header = false;
  bool no_comments = false;
  bool trim = false;
  bool no_trim = false;
  std::string delimiter;
  std::string encoding;
  std::string decimal;
  std::string thousands;
  std::optional<std::string> missing;  // separated by commas
  std::string dates;
};

// Adds the options, which are set when the command runs. Tables with tabs have no --delimiter.
std::shared_ptr<TableFlags> AddTableFlags(CLI::App& command, bool tabs);

absl::StatusOr<CsvOptions> ReadTableFlags(const TableFlags& flags);

// Adds --dates, about each `what` (a column, a key), which is set when the command runs.
void AddDatesFlag(CLI::App& command, std::string_view what, std::string* dates);

absl::StatusOr<DatesAs> ReadDatesFlag(std::string_view dates);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_FLAGS_TABLE_FLAGS_H_
