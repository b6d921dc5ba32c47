// Reads one shard past damage. The one way that verify, repair, convert and whoever skips damage
// have of doing that, so that they all count the same. The rules: docs/repair.md.

#ifndef SHARDFEED_SHARD_SALVAGE_H_
#define SHARDFEED_SHARD_SALVAGE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/file.h"
#include "shard/content_stretches.h"
#include "shard/index.h"
#include "shard/shard_reader.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {

// One damaged place, and what is lost there. Places that follow each other without a sound record
// between them are one where the framing does not tell them apart.
struct DamagedPlace {
  // As Defect::kind in shard/verify.h.
  std::string kind;
  std::string detail;  // one line for a person; names the file
  // Number in the shard of the first record that is lost; of the record itself where a damaged
  // length was mended and nothing is lost.
  uint64_t record = 0;
  bool record_exact = true;         // false: records may have been lost before, uncounted
  std::optional<uint64_t> records;  // how many are lost; nullopt: unknown
  uint64_t offset = 0;              // in the (decompressed) stream, as far as it is known
  uint64_t bytes = 0;               // of the stream that were read and belong to no sound record
  uint64_t file_begin = 0;          // in the file, half open
  uint64_t file_end = 0;
};

struct SalvageOptions {
  CrcCheck check = CrcCheck::kAll;
  // Whether the index beside the shard helps where there is damage. It is compared with the shard
  // before it is used; one that is damaged counts as none.
  bool use_index = true;
  // Used where the first bytes of the file do not tell.
  std::optional<Compression> compression;
  // How many records the shard had, if that is known otherwise than by the index.
  std::optional<uint64_t> records;
  // For compressed shards: restart points as they are passed, up to the first damage.
  DecompressOptions decompress;
};

// The sound records of one shard, in order. Not thread safe.
class ShardSalvager {
 public:
  // Errors are those of File::Open and of reading the file and its index: damage never is one.
  static absl::StatusOr<std::unique_ptr<ShardSalvager>> Open(const std::string& path,
                                                             SalvageOptions options = {});
  ~ShardSalvager();

  // The next sound records, with consecutive numbers; without records at the end of the shard.
  // Numbers are those of the undamaged shard as far as numbers_exact() says so.
  absl::Status Next(RecordBlock* block);

  // All damage met so far; complete once Next came to the end.
  const std::vector<DamagedPlace>& damage() const { return damage_; }
  // Whether the numbers of the records delivered so far are certain.
  bool numbers_exact() const { return exact_; }
  // How many records are lost; nullopt where that is not known.
  std::optional<uint64_t> records_lost() const;
  uint64_t bytes_skipped() const;

  Compression compression() const { return compression_; }
  const File& file() const { return *file_; }
  uint64_t records() const { return records_; }  // delivered
  uint64_t stream_bytes() const;
  uint64_t file_position() const;

 private:
  class Window;
  enum class Step { kRecord, kOn, kEnd };

  ShardSalvager() = default;

  absl::Status OpenIndex();
  absl::Status AdoptIndex(uint64_t record, uint64_t offset);
  void Begin(const absl::Status& first_error, uint64_t offset);
  static absl::StatusOr<Compression> GuessCompression(std::shared_ptr<const File> file,
                                                      const SalvageOptions& options);
  absl::StatusOr<bool> IndexFits(uint64_t record, uint64_t offset) const;
  // By how many bytes the file has grown since the index was made.
  int64_t ShiftOf(const ShardIndex& index) const;
  absl::Status NextPastDamage(RecordBlock* block);
  absl::StatusOr<Step> TakeStep(size_t* frame_bytes);
  absl::StatusOr<Step> EndStretch();
  absl::Status Finish();

  absl::StatusOr<bool> HeaderAt(size_t at);
  absl::StatusOr<bool> EndsAt(size_t at);
  bool PayloadFits(size_t at, uint64_t length) const;
  absl::StatusOr<bool> MendHeaderAt(size_t at);
  absl::Status SkipGap(size_t from, std::string kind, std::string detail, bool mendable,
                       uint64_t frame);
  absl::Status SkipIndexed(size_t from, const DamagedPlace& place);
  absl::Status AcceptGap(size_t bytes, DamagedPlace place, std::optional<uint64_t> number);
  // How a run of frames ends whose first header is at `at`.
  enum class Chain { kStrong, kWeak, kNested };
  absl::StatusOr<Chain> FollowChain(size_t at, size_t* end);
  std::optional<uint64_t> RecordAtOffset(uint64_t offset) const;
  uint64_t FrameSize(uint64_t record) const {
    return index_->Offset(record + 1) - index_->Offset(record);
  }
  // How many records before `number` were not delivered since the last one.
  uint64_t LostUpTo(uint64_t number) const {
    const uint64_t next = std::max(number_, skip_);
    return number > next ? number - next : 0;
  }
  DamagedPlace Place(std::string kind, std::string detail) const;
  uint64_t FilePlace(uint64_t offset) const;

  SalvageOptions options_;
  std::shared_ptr<const File> file_;
  Compression compression_ = Compression::kNone;
  std::string not_told_;  // why the first bytes do not tell the compression
  std::unique_ptr<ShardReader> reader_;
  std::vector<DamagedPlace> damage_;
  uint64_t records_ = 0;
  bool exact_ = true;
  bool ended_ = false;

  // From the first damage on.
  std::shared_ptr<const ShardIndex> index_;  // null: there is none, or it does not fit
  std::unique_ptr<FileSource> source_;
  std::unique_ptr<ContentStretches> stretches_;
  std::unique_ptr<Window> window_;
  std::string first_error_;
  bool indexed_ = false;  // the index fits, and offsets of the stream are known
  int64_t shift_ = 0;     // of the file against what the index says
  uint64_t skip_ = 0;     // records that were delivered before
  uint64_t number_ = 0;   // of the next record
  uint64_t delivered_ = 0;
  bool at_start_ = false;  // of a stretch: the next record may start anywhere
  bool open_ = false;      // damage_.back() goes on up to the next record
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SALVAGE_H_
