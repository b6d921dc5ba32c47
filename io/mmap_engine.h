// An engine whose results are views of memory-mapped files.

#ifndef SHARDFEED_IO_MMAP_ENGINE_H_
#define SHARDFEED_IO_MMAP_ENGINE_H_

#include <memory>
#include <string>

#include "io/engine.h"

namespace shardfeed {

// Results are views of mappings of 16 MiB. Consecutive reads share a mapping, which is unmapped
// when the last of their buffers is released. Nothing is copied; the memory is the page cache's. If
// a file is truncated while it is being read, later requests fail, but touching the missing part of
// an earlier result raises SIGBUS.
std::unique_ptr<Engine> MakeMmapEngine(std::string reason);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_MMAP_ENGINE_H_
