// Splits a stream of bytes into blocks of records.

#ifndef SHARDFEED_TFRECORD_RECORD_STREAM_H_
#define SHARDFEED_TFRECORD_RECORD_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/scratch.h"
#include "io/buffer.h"
#include "io/byte_source.h"
#include "tfrecord/array_record_decoder.h"
#include "tfrecord/array_record_footer.h"
#include "tfrecord/framed_payloads.h"
#include "tfrecord/framing.h"
#include "tfrecord/mds_header.h"

namespace shardfeed {

// Consecutive records. The views are valid as long as `buffer`: keep the block, or a copy of its
// `buffer`, while they are in use.
struct RecordBlock {
  std::shared_ptr<const Buffer> buffer;
  std::vector<Record> records;
  // Index of records[0] in the stream.
  uint64_t first_record = 0;
};

// Maximum size in bytes of a record read from compressed data, for all readers of the process: the
// content that a small file inflates to has no other bound. Thread-safe; a change applies to
// streams that are created later.
inline constexpr uint64_t kDefaultMaxRecordBytes = uint64_t{2} << 30;
void SetMaxRecordBytes(uint64_t bytes);
uint64_t MaxRecordBytes();

struct RecordStreamOptions {
  Framing framing = Framing::kTfRecord;
  CrcCheck check = CrcCheck::kAll;
  // Size of a read, and the usual size of a block; larger records get a buffer of their own size.
  size_t block_bytes = 1 << 20;
  // Stream offset of the first byte of the source, and index of the first record there.
  uint64_t stream_offset = 0;
  uint64_t first_record = 0;
  // The header of an MDS shard, of whose samples the source gives the bytes from first_record on.
  std::shared_ptr<const MdsHeader> mds;
  // The footer of an ArrayRecord shard, of which the source gives the bytes from the chunk of
  // first_record on.
  std::shared_ptr<const ArrayRecordFooter> array_record;
  // Upper bound on the size of a frame, and of a tar archive: the size of the file, if it is raw. A
  // larger frame counts as cut. Even without a bound, memory grows only with the bytes actually
  // read.
  uint64_t max_frame_bytes = UINT64_MAX;
  // A record larger than this is not read; Next returns ResourceExhausted.
  uint64_t max_record_bytes = UINT64_MAX;
  // Returns where the samples of a tar archive end by an index that has this record at this offset,
  // and 0 if none does. Headers that were overwritten with zeros look like the end. May be null.
  std::function<uint64_t(uint64_t record, uint64_t offset)> indexed_end;
};

// Splits decompressed bytes into records. Not thread-safe. `source` must outlive the stream.
//
// A block without records is the regular end of the stream. DataLoss with defect() other than kNone
// is damaged framing, at record() and offset(), after which Recover can continue. Any other error
// comes from the source or is a record larger than max_record_bytes. After an error, Next must not
// be called again before Recover or Restart.
class RecordStream {
 public:
  RecordStream(ByteSource* source, RecordStreamOptions options);

  // Delivers the records that precede damage first; the next call reports the damage.
  absl::Status Next(RecordBlock* block);

  // The defect of the record at which Next failed.
  FrameDefect defect() const { return defect_; }
  // Index and offset (in the decompressed stream) of the next record, or of the defective one.
  uint64_t record() const { return record_; }
  uint64_t offset() const { return offset_; }

  // The number of members of a tar shard up to here, apart from folders, that belong to no sample.
  uint64_t tar_members_skipped() const { return skipped_; }

  // After a framing defect, not of a tar shard: skips to the next readable record and returns the
  // number of bytes skipped, including the damaged record. If the payload is damaged, or the sample
  // of an MDS shard, only that record is skipped, and of an ArrayRecord shard the rest of its
  // chunk; after a bad length, the next intact header is searched for. If there is none, the rest
  // of the stream is skipped, and Next then reports the end.
  absl::StatusOr<uint64_t> Recover();

  // Called after an error of the source, if it continues at another position: discards the bytes of
  // a record that cannot be completed and returns their number.
  uint64_t Restart();

 private:
  FrameScan Scan(std::vector<Record>* records);
  absl::Status EndTar(size_t zeros, std::vector<Record>* records);
  absl::Status NextMds(RecordBlock* block);
  absl::Status NextArrayRecord(RecordBlock* block);
  std::string AddOpenChunk(const ArrayRecordChunk& chunk, std::vector<uint64_t>* offsets);
  // Moves payloads_, which begin at `offsets` of the stream, to the block.
  void Deliver(const std::vector<uint64_t>& offsets, RecordBlock* block);
  std::string_view Unread() const { return {buffer_->data() + begin_, end_ - begin_}; }
  // Reads more bytes into a buffer that can grow to hold a frame of `frame_bytes` (0: unknown).
  void Fill(uint64_t frame_bytes);

  ByteSource* source_;
  const RecordStreamOptions options_;
  std::shared_ptr<Buffer> buffer_;
  // The bytes [begin_, end_) of buffer_ have been read but not yet delivered.
  size_t begin_ = 0;
  size_t end_ = 0;
  bool source_ended_ = false;
  uint64_t skipped_ = 0;
  FramedPayloads payloads_;
  ArrayRecordDecoder decoder_;
  Scratch decoded_;  // the records of a chunk
  // What followed the last sample of a tar archive; nullopt before.
  std::optional<absl::Status> tar_end_;
  // Reported after the records that precede it.
  absl::Status source_error_;
  uint64_t record_;
  uint64_t offset_;
  FrameDefect defect_ = FrameDefect::kNone;
  uint64_t defect_frame_bytes_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_RECORD_STREAM_H_
