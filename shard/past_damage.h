// What a shard holds from its first damage on. For ShardSalvager.

#ifndef SHARDFEED_SHARD_PAST_DAMAGE_H_
#define SHARDFEED_SHARD_PAST_DAMAGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/file.h"
#include "shard/content_stretches.h"
#include "shard/frame_buffer.h"
#include "shard/index.h"
#include "shardfeed/options.h"
#include "shardfeed/verify.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {

// Where a shard is damaged first, and what is known of it.
struct FirstDamage {
  std::shared_ptr<const File> file;
  Compression compression = Compression::kNone;
  CrcCheck check = CrcCheck::kAll;
  std::shared_ptr<const ShardIndex> index;  // null: there is none, or it does not fit
  std::optional<uint64_t> records;          // how many the shard had
  // What was delivered before.
  uint64_t record = 0;
  uint64_t offset = 0;  // in the stream
  std::string error;
  bool is_start = false;  // not even the compression can be told from the first bytes
};

// By how many bytes the file has grown since the index was made.
int64_t ShiftOf(const File& file, const ShardIndex& index);

// The sound records from the first damage on, in order. Not thread safe.
class PastDamage {
 public:
  explicit PastDamage(FirstDamage first);

  // As ShardSalvager's.
  absl::Status Next(RecordBlock* block);
  const std::vector<DamagedPlace>& damage() const { return damage_; }
  bool numbers_exact() const { return exact_; }
  uint64_t records() const { return records_; }
  uint64_t stream_bytes() const { return frame_buffer_->offset(); }
  uint64_t file_position() const;

 private:
  enum class Step { kRecord, kOn, kEnd };

  absl::StatusOr<Step> TakeStep(size_t* frame_bytes);
  absl::StatusOr<Step> EndStretch();
  void Finish();

  absl::StatusOr<bool> MendHeaderAt(size_t at);
  absl::Status SkipGap(size_t from, std::string kind, std::string detail, bool mendable,
                       uint64_t frame);
  absl::Status SkipIndexed(size_t from, const DamagedPlace& place);
  void AcceptGap(size_t bytes, DamagedPlace place, std::optional<uint64_t> number);
  std::optional<uint64_t> RecordAtOffset(uint64_t offset) const;
  uint64_t FrameSize(uint64_t record) const {
    return first_.index->Offset(record + 1) - first_.index->Offset(record);
  }
  // How many records before `number` were not delivered since the last one.
  uint64_t LostUpTo(uint64_t number) const {
    const uint64_t next = std::max(number_, skip_);
    return number > next ? number - next : 0;
  }
  DamagedPlace Place(std::string kind, std::string detail) const;
  uint64_t FilePlace(uint64_t offset) const;

  const FirstDamage first_;
  std::unique_ptr<FileSource> source_;           // of a raw shard
  std::unique_ptr<ContentStretches> stretches_;  // of a compressed one
  std::unique_ptr<FrameBuffer> frame_buffer_;
  std::vector<DamagedPlace> damage_;
  uint64_t records_;  // delivered, those before the damage too
  bool exact_ = true;
  bool indexed_;       // there is an index, and offsets of the stream are known
  int64_t shift_ = 0;  // of the file against what the index says
  uint64_t skip_ = 0;  // records that were delivered before
  uint64_t number_;    // of the next record
  uint64_t delivered_;
  bool at_start_ = false;  // of a stretch: the next record may start anywhere
  bool open_ = false;      // damage_.back() goes on up to the next record
  bool ended_ = false;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_PAST_DAMAGE_H_
