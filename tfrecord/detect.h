// Detects the compression of a shard from its bytes.

#ifndef SHARDFEED_TFRECORD_DETECT_H_
#define SHARDFEED_TFRECORD_DETECT_H_

#include <cstddef>
#include <string_view>

#include "absl/status/statusor.h"
#include "shardfeed/options.h"

namespace shardfeed {

// Number of bytes from the beginning of a file that DetectCompression needs.
inline constexpr size_t kDetectBytes = 512 << 10;

// Detects the compression of a shard from its first kDetectBytes bytes (or all of them, if there
// are fewer). A raw shard starts with a header whose CRC is correct; the others start with their
// magic bytes, and their content with such a header. An empty file is kNone: a shard without
// records.
//
// DataLoss: none of these, so not a TFRecord file; the message quotes its first bytes. A raw shard
// whose first header is damaged is still recognised by a later intact one.
absl::StatusOr<Compression> DetectCompression(std::string_view first_bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_DETECT_H_
