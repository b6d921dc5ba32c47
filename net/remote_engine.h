// Reads of objects in stores, as an engine.

#ifndef SHARDFEED_NET_REMOTE_ENGINE_H_
#define SHARDFEED_NET_REMOTE_ENGINE_H_

#include <memory>

#include "io/engine.h"

namespace shardfeed {

// Requests are those of the process's HTTP client, at most `depth` of them at once. What a cache
// has (RemoteFile::cached) is read within Wait; what it may have is fetched into it first, as many
// blocks at once as the requests that wait for them have bytes. Files that are not in stores
// (copies of what is sound) are read within Submit.
std::unique_ptr<Engine> MakeRemoteEngine(int depth, std::shared_ptr<BufferPool> pool);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_REMOTE_ENGINE_H_
