// A CUDA driver without a GPU: the calls that cuda/driver.h has, with threads for streams and with
// delays, over ordinary memory. It tells of what a real driver would let pass:
//
//   - two accesses to device memory of which neither is ordered before the other by streams, events
//     or a wait of the host, whenever they happen to run (by vector clocks)
//   - a source of a copy that changes, or is unpinned, before the copy is done; one that is not
//     pinned, or for another context alone
//   - device memory that is freed while work on it is under way, or twice
//   - calls without a context, with handles of another context, or with handles that are gone
//   - calls that invalidate the capture of a CUDA graph: those that CUDA's documentation calls
//     unsafe, of threads that have not exchanged their capture mode; waits between what is captured
//     and what is not. What is captured is not run
//   - what is left over when a device's primary context ends
//
// A call in a child after fork ends the child.
//
// Programs find these functions by dlsym in the library that they loaded as the driver.

#ifndef SHARDFEED_TESTS_CUDA_STAND_IN_DRIVER_H_
#define SHARDFEED_TESTS_CUDA_STAND_IN_DRIVER_H_

#include <cstddef>

extern "C" {

// How long things take. Of each device, copies run one after another.
void StandInSetSpeed(double copy_bytes_per_second, double kernel_seconds);
// 0: copies and kernels take time and move nothing. For measuring.
void StandInSetWork(int work);
// What was found so far, one a line, and forgets it.
const char* StandInTakeMisuses();

}  // extern "C"

#endif  // SHARDFEED_TESTS_CUDA_STAND_IN_DRIVER_H_
