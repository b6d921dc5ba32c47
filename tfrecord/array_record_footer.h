// The footer of ArrayRecord files: where their chunks are.
//
// An ArrayRecord file is a Riegeli/records file (riegeli_chunk.h) that ends with two simple chunks.
// The first record of the footer is a RiegeliFooterMetadata, and the others are an
// ArrayRecordFooter for each chunk before it. The postscript begins at the last block of the file:
//
//   RiegeliPostscript      1: offset of the footer; 2: kArrayRecordMagic
//   RiegeliFooterMetadata  1: {1: version, which is 1; 2: number of chunks; 3: number of records}
//   ArrayRecordFooter      1: offset of the chunk; 2: size of its decoded records; 3: their number
//
// Source: google/array_record's cpp/layout.proto and cpp/array_record_writer.cc.
//
// An index counts the records as if they were in a stream of TFRecord frames. The footer tells the
// size of each chunk but not those of its records, which therefore count as about equal there.

#ifndef SHARDFEED_TFRECORD_ARRAY_RECORD_FOOTER_H_
#define SHARDFEED_TFRECORD_ARRAY_RECORD_FOOTER_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

inline constexpr uint64_t kArrayRecordMagic = 0x71930e704fdae05e;
// Number of bytes at the beginning of the last block that ParseArrayRecordPostscript needs.
inline constexpr uint64_t kArrayRecordPostscriptBytes = 512;

// A chunk of records. It ends before the byte `end`, where the next one or the footer begins.
struct ArrayRecordChunk {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t first_record = 0;
  uint64_t records = 0;
  uint64_t decoded_bytes = 0;

  uint64_t end_record() const { return first_record + records; }
  // Size of the frame of its i-th record in the stream.
  uint64_t FrameBytes(uint64_t i) const;
  // ResourceExhausted: the chunk is compressed, and its records have more than `max_bytes` bytes.
  absl::Status CheckSize(uint64_t max_bytes) const;
};

struct ArrayRecordFooter {
  // Consecutive, each with at least one record.
  std::vector<ArrayRecordChunk> chunks;
  // Identifies the shard: the digest of its records (RecordsDigest).
  uint32_t digest = 0;

  uint64_t records() const { return chunks.empty() ? 0 : chunks.back().end_record(); }
  // Returns the number of the chunk of `record`, which must be less than records().
  size_t ChunkOf(uint64_t record) const;
};

// Returns the offset of the footer in a file of `file_bytes` bytes, whose last block begins with
// `bytes`.
// DataLoss: there is no postscript, or its numbers are wrong.
absl::StatusOr<uint64_t> ParseArrayRecordPostscript(std::string_view bytes, uint64_t file_bytes);

// Parses the footer, which begins at `offset` of its file and with `bytes`.
// DataLoss: it is damaged, or lists chunks that cannot be in the file.
// InvalidArgument: its version is not known.
absl::StatusOr<ArrayRecordFooter> ParseArrayRecordFooter(std::string_view bytes, uint64_t offset);

// What the header of the footer alone tells.
struct ArrayRecordFooterHead {
  uint32_t digest = 0;
  uint64_t bytes = 0;  // size of the footer in the file
};

// DataLoss: the header is damaged.
absl::StatusOr<ArrayRecordFooterHead> ParseArrayRecordFooterHead(std::string_view bytes,
                                                                 uint64_t offset);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_ARRAY_RECORD_FOOTER_H_
