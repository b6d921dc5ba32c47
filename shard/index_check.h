// Compares an index with its shard: all of it, not only what it says of the whole.

#ifndef SHARDFEED_SHARD_INDEX_CHECK_H_
#define SHARDFEED_SHARD_INDEX_CHECK_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shard/index.h"
#include "tfrecord/decompress.h"
#include "tfrecord/framing.h"

namespace shardfeed {

// Takes the records and restart points of a shard as they pass. Not thread safe.
class IndexCheck {
 public:
  // `name` is that of the index in messages.
  IndexCheck(std::shared_ptr<const ShardIndex> index, std::string name)
      : index_(std::move(index)), name_(std::move(name)) {}
  IndexCheck(const IndexCheck&) = delete;
  IndexCheck& operator=(const IndexCheck&) = delete;

  // Makes the decompressor of a compressed shard, which is read from its beginning, tell the check
  // what it finds at the places of the index's restart points. The check must outlive it.
  DecompressOptions Watch();

  // The next records.
  void Add(absl::Span<const Record> records);

  // `found`: what the whole shard, which has no defects, really holds. DataLoss: the index does not
  // match; the message names the index, the first difference and the remedy.
  absl::Status End(const IndexSummary& found) const;

 private:
  void CheckPoint(const RestartPoint& point);
  void CheckBlock(const DeflateBlock& block);
  void EndBlocks();
  void Wrong(std::string what);

  const std::shared_ptr<const ShardIndex> index_;
  const std::string name_;
  uint64_t records_ = 0;
  uint64_t points_ = 0;               // restart points that were passed
  std::vector<DeflateBlock> blocks_;  // that the index knows behind the last of them
  size_t blocks_passed_ = 0;
  std::string wrong_;  // the first difference
};

// Reads the whole shard at `path` and compares `index` with it. Of raw shards only lengths and
// footers are read where records are large; compressed ones are inflated.
//
// Errors: those of IndexCheck::End and BuildIndex.
absl::Status CompareIndexWithShard(const std::string& path, std::shared_ptr<const ShardIndex> index,
                                   std::stop_token stop);

// Compares the index of a raw shard with the one that was built from it: `found`. Errors as
// IndexCheck::End.
absl::Status CompareRawIndexes(const ShardIndex& index, const ShardIndex& found,
                               const std::string& name);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_INDEX_CHECK_H_
