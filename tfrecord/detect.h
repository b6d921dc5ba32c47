// Tells from its bytes what a file is.

#ifndef SHARDFEED_TFRECORD_DETECT_H_
#define SHARDFEED_TFRECORD_DETECT_H_

#include <cstddef>
#include <string_view>

#include "absl/status/statusor.h"
#include "shardfeed/options.h"

namespace shardfeed {

// How many bytes of a file's beginning DetectCompression wants to see.
inline constexpr size_t kDetectBytes = 512 << 10;

// Tells the compression of a shard from its first kDetectBytes bytes (all of them, if it has
// fewer). Decisive: a raw shard must start with a header whose CRC holds, the others with their
// magic and, inside, such a header. No bytes: kNone, a shard without records.
//
// DataLoss: none of these, so not a TFRecord file; the message says what it starts with. A raw
// shard whose first header is damaged is still told, by a sound one further on.
absl::StatusOr<Compression> DetectCompression(std::string_view first_bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_DETECT_H_
