// The same work on many things, on several threads.

#ifndef SHARDFEED_IO_PARALLEL_H_
#define SHARDFEED_IO_PARALLEL_H_

#include <cstddef>
#include <functional>
#include <stop_token>

#include "absl/status/status.h"

namespace shardfeed {

// Calls work(0) ... work(count - 1), each once, on up to `threads` threads, and returns when all
// that were started have returned. Indices are handed out in rising order. After a failure, or once
// `stop` is asked for, no further index is handed out.
//
// Where the system has no more threads, those that started, and at least the caller's, do the work.
// An exception of `work` is a failure: see CatchAll.
//
// Returns the failure with the lowest index; Cancelled when stopped before the end.
absl::Status ParallelFor(size_t count, int threads, std::stop_token stop,
                         const std::function<absl::Status(size_t)>& work);

// `requested` if positive, otherwise the number of processors this process may use: by its affinity
// and the limits of its control group.
int ThreadCount(int requested);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_PARALLEL_H_
