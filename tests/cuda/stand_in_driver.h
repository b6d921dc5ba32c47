// A CUDA driver without a GPU: the calls of cuda/driver.h over ordinary memory, with threads for
// streams and with delays. It reports misuse that a real driver would not notice:
//
//   - two accesses to device memory that are not ordered by streams, events or a wait of the host,
//     even if they happen not to overlap (by vector clocks)
//   - a source of a copy that changes, or is unpinned, before the copy is done; one that is not
//     pinned, or for another context alone
//   - device memory that is freed twice, or while work on it is in progress
//   - calls without a context, with handles of another context, or with destroyed handles
//   - calls that invalidate the capture of a CUDA graph: those that CUDA's documentation calls
//     unsafe, by threads that have not exchanged their capture mode; and waits between captured
//     and other work. Captured work is not run
//   - leaks, when a device's primary context ends
//
// A call in a child after fork ends the child.
//
// Programs find these functions by dlsym in the library that they loaded as the driver.

#ifndef SHARDFEED_TESTS_CUDA_STAND_IN_DRIVER_H_
#define SHARDFEED_TESTS_CUDA_STAND_IN_DRIVER_H_

#include <cstddef>

extern "C" {

// Sets how long things take. Copies of one device run one after another.
void StandInSetSpeed(double copy_bytes_per_second, double kernel_seconds);
// With 0, copies and kernels take time but do nothing, for measurements.
void StandInSetWork(int work);
// Returns the misuses so far, one per line, and forgets them.
const char* StandInTakeMisuses();

}  // extern "C"

#endif  // SHARDFEED_TESTS_CUDA_STAND_IN_DRIVER_H_
