// Chooses the engine that reads.

#ifndef SHARDFEED_IO_ENGINE_CHOICE_H_
#define SHARDFEED_IO_ENGINE_CHOICE_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "io/engine.h"

namespace shardfeed {

// Parses "auto", "uring", "threads" or "mmap". InvalidArgument: any other name.
absl::StatusOr<EngineKind> ParseEngineKind(std::string_view name);

// Creates an engine of the given kind. For kAuto, the environment variable SHARDFEED_IO (uring,
// threads, mmap) decides if it is set.
absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const EngineOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_ENGINE_CHOICE_H_
