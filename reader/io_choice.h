// Decides how to read the files of a dataset on this machine at this time.

#ifndef SHARDFEED_READER_IO_CHOICE_H_
#define SHARDFEED_READER_IO_CHOICE_H_

#include <string>

#include "io/engine.h"
#include "reader/shard_table.h"
#include "shardfeed/options.h"

namespace shardfeed {

struct IoChoice {
  EngineOptions engine;  // depth: of all threads together
  bool remote = false;   // shards are in a store: see MakeRemoteEngine
  std::string reason;    // reason for statistics: "97 % of the data is in the page cache"
};

// Data in the page cache is read by the threads that check it. Data that is not cached but fits
// into free memory is read through the cache with many requests in flight. More data than that
// bypasses the cache, so that the files of others are not evicted. Samples four places of up to 16
// shards.
IoChoice ChooseIo(const ShardTable& table, EngineKind kind, CacheUse cache = CacheUse::kAuto);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_IO_CHOICE_H_
