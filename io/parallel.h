// A parallel loop.

#ifndef SHARDFEED_IO_PARALLEL_H_
#define SHARDFEED_IO_PARALLEL_H_

#include <cstddef>
#include <functional>
#include <stop_token>

#include "absl/status/status.h"

namespace shardfeed {

// Calls work(0) ... work(count - 1), each once, on up to `threads` threads, and returns when all
// calls that were started have returned. Indices are handed out in increasing order. After a
// failure, or once `stop` is requested, no further index is handed out.
//
// If the system cannot start more threads, those that did start, and at least the caller's, do the
// work. An exception thrown by `work` counts as a failure: see CatchAll.
//
// While a call waits for a store, the wait ends with Cancelled once `stop` is requested, or what
// the caller does is not needed any more: see WorkStop.
//
// Returns the failure with the lowest index. Cancelled: `stop` was requested.
absl::Status ParallelFor(size_t count, int threads, std::stop_token stop,
                         const std::function<absl::Status(size_t)>& work);

// Returns `requested` if positive, otherwise the number of processors that this process may use
// according to its affinity and the limits of its control group.
int ThreadCount(int requested);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_PARALLEL_H_
