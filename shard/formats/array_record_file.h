// ArrayRecord shards as files: docs/arrayrecord.md.

#ifndef SHARDFEED_SHARD_FORMATS_ARRAY_RECORD_FILE_H_
#define SHARDFEED_SHARD_FORMATS_ARRAY_RECORD_FILE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "io/file.h"
#include "tfrecord/array_record_footer.h"

namespace shardfeed {

// Whether the file's name is one of those that TFDS and Grain use: NAME.array_record or
// NAME.array_record-00000-of-00008.
bool IsNamedArrayRecord(std::string_view path);

// Reads the footer of a shard: its last block, the footer, and the header of its first chunk.
// `bytes_read`, if it is not null, counts the bytes. Messages name the file. Thread-safe.
// InvalidArgument: transposed chunks, or a version that is not known.
// DataLoss: the errors of ParseArrayRecordPostscript and ParseArrayRecordFooter.
absl::StatusOr<ArrayRecordFooter> ReadArrayRecordFooter(const File& file,
                                                        uint64_t* bytes_read = nullptr);

// Reads the digest of a shard (ArrayRecordFooter::digest) from the headers of its footer and of its
// first chunk. Nullopt: it has no records.
absl::StatusOr<std::optional<uint32_t>> ReadArrayRecordDigest(const File& file);

// The same as ArrayRecordChunk::CheckSize of a chunk that an index tells of, with the file's name.
// DataLoss: the chunk is too large by the index alone, which its header contradicts.
absl::Status CheckChunkSize(const File& file, const ArrayRecordChunk& chunk, uint64_t max_bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FORMATS_ARRAY_RECORD_FILE_H_
