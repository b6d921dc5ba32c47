// An engine whose results are views of the page cache.

#ifndef SHARDFEED_IO_MMAP_ENGINE_H_
#define SHARDFEED_IO_MMAP_ENGINE_H_

#include <memory>
#include <string>

#include "io/engine.h"

namespace shardfeed {

// Each result is a mapping of its own, unmapped when its buffer is let go. Nothing is copied; the
// memory is the page cache's. A file that is cut while it is read is noticed when it is mapped, but
// not later: touching what is gone raises SIGBUS.
std::unique_ptr<Engine> MakeMmapEngine(std::string reason);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_MMAP_ENGINE_H_
