// Blocks of records from a stream of bytes.

#ifndef SHARDFEED_TFRECORD_RECORD_STREAM_H_
#define SHARDFEED_TFRECORD_RECORD_STREAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/buffer.h"
#include "io/byte_source.h"
#include "tfrecord/framing.h"

namespace shardfeed {

// Consecutive records. The views live as long as `buffer` does: keep the block, or a copy of its
// `buffer`, for as long as they are used.
struct RecordBlock {
  std::shared_ptr<const Buffer> buffer;
  std::vector<Record> records;
  uint64_t first_record = 0;  // number in the stream of records[0]
};

// The longest record that is read from compressed data, in bytes, of all readers of the process:
// what a small file inflates to has no other bound. Thread safe; counts for streams made later.
inline constexpr uint64_t kDefaultMaxRecordBytes = uint64_t{2} << 30;
void SetMaxRecordBytes(uint64_t bytes);
uint64_t MaxRecordBytes();

struct RecordStreamOptions {
  CrcCheck check = CrcCheck::kAll;
  // Read at a time, and the usual size of a block; larger records get a buffer of their own size.
  size_t block_bytes = 1 << 20;
  // Position of the first byte of the source in the stream, and number of the first record there.
  uint64_t stream_offset = 0;
  uint64_t first_record = 0;
  // No record is longer than this, in whole frames: the size of the file, if it is raw. A longer
  // one counts as cut. Where nothing is known, memory still grows only with what is really read.
  uint64_t max_frame_bytes = UINT64_MAX;
  // A longer one is not read, which is ResourceExhausted.
  uint64_t max_record_bytes = UINT64_MAX;
};

// Splits decompressed bytes into records. Not thread safe. `source` must outlive it.
//
// What Next says of the stream ends in one of four ways: a block without records is the clean end;
// DataLoss with defect() other than kNone is damage in the framing, at record() and offset(), after
// which Recover can go on; any other error comes from the source; and after either, without
// Recover, Next is not to be called again.
class RecordStream {
 public:
  RecordStream(ByteSource* source, RecordStreamOptions options);

  // The records that stand before damage are delivered first; the next call reports it.
  absl::Status Next(RecordBlock* block);

  // What is wrong with the record at which Next failed.
  FrameDefect defect() const { return defect_; }
  // Number and offset (in the decompressed stream) of the next record, or of the one at fault.
  uint64_t record() const { return record_; }
  uint64_t offset() const { return offset_; }

  // After a framing defect: goes to the next record that can be read and returns how many bytes lie
  // between, counting the damaged record. A record whose payload is damaged is left out alone;
  // after a bad length, the next sound header is looked for. Everything up to the end is skipped
  // when there is none, and Next then reports the end.
  absl::StatusOr<uint64_t> Recover();

  // After an error of the source, which then delivers from another place: forgets what was read of
  // a record that cannot be completed. Returns how many bytes that was.
  uint64_t Restart();

 private:
  std::string_view Unread() const { return {buffer_->data() + begin_, end_ - begin_}; }
  // Reads on, into a buffer that a frame of `frame_bytes` fits in (0: unknown).
  void Fill(uint64_t frame_bytes);

  ByteSource* source_;
  const RecordStreamOptions options_;
  std::shared_ptr<Buffer> buffer_;
  size_t begin_ = 0;  // [begin_, end_) of buffer_ is read and not yet delivered
  size_t end_ = 0;
  bool source_ended_ = false;
  absl::Status source_error_;  // reported after the records before it
  uint64_t record_;
  uint64_t offset_;
  FrameDefect defect_ = FrameDefect::kNone;
  uint64_t defect_frame_bytes_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_RECORD_STREAM_H_
