// Reads a shard from its first damage on. Used by ShardSalvager.

#ifndef SHARDFEED_SHARD_VERIFY_PAST_DAMAGE_H_
#define SHARDFEED_SHARD_VERIFY_PAST_DAMAGE_H_

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
#include "shard/index/content_stretches.h"
#include "shard/index/index.h"
#include "shard/verify/frame_buffer.h"
#include "shardfeed/options.h"
#include "shardfeed/verify.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {

// The place of the first damage of a shard, and what is known about the shard.
struct FirstDamage {
  std::shared_ptr<const File> file;
  Compression compression = Compression::kNone;
  CrcCheck check = CrcCheck::kAll;
  // Null if there is no index, or it does not match the shard.
  std::shared_ptr<const ShardIndex> index;
  // The number of records that the shard had, if known.
  std::optional<uint64_t> records;
  // Number of records, and of bytes of the stream, delivered before the damage.
  uint64_t record = 0;
  uint64_t offset = 0;
  std::string error;
  // True if the first bytes do not even reveal the compression.
  bool is_start = false;
};

// Returns the number of bytes by which the file has grown since the index was built; negative if it
// has shrunk.
int64_t ShiftOf(const File& file, const ShardIndex& index);

// Delivers the intact records from the first damage on, in order. Not thread-safe.
class PastDamage {
 public:
  explicit PastDamage(FirstDamage first);

  // See ShardSalvager.
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
  // Returns the number of records before `number` that were lost since the last one delivered.
  uint64_t LostUpTo(uint64_t number) const {
    const uint64_t next = std::max(number_, skip_);
    return number > next ? number - next : 0;
  }
  DamagedPlace Place(std::string kind, std::string detail) const;
  uint64_t FilePlace(uint64_t offset) const;

  const FirstDamage first_;
  // One of these two is null: source_ is for a raw shard, stretches_ for a compressed one.
  std::unique_ptr<FileSource> source_;
  std::unique_ptr<ContentStretches> stretches_;
  std::unique_ptr<FrameBuffer> frame_buffer_;
  std::vector<DamagedPlace> damage_;
  // Number of records delivered, including those before the damage.
  uint64_t records_;
  bool exact_ = true;
  // True if there is an index and stream offsets are known.
  bool indexed_;
  // Difference between the size of the file and that in the index.
  int64_t shift_ = 0;
  // Records below this number have been delivered already.
  uint64_t skip_ = 0;
  // Number of the next record.
  uint64_t number_;
  uint64_t delivered_;
  // True at the start of a stretch, where the next record may start anywhere.
  bool at_start_ = false;
  // True if damage_.back() extends up to the next record.
  bool open_ = false;
  bool ended_ = false;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_VERIFY_PAST_DAMAGE_H_
