// Runs a chain of batches, and tells how fast it was and what limits it.

#ifndef SHARDFEED_CLI_PIPELINE_RUN_H_
#define SHARDFEED_CLI_PIPELINE_RUN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "cli/console.h"
#include "pipeline/dataset.h"

namespace shardfeed {

struct PipelineRun {
  std::optional<uint64_t> take;  // batches; all if not said
  bool any_order = false;
  bool headspace = false;
  std::string trace;  // a file; none if empty
  // The first batch's images side by side, as a PNG; none if empty.
  std::string grid;
  std::string image;  // the column of images: uint8 [rows, height, width, 3]
};

// Returns the exit status.
int RunPipeline(const Dataset& ds, const PipelineRun& run, const CommandOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_PIPELINE_RUN_H_
