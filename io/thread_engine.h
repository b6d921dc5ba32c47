// An engine that reads with pread.

#ifndef SHARDFEED_IO_THREAD_ENGINE_H_
#define SHARDFEED_IO_THREAD_ENGINE_H_

#include <memory>
#include <string>

#include "io/engine.h"

namespace shardfeed {

// With `options.inline_reads`, the caller of Wait reads. Otherwise up to `options.depth` threads do
// (at most 16), which are started when they are first needed.
std::unique_ptr<Engine> MakeThreadEngine(const EngineOptions& options, std::string reason);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_THREAD_ENGINE_H_
