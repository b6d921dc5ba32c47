// Records that are read together: the bytes to read, and the views once they are read.

#ifndef SHARDFEED_READER_PLAN_UNIT_H_
#define SHARDFEED_READER_PLAN_UNIT_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "io/buffer.h"
#include "reader/shards/shard_table.h"
#include "shard/index/index.h"
#include "shardfeed/reader.h"
#include "tfrecord/framing.h"
#include "tfrecord/inflate_between.h"

namespace shardfeed {

// Consecutive records of one shard that are read at once.
struct Extent {
  size_t shard = 0;
  uint64_t first_record = 0;  // number of the first record in the shard
  uint64_t records = 0;
  uint64_t offset = 0;  // offset of the frames in the (decompressed) stream
  uint64_t bytes = 0;
  // The part of the file that is read: the frames, or the data from which they are inflated, from
  // the restart point before them to a place where inflating can end. Empty: too much would have to
  // be inflated, or the index is wrong there, and the shard is read as a stream.
  uint64_t file_offset = 0;
  uint64_t file_bytes = 0;
  // In a compressed shard, the size of `file_bytes` when inflated. In an ArrayRecord shard, the
  // size in the stream of all records of the chunks that are read.
  uint64_t content_bytes = 0;
  // Indices of the needed records within the extent, in ascending order; empty: all. The others are
  // neither checked nor delivered.
  std::vector<uint32_t> wanted;
  std::shared_ptr<const ShardIndex> index;

  bool compressed() const { return index->summary().compression != Compression::kNone; }
  Framing framing() const { return index->summary().framing; }
  bool tar() const { return framing() == Framing::kTar; }
  // Whether the payloads differ from the bytes in the file and have memory of their own.
  bool decoded() const { return framing() == Framing::kMds || framing() == Framing::kArrayRecord; }
  // Whether its bytes, as they are in the file, have checksums.
  bool has_checksums() const {
    return !compressed() && (framing() == Framing::kTfRecord || framing() == Framing::kArrayRecord);
  }
};

// Usually a piece of an order is in one shard.
using Extents = absl::InlinedVector<Extent, 1>;
// What keeps the bytes of views alive.
using BufferRefs = absl::InlinedVector<std::shared_ptr<const void>, 1>;

// The extents of `records` records from number `first` on: one per shard.
absl::Status AppendExtents(const ShardTable& table, uint64_t first, uint64_t records,
                           Extents* extents);

// Checks `frames`, those of a raw extent, and appends the view of each needed payload or, for a
// damaged record, an empty view and an entry in `damaged`. A damaged record never hides the next
// one, because the index says where that begins. Those of a tar shard are overwritten: see
// tar_frames.h. Payloads that are decoded() are in buffers of `pool`, which are added to
// `buffers`; those of others are in `frames`.
void CheckExtent(const ShardTable& table, const Extent& extent, absl::Span<char> frames,
                 CrcCheck check, BufferPool& pool, std::vector<std::string_view>* payloads,
                 BufferRefs* buffers, std::vector<DamagedRecord>* damaged);

// Bytes of memory that the payloads of an extent that is decoded() take at most, besides those of
// its file.
uint64_t DecodedMemory(const Extent& extent);

// As CheckExtent if no bytes could be read: all needed records are damaged.
void AllDamaged(const ShardTable& table, const Extent& extent, std::string_view what,
                std::vector<std::string_view>* payloads, std::vector<DamagedRecord>* damaged);

// Size of the memory into which file_bytes of a compressed extent are read, behind
// kInflateRoomBefore bytes: see InflateBetween.
uint64_t RoomBytes(const Extent& extent);
// Bytes of memory that inflating a compressed extent takes, besides its room.
uint64_t InflationMemory(const Extent& extent);

// Inflates an extent of a compressed shard into buffers of `pool`. `room` has RoomBytes(extent),
// and in them the bytes read from the file; it is overwritten. Null: the shard is read here, as a
// stream, as it also is where anything is wrong. If the data cannot be inflated further, the
// remaining records of the extent are damaged.
//
// `bytes_read` counts the bytes of the file that are read here, and `let_go` the difference between
// InflationMemory and what the buffers hold. Errors: those of opening and reading the file.
absl::Status InflateExtent(const ShardTable& table, const Extent& extent, Buffer* room,
                           CrcCheck check, BufferPool& pool,
                           std::vector<std::string_view>* payloads, BufferRefs* buffers,
                           std::vector<DamagedRecord>* damaged, uint64_t* bytes_read,
                           uint64_t* let_go);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_PLAN_UNIT_H_
