// The kinds of raw data that `convert` offers, with the options of each.

#ifndef SHARDFEED_CLI_CONVERT_KINDS_H_
#define SHARDFEED_CLI_CONVERT_KINDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "convert/items/source.h"

namespace shardfeed {

// Makes the source of the paths that a user named, globs expanded.
using MakeSource =
    std::function<absl::StatusOr<std::unique_ptr<Source>>(std::vector<std::string> paths)>;

struct ConvertKind {
  std::string name;
  std::string help;
  std::string details;                      // below the options
  std::optional<uint64_t> default_shuffle;  // the seed, if the kind is shuffled unasked
  bool reads_standard_input = false;        // "-" is a source
  bool resolves_specs = false;              // sources are datasets, not files
  // Adds the kind's own options to its command and returns what makes a source by them.
  std::function<MakeSource(CLI::App&)> declare;
};

std::vector<ConvertKind> ConvertKinds();

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_CONVERT_KINDS_H_
