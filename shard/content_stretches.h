// What can still be inflated of a compressed shard that is damaged.

#ifndef SHARDFEED_SHARD_CONTENT_STRETCHES_H_
#define SHARDFEED_SHARD_CONTENT_STRETCHES_H_

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
#include "shard/index.h"
#include "shardfeed/options.h"
#include "tfrecord/decompress.h"

namespace shardfeed {

// The content in stretches: each goes up to damage, and the next one starts where inflating can
// begin anew: at a GZIP member, at a full-flush point before a record, or at a restart point of the
// index. A damaged header in front of sound data costs nothing. What is inflated of a damaged place
// may be wrong, so the CRCs of the records decide. Not thread safe.
class ContentStretches : public ByteSource {
 public:
  // `index` is null, or one that fits the shard but for the damage. `shift`: so many bytes were
  // inserted into the file (less than 0: removed) since the index was made.
  ContentStretches(std::shared_ptr<const File> file, Compression compression,
                   std::shared_ptr<const ShardIndex> index, int64_t shift);
  ~ContentStretches() override;

  // How a file is compressed whose first bytes are damaged, by what is left of its header or, if
  // `thorough`, by any place where inflating could begin; nullopt: by nothing of that.
  static absl::StatusOr<std::optional<Compression>> Guess(std::shared_ptr<const File> file,
                                                          bool thorough);

  // Content of the present stretch, the first one starting at the beginning of the file; zero at
  // its end. Errors are those of reading the file.
  absl::StatusOr<size_t> Read(absl::Span<char> dst) override;

  // Goes to the next stretch; false when there is none. `delivered` is the place in the stream up
  // to which records were read: with an index, the stretch starts behind it.
  absl::StatusOr<bool> Next(uint64_t delivered);

  // Why the present stretch ended; empty where that is the sound end of the file.
  const std::string& damage() const { return damage_; }
  // Where in the file the damaged member or segment starts, or where the present stretch does.
  uint64_t file_begin() const { return unit_begin_; }
  // How far the file was read.
  uint64_t file_position() const { return input_end_; }
  // Where in the stream the present stretch starts, as far as the index knows.
  std::optional<uint64_t> stream_offset() const { return stream_offset_; }

 private:
  struct Point {
    uint64_t file_offset;
    uint64_t stream_offset;
  };

  absl::StatusOr<bool> BeginUnit();
  // Whether the index has another place in the stream for a member or segment that starts there.
  bool IsOutOfStep(uint64_t file_offset, size_t inflated) const;
  absl::StatusOr<size_t> Inflate(absl::Span<char> dst);
  void BeginInflate(uint64_t at, int window_bits);
  void EndInflate();
  void Damage(std::string what);
  // Fills `dst` from the file; returns how much there was.
  absl::StatusOr<size_t> ReadAt(uint64_t at, absl::Span<char> dst) const;
  // The first bytes of what is inflated from there on.
  absl::StatusOr<std::string> Peek(uint64_t at, int window_bits, size_t size) const;
  absl::StatusOr<bool> RecordStartsAt(uint64_t at) const;
  // Where, behind a damaged header, deflated data start that begin with a record.
  absl::StatusOr<uint64_t> FindData(uint64_t from) const;
  // Where the next member or segment starts that can be inflated by itself, from `from` on; the
  // size of the file when there is none.
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
  std::vector<Point> points_;  // of the index

  uint64_t unit_begin_ = 0;  // of the member or segment
  uint64_t unit_end_ = 0;    // up to which it may reach at most
  bool unit_end_sure_ = false;
  std::optional<uint64_t> stream_offset_;
  std::optional<uint64_t> stream_end_ = 0;  // of what was inflated of the stretch, if known
  std::string damage_;
  bool ended_ = false;

  z_stream zlib_ = {};
  bool inflating_ = false;
  bool raw_ = false;
  uint64_t failed_at_ = 0;  // in the file, about
  std::vector<char> input_;
  uint64_t input_end_ = 0;  // in the file, of what was given to zlib

  // SNAPPY, whose blocks can only be found by way of those before them.
  std::unique_ptr<FileSource> plain_source_;
  std::unique_ptr<Decompressor> plain_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_CONTENT_STRETCHES_H_
