// The index of one shard: the offset of each record, in a few bytes per record.
//
// The index is a sidecar file (IndexPath in names.h), read by mmap. Layout and reasons:
// docs/index.md. The size of the shard and the digest of its records (RecordsDigest in
// tfrecord/framing.h) bind it to its shard.

#ifndef SHARDFEED_SHARD_INDEX_INDEX_H_
#define SHARDFEED_SHARD_INDEX_INDEX_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "io/output_file.h"
#include "shard/index/length_column.h"
#include "shardfeed/index.h"
#include "shardfeed/options.h"
#include "tfrecord/array_record_footer.h"
#include "tfrecord/decompress.h"
#include "tfrecord/framing.h"
#include "tfrecord/mds_columns.h"

namespace shardfeed {

// An open index. Immutable and thread-safe.
class ShardIndex {
 public:
  // NotFound: no such file. DataLoss: the file is not an index, is damaged, or contradicts itself;
  // the remedy is to rebuild it. An open index has a frame of at least 16 bytes for each record,
  // consecutively from 0 to stream_bytes (where a tar archive does not end yet), restart points
  // that ascend within the file and the stream, the columns of an MDS shard, and the chunks of an
  // ArrayRecord shard. Whether the shard really has these frames is checked by IndexCheck
  // (index_check.h).
  static absl::StatusOr<std::shared_ptr<const ShardIndex>> Open(const std::string& path);
  // Opens an index in memory; `name` is used in messages.
  static absl::StatusOr<std::shared_ptr<const ShardIndex>> FromBytes(std::string bytes,
                                                                     const std::string& name);
  // The same of `bytes` within `holder`, without a copy.
  static absl::StatusOr<std::shared_ptr<const ShardIndex>> Within(
      std::shared_ptr<const std::string> holder, std::string_view bytes, const std::string& name);
  // Parses the header, with which `head` begins, of an index of `file_bytes` bytes.
  static absl::StatusOr<IndexSummary> ParseHeader(std::string_view head, uint64_t file_bytes,
                                                  const std::string& name);
  ~ShardIndex();
  ShardIndex(const ShardIndex&) = delete;
  ShardIndex& operator=(const ShardIndex&) = delete;

  const IndexSummary& summary() const { return summary_; }
  uint64_t records() const { return summary_.records; }

  // Returns the byte offset of the frame of `record` in the decompressed stream, or the end of the
  // stream if record == records(). `record` must not exceed records(). Takes constant time.
  uint64_t Offset(uint64_t record) const;
  // Returns the offset in the file of an uncompressed shard, which that in the stream is except for
  // MDS shards, and ArrayRecord shards, where it is that of the record's chunk.
  uint64_t FileOffset(uint64_t record) const;
  // Returns where what is needed of the file for `record`, which must be below records(), ends.
  uint64_t FileEnd(uint64_t record) const;
  // Returns the chunk of `record`, which must be below records(), of an ArrayRecord shard.
  ArrayRecordChunk ChunkOf(uint64_t record) const;
  // The number of chunks of an ArrayRecord shard; 0 for other shards.
  uint64_t num_chunks() const { return chunk_records_ ? chunk_records_->records() : 0; }
  // Returns what the footer of an ArrayRecord shard says of the chunks that have records of
  // [begin, end), which must not exceed records().
  ArrayRecordFooter FooterOfChunks(uint64_t begin, uint64_t end) const;
  // The columns of an MDS shard; null for other shards.
  const MdsColumns* mds_columns() const { return mds_columns_.get(); }
  // Returns how many of `records`, up to the first that differs, start at the offsets that the
  // index has for `first` and the records after it.
  size_t CountAgreeing(uint64_t first, absl::Span<const Record> records) const;
  // Returns the record whose frame contains byte `offset` of the stream, which must be less than
  // stream_bytes.
  uint64_t RecordAt(uint64_t offset) const;

  // For compressed shards: returns the last restart point at or before `stream_offset`. Inflating
  // its dictionary takes some time.
  RestartPoint RestartBefore(uint64_t stream_offset, bool with_dictionary = true) const;
  // Returns the restart point of that number, without its dictionary.
  RestartPoint PointAt(uint64_t number) const;
  // Returns the dictionary of that point; empty if it has none or it cannot be inflated.
  std::string DictionaryAt(uint64_t number) const;
  // Returns the known starts of blocks between that point and the next one.
  std::vector<DeflateBlock> BlocksBehind(uint64_t number) const;
  // Returns the stream offset of the first restart point at or after `stream_offset`; stream_bytes
  // if there is none.
  uint64_t RestartAtOrAfter(uint64_t stream_offset) const;
  uint64_t num_restart_points() const { return num_restart_points_; }
  // Returns the known starts of deflate blocks between a restart point at `from` and `to`, both
  // stream offsets. Offsets count from the beginning of the file and of the stream, and must not be
  // trusted. Empty if a member or stream ends between the two.
  std::vector<DeflateBlock> BlocksBetween(uint64_t from, uint64_t to) const;
  // Returns where inflating up to `stream_offset` can end: at the first known block or restart
  // point at or after it, without its dictionary, or at the end of the shard.
  RestartPoint EndAtOrAfter(uint64_t stream_offset) const;

