// An engine that reads with io_uring.

#ifndef SHARDFEED_IO_URING_ENGINE_H_
#define SHARDFEED_IO_URING_ENGINE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "io/engine.h"

namespace shardfeed {

// One ring. Unavailable, with the reason, where the kernel has no io_uring, lacks an operation, or
// forbids it (containers, kernel.io_uring_disabled). A ring that fails later is replaced by pread.
//
// Files are registered with the ring when they are first read, as long as it has room for them (a
// tenth less for a small read of what is cached). Slabs are when they are read into past the page
// cache (a third less for 1 MiB in huge pages, two thirds in small ones). What cannot be
// registered is read all the same, and EngineStats says why: older kernels cannot, and only so much
// memory may be locked (ulimit -l).
absl::StatusOr<std::unique_ptr<Engine>> MakeUringEngine(const EngineOptions& options,
                                                        std::string reason);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_URING_ENGINE_H_
