// Runs a chain that delivers batches, and reports its speed and what limits it.

#ifndef SHARDFEED_CLI_REPORTS_PIPELINE_RUN_H_
#define SHARDFEED_CLI_REPORTS_PIPELINE_RUN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "cli/terminal/console.h"
#include "pipeline/dataset.h"

namespace shardfeed {

struct PipelineRun {
  std::optional<uint64_t> take;  // number of batches; all if not set
  uint64_t rows = 0;             // number of rows in all of these, for progress; 0: not known
  bool any_order = false;
  bool headspace = false;
  std::string trace;  // file for the trace; none if empty
  // File for a PNG of the first batch's images, side by side; none if empty.
  std::string grid;
  std::string image;  // column of images: uint8 [rows, height, width, 3]
};

// Returns the exit status.
int RunPipeline(const Dataset& ds, const PipelineRun& run, const CommandOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_REPORTS_PIPELINE_RUN_H_
