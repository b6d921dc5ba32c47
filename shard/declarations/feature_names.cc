#include "shard/declarations/feature_names.h"

#include "absl/strings/escaping.h"
#include "base/utf8.h"
#include "fmt/format.h"
#include "shard/names/names.h"

namespace shardfeed {

absl::Status CheckFeatureNames(const OutputSpec& dataset, const Schema& schema) {
  for (const auto& [name, feature] : schema.features()) {
    if (IsUtf8(name)) continue;
    return absl::DataLossError(
        fmt::format("{}: the name of the feature \"{}\" is not UTF-8, so no manifest can describe "
                    "it; rename it in "
                    "the records",
                    FormatSpec(dataset.directory, dataset.stem, dataset.count, dataset.suffix),
                    absl::CEscape(name)));
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
