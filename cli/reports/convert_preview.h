// What convert --dry-run shows: the datasets that a conversion would write, as far as the first
// records tell. Nothing is written.

#ifndef SHARDFEED_CLI_REPORTS_CONVERT_PREVIEW_H_
#define SHARDFEED_CLI_REPORTS_CONVERT_PREVIEW_H_

#include <cstdint>
#include <optional>
#include <string>

#include "cli/terminal/console.h"
#include "convert/converter.h"
#include "convert/items/source.h"

namespace shardfeed {

struct PreviewInput {
  std::string name;    // name of the output as the user gave it, or of the source
  bool named = false;  // whether the user named an output
  uint64_t bytes = 0;  // size of the input; 0: not known before it is read
};

// Scans the source, builds its first records, and prints what `converting` would make of it.
// Returns the exit status: that of the conversion, as far as the first records tell.
int PreviewConversion(Source& source, const ConvertOptions& converting, const PreviewInput& input,
                      const CommandOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_REPORTS_CONVERT_PREVIEW_H_
