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
absl::StatusOr<std::unique_ptr<Engine>> MakeUringEngine(const EngineOptions& options,
                                                        std::string reason);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_URING_ENGINE_H_
