// An engine whose results are views of the page cache.

#ifndef SHARDFEED_IO_MMAP_ENGINE_H_
#define SHARDFEED_IO_MMAP_ENGINE_H_

#include <memory>
#include <string>

#include "io/engine.h"

namespace shardfeed {

// Results are views of mappings of 16 MiB, which those that come one after another share; one is
// unmapped when the last of their buffers is let go. Nothing is copied; the memory is the page
// cache's. A file that is cut while it is read is noticed when a part is asked for, but not later:
// touching what is gone raises SIGBUS.
std::unique_ptr<Engine> MakeMmapEngine(std::string reason);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_MMAP_ENGINE_H_
