// Decides how to read the files of a dataset on this machine at this time.

#ifndef SHARDFEED_READER_SHARDS_IO_CHOICE_H_
#define SHARDFEED_READER_SHARDS_IO_CHOICE_H_

#include <cstdint>
#include <string>

#include "io/engine.h"
#include "reader/shards/shard_table.h"
#include "shardfeed/options.h"
#include "shardfeed/reader.h"

namespace shardfeed {

struct IoChoice {
  EngineOptions engine;  // depth: of all threads together
  bool remote = false;   // shards are in a store: see MakeRemoteEngine
  bool fetched = false;  // see IsFetched
  std::string reason;    // reason for statistics: "97 % of the data is in the page cache"
};

// Data in the page cache is read by the threads that check it. Data that is not cached but fits
// into free memory is read through the cache with many requests in flight. More data than that
// bypasses the cache, so that the files of others are not evicted; options.page_cache may decide
// instead. Samples four places of up to 16 shards. From stores, 3 GB/s are requested for the time
// that they take to answer, at least 256 MiB and at most the budget, in as many ranges as `order`,
// which must have its defaults filled in, makes of it, unless a cache on disk has all samples: such
// data is read as that in the page cache is.
IoChoice ChooseIo(const ShardTable& table, const OrderSpec& order, const ReaderOptions& options);

// Whether shards are in a store, and a cache on disk does not have all of their blocks, or of a
// sample of 1024.
bool IsFetched(const ShardTable& table);

// How much of a budget the client of a store takes for what is on its way, besides the buffers that
// it is read into, however long the store takes to answer: 0 for local data.
uint64_t ClientBytes(const ShardTable& table, const OrderSpec& order, uint64_t budget_bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_SHARDS_IO_CHOICE_H_
