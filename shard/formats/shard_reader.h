// Reads one shard sequentially.

#ifndef SHARDFEED_SHARD_FORMATS_SHARD_READER_H_
#define SHARDFEED_SHARD_FORMATS_SHARD_READER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/file.h"
#include "shardfeed/options.h"
#include "tfrecord/decompress.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {

// Detects the format of a shard from its first bytes, and whether its name ends with .tar, .tar.gz
// or .tgz: see DetectFormat. What is named *.mds is an MDS shard, and what is named *.array_record
// or *.array_record-* an ArrayRecord shard, unless it starts with a record.
// Messages name the file.
// InvalidArgument: a compressed MDS shard.
// DataLoss also for an empty file named *.tar, which even an archive without members is not.
absl::StatusOr<ShardFormat> DetectShardFormat(const File& file);

class ShardReader;

struct ShardReaderOptions {
  CrcCheck check = CrcCheck::kAll;
  size_t block_bytes = 1 << 20;
  // For compressed shards: reports restart points as they are passed.
  DecompressOptions decompress;
  // A reader of the same MDS or ArrayRecord shard, whose header or footer is used again.
  const ShardReader* like = nullptr;
  // Used instead of the footer of an ArrayRecord shard, which may be damaged or long; null: the
  // footer. Its chunks may be only those of the records that are read.
  std::shared_ptr<const ArrayRecordFooter> array_record;
  // As RecordStreamOptions::indexed_end.
  std::function<uint64_t(uint64_t record, uint64_t offset)> indexed_end;
};

// Reads the blocks of one shard, raw or compressed. Not thread-safe.
class ShardReader {
 public:
  // Errors: those of File::Open and of DetectShardFormat.
  static absl::StatusOr<std::unique_ptr<ShardReader>> Open(const std::string& path,
                                                           ShardReaderOptions options = {});
  // Opens a shard to read from record `first_record` on, whose frame starts at `stream_offset`. For
  // a compressed shard, `restart` must be a restart point at or before it.
  static absl::StatusOr<std::unique_ptr<ShardReader>> OpenAt(
      std::shared_ptr<const File> file, ShardFormat format, const RestartPoint& restart,
      uint64_t stream_offset, uint64_t first_record, ShardReaderOptions options = {});

  // See RecordStream::Next; messages begin with the path.
  absl::Status Next(RecordBlock* block);

  RecordStream& stream() { return *stream_; }
  // Null for a raw shard.
  Decompressor* decompressor() { return decompressor_.get(); }
  const File& file() const { return *file_; }
  Compression compression() const { return format_.compression; }
  Framing framing() const { return format_.framing; }
  // The header of an MDS shard; null for other shards.
  const MdsHeader* mds() const { return mds_.get(); }
  // The footer of an ArrayRecord shard; null for other shards.
  const ArrayRecordFooter* array_record() const { return array_record_.get(); }
  // Returns where `record`, which is at `stream_offset`, is in the file of a raw shard.
  uint64_t FileOffset(uint64_t record, uint64_t stream_offset) const;
  // Number of bytes of the file consumed so far, for progress.
  uint64_t file_position() const;

 private:
  ShardReader() = default;

  std::shared_ptr<const File> file_;
  ShardFormat format_;
  absl::StatusOr<uint64_t> OpenPlaces(uint64_t first_record, const ShardReader* like,
                                      RecordStreamOptions* stream);

  std::shared_ptr<const MdsHeader> mds_;
  std::shared_ptr<const ArrayRecordFooter> array_record_;
  std::unique_ptr<FileSource> source_;
  std::unique_ptr<Decompressor> decompressor_;
  std::unique_ptr<RecordStream> stream_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FORMATS_SHARD_READER_H_
