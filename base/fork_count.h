// Whether this process is one that was forked.

#ifndef SHARDFEED_BASE_FORK_COUNT_H_
#define SHARDFEED_BASE_FORK_COUNT_H_

#include <cstdint>

namespace shardfeed {

// Counts the forks that led to this process since the first call: a child has another number than
// its parent.
uint64_t ForkCount();

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_FORK_COUNT_H_
