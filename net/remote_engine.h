// An engine that reads objects in stores.

#ifndef SHARDFEED_NET_REMOTE_ENGINE_H_
#define SHARDFEED_NET_REMOTE_ENGINE_H_

#include <memory>

#include "io/engine.h"

namespace shardfeed {

struct RemoteEngineOptions {
  // A cache is expected to have the blocks. reads_in_wait() then says so, until several were
  // missing.
  bool cached = false;
  // Whether the first large requests are not sent at once, but over 75 ms: best if many more
  // follow.
  bool spread_first = false;
};

// Requests go through the process's HTTP client, at most `depth` at once. Blocks that a cache has
// (RemoteFile::cached) are read within Wait; blocks that it admits are fetched into it first, as
// many at once as the waiting requests have bytes. Files that are not in stores (copies of intact
// records) are read within Submit.
std::unique_ptr<Engine> MakeRemoteEngine(int depth, std::shared_ptr<BufferPool> pool,
                                         RemoteEngineOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_NET_REMOTE_ENGINE_H_
