// Inflates the intact parts of a damaged compressed shard.

#ifndef SHARDFEED_SHARD_INDEX_CONTENT_STRETCHES_H_
#define SHARDFEED_SHARD_INDEX_CONTENT_STRETCHES_H_

#include <zlib.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "io/byte_source.h"
#include "io/file.h"
#include "shard/index/index.h"
#include "shardfeed/options.h"
#include "tfrecord/decompress.h"

namespace shardfeed {

// Delivers the content in stretches. Each stretch ends at damage, and the next one starts where
// inflating can begin again: at a GZIP member, at a full-flush point before a record, or at a
// restart point of the index. A damaged header before intact data loses nothing. Content inflated
// from damaged data may be wrong, so callers must check the CRCs of the records. Not thread-safe.
class ContentStretches : public ByteSource {
 public:
  // `index` is null, or matches the shard apart from the damage. `shift` is the number of bytes
  // that were inserted into the file (or removed, if negative) since the index was built.
  ContentStretches(std::shared_ptr<const File> file, Compression compression,
                   std::shared_ptr<const ShardIndex> index, int64_t shift);
  ~ContentStretches() override;

  // Guesses the compression of a file whose first bytes are damaged from the rest of its header or,
  // if `thorough`, from any place where inflating could begin. Nullopt: there is no evidence.
  static absl::StatusOr<std::optional<Compression>> Guess(std::shared_ptr<const File> file,
                                                          bool thorough);

  // Reads content of the current stretch; the first one starts at the beginning of the file.
  // Returns zero at the end of the stretch. Errors are those of reading the file.
  absl::StatusOr<size_t> Read(absl::Span<char> dst) override;

  // Advances to the next stretch; returns false if there is none. `delivered` is the stream offset
  // up to which records have been read: with an index, the next stretch starts after it.
  absl::StatusOr<bool> Next(uint64_t delivered);

  // Why the current stretch ended; empty if it ended at the intact end of the file.
  const std::string& damage() const { return damage_; }
  // File offset of the damaged member or segment, or of the current stretch.
  uint64_t file_begin() const { return unit_begin_; }
  // File offset up to which the file has been read.
  uint64_t file_position() const { return input_end_; }
  // Stream offset of the current stretch, if the index has it.
  std::optional<uint64_t> stream_offset() const { return stream_offset_; }

 private:
  struct Point {
    uint64_t file_offset;
    uint64_t stream_offset;
  };

  absl::StatusOr<bool> BeginUnit();
  // Returns whether the index lists another stream offset for a member or segment that starts at
  // `file_offset`.
  bool IsOutOfStep(uint64_t file_offset, size_t inflated) const;
  absl::StatusOr<size_t> Inflate(absl::Span<char> dst);
  void BeginInflate(uint64_t at, int window_bits);
  void EndInflate();
  void Damage(std::string what);
  // Fills `dst` from the file; returns the number of bytes read.
  absl::StatusOr<size_t> ReadAt(uint64_t at, absl::Span<char> dst) const;
  // Returns the first `size` bytes of the content inflated from `at` on.
  absl::StatusOr<std::string> Peek(uint64_t at, int window_bits, size_t size) const;
  absl::StatusOr<bool> RecordStartsAt(uint64_t at) const;
  // Returns the file offset, after a damaged header at `from`, of deflated data that begins with a
  // record; the size of the file if there is none.
  absl::StatusOr<uint64_t> FindData(uint64_t from) const;
  // Both return the file offset, at or after `from`, of the next member or segment that can be
  // inflated independently; the size of the file if there is none.
  absl::StatusOr<uint64_t> NextMember(uint64_t from) const;
  absl::StatusOr<uint64_t> NextSegment(uint64_t from) const;
  absl::StatusOr<uint64_t> Find(
      uint64_t from, size_t overlap,
      const std::function<absl::StatusOr<size_t>(std::string_view bytes, uint64_t at)>& find) const;
  absl::StatusOr<bool> BeginAt(const RestartPoint& point);
  std::optional<uint64_t> StreamOffsetAt(uint64_t file_offset) const;

  const std::shared_ptr<const File> file_;
  const Compression compression_;
  const std::shared_ptr<const ShardIndex> index_;
  const int64_t shift_;
  // Restart points of the index.
  std::vector<Point> points_;

  // Begin of the current member or segment, and an upper bound of its end.
  uint64_t unit_begin_ = 0;
  uint64_t unit_end_ = 0;
  bool unit_end_sure_ = false;
  std::optional<uint64_t> stream_offset_;
  // Stream offset up to which the stretch has been inflated, if known.
  std::optional<uint64_t> stream_end_ = 0;
  std::string damage_;
  bool ended_ = false;

  z_stream zlib_ = {};
  bool inflating_ = false;
  bool raw_ = false;
  // Approximate file offset of the damage.
  uint64_t failed_at_ = 0;
  std::vector<char> input_;
  // File offset of the end of the bytes given to zlib.
  uint64_t input_end_ = 0;

  // For SNAPPY, whose blocks can only be found through the preceding ones.
  std::unique_ptr<FileSource> plain_source_;
  std::unique_ptr<Decompressor> plain_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_INDEX_CONTENT_STRETCHES_H_
