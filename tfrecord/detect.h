// Detects the compression and the framing of a shard from its bytes.

#ifndef SHARDFEED_TFRECORD_DETECT_H_
#define SHARDFEED_TFRECORD_DETECT_H_

#include <cstddef>
#include <string_view>

#include "absl/status/statusor.h"
#include "shardfeed/options.h"

namespace shardfeed {

// Number of bytes from the beginning of a file that DetectFormat needs.
inline constexpr size_t kDetectBytes = 512 << 10;

// Detects the format of a shard from its first kDetectBytes bytes (or all of them, if there are
// fewer). A raw shard starts with a header whose CRC is correct, a tar shard with a header whose
// checksum is, an MDS shard with offsets and the names of columns, an ArrayRecord shard with the
// signature of Riegeli/records; the others start with their magic bytes, and their content with
// such a header. An empty file is a raw shard without records. If `named_tar` says that the name is
// that of a tar archive, what has other signs of one, and whatever of a block or more is none of
// the others, is one: without members, or its first header is damaged, which reading it tells.
//
// DataLoss: none of these, so neither TFRecord, tar, MDS nor ArrayRecord; the message quotes its
// first bytes. A raw TFRecord shard whose first header is damaged is still recognized by a later
// intact one.
absl::StatusOr<ShardFormat> DetectFormat(std::string_view first_bytes, bool named_tar = false);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_DETECT_H_
