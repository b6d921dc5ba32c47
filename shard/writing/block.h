// Encodes consecutive records of one shard, to be appended to its file.

#ifndef SHARDFEED_SHARD_WRITING_BLOCK_H_
#define SHARDFEED_SHARD_WRITING_BLOCK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shard/schema/schema.h"
#include "shard/schema/skipped_records.h"
#include "shardfeed/options.h"
#include "shardfeed/writer.h"
#include "tfrecord/framing.h"
#include "tfrecord/zlib_stream.h"

namespace shardfeed {

class ValueCollector;

// Collects records, in frames that still lack the payloads' CRCs. Not thread-safe.
class RecordBatch {
 public:
  RecordBatch() = default;
  // Reuses the memory of `spare` and drops its content: fresh memory costs more than framing.
  explicit RecordBatch(std::string spare) : bytes_(std::move(spare)) { bytes_.clear(); }

  void Add(std::string_view payload);

  // To build a payload in place, append it to the string that Begin returns, then call End. The
  // batch must not be used in any other way in between.
  std::string* Begin();
  void End();
  // Called instead of End: drops the record.
  void Drop();
  // Called instead of End if the record turns out to be broken: drops the record. `what` describes
  // the defect, for the manifest.
  void Skip(std::string what);

  size_t num_records() const { return frames_.size(); }
  // Total size of all frames, in bytes.
  size_t size() const { return bytes_.size(); }
  bool empty() const { return frames_.empty(); }

 private:
  friend struct EncodedBlock EncodeBlock(RecordBatch batch, const EncodeOptions& options,
                                         std::string spare, ValueCollector* values);

  std::string bytes_;
  // Offsets of the frames in bytes_.
  std::vector<size_t> frames_;
  // The header of the previous record. It depends only on the length, which is often the same.
  uint64_t header_length_ = UINT64_MAX;
  char header_[kHeaderBytes];
  SkippedRecords skipped_;
};

// The result of EncodeBlock.
struct EncodedBlock {
  // The bytes to be appended to the file.
  std::string bytes;
  std::vector<uint64_t> frame_bytes;
  // Masked payload CRCs.
  std::vector<uint32_t> footers;
  // Total size of all frames.
  uint64_t stream_bytes = 0;
  // Memory that can be reused.
  std::string spare;
  Schema schema;
  SkippedRecords skipped;

  // A place where decompression can start. Both offsets count from the block's first byte, in the
  // file and in the stream.
  struct Restart {
    uint64_t file_offset;
    uint64_t stream_offset;
  };
  std::vector<Restart> restarts;
  std::vector<ZlibSegment> zlib_segments;
};

// Computes the CRCs, collects the schema and compresses: the expensive part of writing. The result
// depends on the batch and the options alone. `spare` is memory for the compressed bytes. Adds the
// statistics of the values to `values`, unless it is null. Thread-safe for different batches and
// values.
EncodedBlock EncodeBlock(RecordBatch batch, const EncodeOptions& options, std::string spare = {},
                         ValueCollector* values = nullptr);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_WRITING_BLOCK_H_
