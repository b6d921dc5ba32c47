// The progress of a conversion, phase by phase.

#ifndef SHARDFEED_CLI_REPORTS_CONVERT_PROGRESS_H_
#define SHARDFEED_CLI_REPORTS_CONVERT_PROGRESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/terminal/progress.h"
#include "convert/converter.h"

namespace shardfeed {

// Returns the size of the input, or 0 if it is not known before the input is read: folders.
uint64_t InputBytes(const std::vector<std::string>& paths);

// `output` is the dataset as the user named it.
Progress PhaseOf(const ConvertProgress& converting, uint64_t input_bytes,
                 const std::string& output);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_REPORTS_CONVERT_PROGRESS_H_