  // The length columns, ordered by name. They live as long as the index.
  const std::vector<LengthColumn>& lengths() const { return lengths_; }
  // Returns the length column of that name; null if there is none.
  const LengthColumn* FindLengths(std::string_view name) const;
  // Returns the bytes without the length columns.
  std::string_view BytesBeforeLengths() const { return bytes_.substr(0, restarts_end_); }

  // The bytes of the file, for tests and comparisons.
  std::string_view bytes() const { return bytes_; }

 private:
  ShardIndex() = default;
  absl::Status Parse(const std::string& name);
  // Returns the number of the first restart point at or after `stream_offset`.
  uint64_t FirstRestartFrom(uint64_t stream_offset) const;
  // Returns the number of the last restart point at or before `stream_offset`; 0 if there is none.
  uint64_t LastRestartUpTo(uint64_t stream_offset) const;
  bool GroupsAreSound() const;
  bool PointsAreSound();
  absl::Status ParseMdsColumns();
  absl::Status ParseChunks(const std::string& name);
  // Returns the compressed dictionary of a restart point, and the number of blocks stored after it.
  std::string_view DictionaryOf(uint64_t number, uint64_t* blocks = nullptr) const;

  std::string owned_;
  std::shared_ptr<const std::string> holder_;
  void* mapping_ = nullptr;
  std::string_view bytes_;
  IndexSummary summary_;
  uint64_t directory_offset_ = 0;
  uint64_t restart_offset_ = 0;
  uint64_t num_restart_points_ = 0;
  // The offset after the dictionaries and blocks of all restart points, the columns of an MDS
  // shard, and the chunks of an ArrayRecord shard.
  uint64_t restarts_end_ = 0;
  std::shared_ptr<const MdsColumns> mds_columns_;
  // Within bytes_. The frames of the first one are what precedes the chunks, and the chunks; those
  // of the second one have the number of records of each chunk times kFrameBytes.
  std::shared_ptr<const ShardIndex> chunk_places_;
  std::shared_ptr<const ShardIndex> chunk_records_;
  std::vector<LengthColumn> lengths_;
};

// The compression and the framing in one number, as indexes store it. FormatOf returns nullopt if
// there is no such format.
uint32_t FormatCode(ShardFormat format);
std::optional<ShardFormat> FormatOf(uint32_t code);
inline bool IsRawTar(const IndexSummary& summary) {
  return summary.framing == Framing::kTar && summary.compression == Compression::kNone;
}
// What users should know of an MDS shard (MdsColumns::Notes), or of an ArrayRecord shard whose
// chunks have several records. None of other shards.
std::vector<std::string> FormatNotes(const ShardIndex& index);
// Whether a raw shard can have these sizes: its frames fill it, except for the end of a tar archive
// and the header of an MDS shard. Nothing bounds those of an ArrayRecord shard, whose chunks may be
// compressed.
bool FillsShard(const IndexSummary& summary);

// Returns the bytes of `index` with these length columns, of which each replaces one of the same
// name; its other columns are kept. Errors: those of FormatLengthColumns.
absl::StatusOr<std::string> WithLengthColumns(const ShardIndex& index,
                                              absl::Span<const NewLengthColumn> columns);

// Writes an index, record by record. Not thread-safe.
class IndexBuilder {
 public:
  // Writes to `file`, which must be empty and outlive the builder, or to memory if it is null.
  // Writing to a file takes about 0.1 bytes of memory per record.
  explicit IndexBuilder(OutputFile* file = nullptr) : file_(file) {}

  // Adds the next record's frame. Frames are consecutive from byte 0 of the stream.
  absl::Status AddFrame(uint64_t frame_bytes);
  void AddRestartPoint(const RestartPoint& point);
  // Adds a block that starts after the last restart point.
  void AddDeflateBlock(const DeflateBlock& block);
  // Sets the description of the columns, which each index of an MDS shard has.
  void SetMdsColumns(std::string config) { mds_columns_ = std::move(config); }
  // Sets the chunks, which each index of an ArrayRecord shard has. Takes some bytes of memory for
  // each.
  absl::Status SetChunks(const ArrayRecordFooter& footer);

  // Completes the index. Ignores the records and stream_bytes of `summary`, which it knows itself.
  // Returns the bytes of an index in memory, or an empty string for a file (which is not synced).
  absl::StatusOr<std::string> Finish(IndexSummary summary);

  uint64_t records() const { return records_; }
  uint64_t stream_bytes() const { return stream_bytes_; }

 private:
  absl::Status EndGroup();
  absl::Status Flush();

  OutputFile* file_;
  // Bytes after the header that have not been written to the file; all of them if in memory.
  std::string body_;
  uint64_t body_written_ = 0;
  uint32_t body_crc_ = 0;
  std::vector<uint64_t> group_;      // Frame sizes.
  std::vector<uint64_t> directory_;  // Offsets of the groups.
  std::string restarts_;
  DeflateBlock last_restart_;
  std::string dictionaries_;
  std::string mds_columns_;
  std::string chunks_;
  uint64_t records_ = 0;
  uint64_t stream_bytes_ = 0;
  uint64_t group_base_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_INDEX_INDEX_H_
