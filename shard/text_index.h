// The text indexes of DALI (tfrecord2idx) and of the PyPI package tfrecord: one line "OFFSET SIZE"
// a record, where SIZE is that of the whole frame. Both have the same lines; the names differ. For
// raw shards only.

#ifndef SHARDFEED_SHARD_TEXT_INDEX_H_
#define SHARDFEED_SHARD_TEXT_INDEX_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "shard/index.h"

namespace shardfeed {

// `format` "dali": SHARD.idx. "tfindex": the shard's name with .tfrecord replaced by .tfindex, or
// .tfindex appended.
std::string TextIndexPath(std::string_view shard_path, std::string_view format);

// InvalidArgument: the shard is compressed, which these indexes cannot serve.
absl::Status WriteTextIndex(const std::string& path, const ShardIndex& index);

// Compares the text index beside the shard with what the shard really holds. NotFound: there is
// none. DataLoss: a line that differs, with its number.
absl::Status CompareTextIndex(std::string_view shard_path, const ShardIndex& index);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_TEXT_INDEX_H_
