// How a dataset's files are best read on this machine, right now.

#ifndef SHARDFEED_READER_IO_CHOICE_H_
#define SHARDFEED_READER_IO_CHOICE_H_

#include <string>

#include "io/engine.h"
#include "reader/shard_table.h"
#include "shardfeed/options.h"

namespace shardfeed {

struct IoChoice {
  EngineOptions engine;  // depth: of all threads together
  std::string reason;    // reason for statistics: "97 % of the data is in the page cache"
};

// What is in the page cache is read by the threads that check it; what is not, but fits into free
// memory, is read through the cache with many requests in flight; more than that is read past the
// cache, so that nobody else's files are driven out of it. Looks at four places of up to 16
// of the shards.
IoChoice ChooseIo(const ShardTable& table, EngineKind kind, CacheUse cache = CacheUse::kAuto);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_IO_CHOICE_H_
