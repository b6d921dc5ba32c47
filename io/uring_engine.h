// An engine that reads with io_uring.

#ifndef SHARDFEED_IO_URING_ENGINE_H_
#define SHARDFEED_IO_URING_ENGINE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "io/engine.h"

namespace shardfeed {

// Creates an engine with one ring. Unavailable, with the reason: the kernel has no io_uring, lacks
// an operation, or forbids it (containers, kernel.io_uring_disabled). If the ring fails later, the
// engine continues with pread.
//
// Files are registered with the ring when they are first read, as long as it has room for them,
// which saves a tenth of the time of a small cached read. Slabs are registered when direct reads
// use them, which saves a third for 1 MiB in huge pages and two thirds in small ones. Files and
// slabs that cannot be registered are still used, and EngineStats says why: older kernels
// lack this, and the amount of locked memory is limited (ulimit -l).
absl::StatusOr<std::unique_ptr<Engine>> MakeUringEngine(const EngineOptions& options,
                                                        std::string reason);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_URING_ENGINE_H_
