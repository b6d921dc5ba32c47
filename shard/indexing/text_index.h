// The text indexes of DALI (tfrecord2idx) and of the PyPI package tfrecord: one line "OFFSET SIZE"
// per record, where SIZE is that of the whole frame. The two differ only in their file names. For
// raw shards only.

#ifndef SHARDFEED_SHARD_INDEXING_TEXT_INDEX_H_
#define SHARDFEED_SHARD_INDEXING_TEXT_INDEX_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "shard/index/index.h"

namespace shardfeed {

// Returns SHARD.idx for the format "dali"; for "tfindex", the shard's path with .tfrecord replaced
// by .tfindex, or with .tfindex appended.
std::string TextIndexPath(std::string_view shard_path, std::string_view format);

// InvalidArgument: the shard is compressed, or not a TFRecord shard, which these indexes do not
// support.
absl::Status WriteTextIndex(const std::string& path, const ShardIndex& index);

// Compares the text index beside the shard with the shard's real index. NotFound: there is no text
// index. DataLoss: a line differs; the message gives its number.
absl::Status CompareTextIndex(std::string_view shard_path, const ShardIndex& index);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_INDEXING_TEXT_INDEX_H_
