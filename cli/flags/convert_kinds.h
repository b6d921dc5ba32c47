// The kinds of raw data that `convert` supports, and the options of each.

#ifndef SHARDFEED_CLI_FLAGS_CONVERT_KINDS_H_
#define SHARDFEED_CLI_FLAGS_CONVERT_KINDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "convert/items/source.h"
#include "shard/declarations/named_manifest.h"

namespace shardfeed {

// Makes the source for the paths that the user named, after globs have been expanded. `like` is the
// dataset of --like, whose classes, kinds and options are taken over; nullptr without it.
using MakeSource = std::function<absl::StatusOr<std::unique_ptr<Source>>(
    std::vector<std::string> paths, const NamedManifest* like)>;

struct ConvertKind {
  std::string name;
  std::string help;
  std::string details;                      // shown below the options
  std::optional<uint64_t> default_shuffle;  // seed, if the kind is shuffled by default
  bool reads_standard_input = false;        // "-" may be a source
  bool resolves_specs = false;              // sources are datasets, not files
  // Adds the kind's own options to its command and returns the function that makes a source from
  // their values.
  std::function<MakeSource(CLI::App&)> declare;
};

std::vector<ConvertKind> ConvertKinds();

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_FLAGS_CONVERT_KINDS_H_
