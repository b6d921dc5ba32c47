// Compares an index with its shard completely, not only by totals.

#ifndef SHARDFEED_SHARD_INDEXING_INDEX_CHECK_H_
#define SHARDFEED_SHARD_INDEXING_INDEX_CHECK_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shard/index/index.h"
#include "tfrecord/decompress.h"
#include "tfrecord/framing.h"

namespace shardfeed {

// Compares an index with the records and restart points of a shard while it is read. Not
// thread-safe.
class IndexCheck {
 public:
  // `name` names the index in messages.
  IndexCheck(std::shared_ptr<const ShardIndex> index, std::string name)
      : index_(std::move(index)), name_(std::move(name)) {}
  IndexCheck(const IndexCheck&) = delete;
  IndexCheck& operator=(const IndexCheck&) = delete;

  // Returns options for the decompressor of a compressed shard that is read from its beginning, so
  // that it reports to this check what it finds at the index's restart points. The check must
  // outlive the decompressor.
  DecompressOptions Watch();

  // Checks the next records.
  void Add(absl::Span<const Record> records);

  // Completes the check; `found` is the summary of the shard, which must have no defects. DataLoss:
  // the index does not match; the message names the index, the first difference and the remedy.
  absl::Status End(const IndexSummary& found) const;

 private:
  void CheckPoint(const RestartPoint& point);
  void CheckBlock(const DeflateBlock& block);
  void EndBlocks();
  void Wrong(std::string what);

  const std::shared_ptr<const ShardIndex> index_;
  const std::string name_;
  uint64_t records_ = 0;
  // Number of restart points passed so far.
  uint64_t points_ = 0;
  // The blocks that the index lists after the last of these points.
  std::vector<DeflateBlock> blocks_;
  size_t blocks_passed_ = 0;
  // The first difference.
  std::string wrong_;
};

// Reads the whole shard at `path` and compares `index` with it. If the records of a raw shard are
// large, only their headers and footers are read; compressed shards are inflated.
//
// Errors: those of IndexCheck::End and BuildIndex.
absl::Status CompareIndexWithShard(const std::string& path, std::shared_ptr<const ShardIndex> index,
                                   std::stop_token stop);

// Compares the chunks in the index of an ArrayRecord shard, which has as many records, with its
// footer. Errors: as IndexCheck::End.
absl::Status CompareChunks(const ShardIndex& index, const ArrayRecordFooter& footer,
                           const std::string& name);

// Compares the index of a raw shard with `found`, which was built from the shard. Errors: as
// IndexCheck::End.
absl::Status CompareRawIndexes(const ShardIndex& index, const ShardIndex& found,
                               const std::string& name);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_INDEXING_INDEX_CHECK_H_
