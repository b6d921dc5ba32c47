// What plan says about the sources of a mixture.

#ifndef SHARDFEED_CLI_REPORTS_MIX_SOURCES_H_
#define SHARDFEED_CLI_REPORTS_MIX_SOURCES_H_

#include <cstdint>
#include <vector>

#include "reader/order/mix_order.h"

namespace shardfeed {

// How many positions of the first epoch each source has.
std::vector<uint64_t> CountTaken(const MixOrder& mix);

// Prints what the first sources contribute to the first epoch.
void PrintSources(const MixOrder& mix);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_REPORTS_MIX_SOURCES_H_
