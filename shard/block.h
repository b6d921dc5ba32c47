// Consecutive records of one shard, made ready to be appended to its file.

#ifndef SHARDFEED_SHARD_BLOCK_H_
#define SHARDFEED_SHARD_BLOCK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shard/schema.h"
#include "shard/skipped_records.h"
#include "shardfeed/options.h"
#include "shardfeed/writer.h"
#include "tfrecord/framing.h"
#include "tfrecord/zlib_stream.h"

namespace shardfeed {

// Records being gathered, in frames that still lack the payloads' CRCs. Not thread safe.
class RecordBatch {
 public:
  RecordBatch() = default;
  // Uses the memory of `spare`, whose content is dropped: fresh memory costs more than framing
  // does.
  explicit RecordBatch(std::string spare) : bytes_(std::move(spare)) { bytes_.clear(); }

  void Add(std::string_view payload);

  // For a payload that is built in place: append it to the string that Begin returns, then call
  // End. Nothing else may be done with the batch between.
  std::string* Begin();
  void End();
  // In the place of End, for a record that turned out to be broken: drops what was begun. `what` is
  // wrong with it, for the manifest.
  void Skip(std::string what);

  size_t num_records() const { return frames_.size(); }
  // All frames, in bytes.
  size_t size() const { return bytes_.size(); }
  bool empty() const { return frames_.empty(); }

 private:
  friend struct EncodedBlock EncodeBlock(RecordBatch batch, const EncodeOptions& options,
                                         std::string spare);

  std::string bytes_;
  std::vector<size_t> frames_;  // where each starts in bytes_
  // Records are often as long as the one before, and a header is a function of the length.
  uint64_t header_length_ = UINT64_MAX;
  char header_[kHeaderBytes];
  SkippedRecords skipped_;
};

// What EncodeBlock makes of a batch.
struct EncodedBlock {
  std::string bytes;  // as they will stand in the file
  std::vector<uint64_t> frame_bytes;
  std::vector<uint32_t> footers;  // masked payload CRCs
  uint64_t stream_bytes = 0;      // of all frames
  std::string spare;              // memory that is not needed any more
  Schema schema;
  SkippedRecords skipped;

  // Where decompression can start: offsets from the block's first byte, in the file and in the
  // stream.
  struct Restart {
    uint64_t file_offset;
    uint64_t stream_offset;
  };
  std::vector<Restart> restarts;
  std::vector<ZlibSegment> zlib_segments;
};

// Computes the CRCs, gathers the schema and compresses: the expensive part of writing, safe to do
// on any thread for any block, and a function of the batch alone. `spare`: memory for compressed
// bytes.
EncodedBlock EncodeBlock(RecordBatch batch, const EncodeOptions& options, std::string spare = {});

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_BLOCK_H_
