// Whether this process is one that was forked.

#ifndef SHARDFEED_BASE_FORK_COUNT_H_
#define SHARDFEED_BASE_FORK_COUNT_H_

#include <cstdint>

namespace shardfeed {

// A number that is another one in a child after fork. Counts from the first call on.
uint64_t ForkCount();

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_FORK_COUNT_H_
