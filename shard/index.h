// The index of one shard: where each record stands, in a few bytes a record.
//
// A sidecar file (IndexPath in spec.h), read by mmap. Layout and reasons: docs/index.md. It is
// bound to its shard by the size of the file and by the digest of its records (RecordsDigest in
// tfrecord/framing.h).

#ifndef SHARDFEED_SHARD_INDEX_H_
#define SHARDFEED_SHARD_INDEX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "io/output_file.h"
#include "shardfeed/index.h"
#include "shardfeed/options.h"
#include "tfrecord/decompress.h"
#include "tfrecord/framing.h"

namespace shardfeed {

// An open index. Immutable, thread safe.
class ShardIndex {
 public:
  // NotFound: no such file. DataLoss: not an index, damaged, or one that contradicts itself; the
  // remedy is to make it anew. What is open holds a frame of at least 16 bytes for each record, one
  // after another from 0 to stream_bytes, and restart points that rise within the file and the
  // stream. Whether the shard's frames stand there is for IndexCheck (index_check.h) to tell.
  static absl::StatusOr<std::shared_ptr<const ShardIndex>> Open(const std::string& path);
  // An index in memory; `name` is for messages.
  static absl::StatusOr<std::shared_ptr<const ShardIndex>> FromBytes(std::string bytes,
                                                                     const std::string& name);
  ~ShardIndex();
  ShardIndex(const ShardIndex&) = delete;
  ShardIndex& operator=(const ShardIndex&) = delete;

  const IndexSummary& summary() const { return summary_; }
  uint64_t records() const { return summary_.records; }

  // Where the frame of `record` starts in the decompressed stream, in bytes; for record ==
  // records(), where the stream ends. Constant time. `record` <= records().
  uint64_t Offset(uint64_t record) const;
  // How many of `records` start where the index says that record `first` and those after it do; as
  // many as there are when all of them do.
  size_t CountAgreeing(uint64_t first, absl::Span<const Record> records) const;
  // The record whose frame holds byte `offset` of the stream, which is below stream_bytes.
  uint64_t RecordAt(uint64_t offset) const;

  // Compressed shards: the last point at or before `stream_offset`. Its dictionary takes some time.
  RestartPoint RestartBefore(uint64_t stream_offset, bool with_dictionary = true) const;
  // The restart point of that number, without its dictionary.
  RestartPoint PointAt(uint64_t number) const;
  // Its dictionary; empty where there is none or it cannot be inflated.
  std::string DictionaryAt(uint64_t number) const;
  // The blocks known to start between it and the next one.
  std::vector<DeflateBlock> BlocksBehind(uint64_t number) const;
  // Where in the stream the first point at or behind `stream_offset` is; stream_bytes if none is.
  uint64_t RestartAtOrAfter(uint64_t stream_offset) const;
  uint64_t num_restart_points() const { return num_restart_points_; }
  // The deflate blocks known to start between a restart point and `to`, both in the stream; bits
  // and bytes count from the beginning of the file and of the stream. Not to be believed; empty
  // where a member or stream ends between the two.
  std::vector<DeflateBlock> BlocksBetween(uint64_t from, uint64_t to) const;
  // Where inflating can end that goes up to `stream_offset`: the first block known or restart point
  // at or behind it, without its dictionary, or the end of the shard.
  RestartPoint EndAtOrAfter(uint64_t stream_offset) const;

  // The file's bytes, for tests and for comparing.
  std::string_view bytes() const { return bytes_; }

 private:
  ShardIndex() = default;
  absl::Status Parse(const std::string& name);
  // Number of the first restart point at or behind it.
  uint64_t FirstRestartFrom(uint64_t stream_offset) const;
  // Number of the last one at or before it; 0 if none is.
  uint64_t LastRestartUpTo(uint64_t stream_offset) const;
  bool GroupsAreSound() const;
  bool PointsAreSound() const;
  // The dictionary of a restart point, compressed, and how many blocks stand behind that.
  std::string_view DictionaryOf(uint64_t number, uint64_t* blocks = nullptr) const;

  std::string owned_;
  void* mapping_ = nullptr;
  std::string_view bytes_;
  IndexSummary summary_;
  uint64_t directory_offset_ = 0;
  uint64_t restart_offset_ = 0;
  uint64_t num_restart_points_ = 0;
};

// Writes an index, record after record. Not thread safe.
class IndexBuilder {
 public:
  // Into `file`, which must be empty and outlive the builder; or, without one, into memory. Memory
  // for a file is 0.1 byte a record.
  explicit IndexBuilder(OutputFile* file = nullptr) : file_(file) {}

  // The next record's frame. Frames stand one after another from byte 0 of the stream.
  absl::Status AddFrame(uint64_t frame_bytes);
  void AddRestartPoint(const RestartPoint& point);
  // One that starts behind the last restart point.
  void AddDeflateBlock(const DeflateBlock& block);

  // `summary.records` and `summary.stream_bytes` are filled in. Returns the bytes of an index in
  // memory, an empty string for one in a file (which is not synced).
  absl::StatusOr<std::string> Finish(IndexSummary summary);

  uint64_t records() const { return records_; }
  uint64_t stream_bytes() const { return stream_bytes_; }

 private:
  absl::Status EndGroup();
  absl::Status Flush();

  OutputFile* file_;
  std::string body_;  // not yet written; in memory: all after the header
  uint64_t body_written_ = 0;
  uint32_t body_crc_ = 0;
  std::vector<uint64_t> group_;      // frame sizes
  std::vector<uint64_t> directory_;  // where each group starts
  std::string restarts_;
  DeflateBlock last_restart_;
  std::string dictionaries_;
  uint64_t records_ = 0;
  uint64_t stream_bytes_ = 0;
  uint64_t group_base_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_INDEX_H_
