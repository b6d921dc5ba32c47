// Reads one shard past damage. Verifying, repairing, converting and everything else that skips
// damage use this class, so that all of them count alike. The rules: docs/repair.md.

#ifndef SHARDFEED_SHARD_VERIFY_SALVAGE_H_
#define SHARDFEED_SHARD_VERIFY_SALVAGE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/file.h"
#include "shard/formats/shard_reader.h"
#include "shard/index/index.h"
#include "shard/verify/past_damage.h"
#include "shardfeed/options.h"
#include "tfrecord/decompress.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {

struct SalvageOptions {
  CrcCheck check = CrcCheck::kAll;
  // Whether to use the index beside the shard after damage. It is compared with the shard first; a
  // damaged index is ignored.
  bool use_index = true;
  // Used if the first bytes of the file do not reveal the compression.
  std::optional<Compression> compression;
  // The number of records that the shard had, if known from elsewhere than the index.
  std::optional<uint64_t> records;
  // For compressed shards: reports restart points as they are passed, up to the first damage.
  DecompressOptions decompress;
};

// Delivers the intact records of one shard, in order. Not thread-safe.
class ShardSalvager {
 public:
  // Errors are those of File::Open and of reading the file and its index; damage is not an error.
  static absl::StatusOr<std::unique_ptr<ShardSalvager>> Open(const std::string& path,
                                                             SalvageOptions options = {});

  // Delivers the next intact records, with consecutive numbers; a block without records is the end
  // of the shard. The numbers are those of the undamaged shard while numbers_exact() is true.
  absl::Status Next(RecordBlock* block);

  // All damage found so far; complete once Next has reached the end.
  const std::vector<DamagedPlace>& damage() const {
    return past_damage_ != nullptr ? past_damage_->damage() : damage_;
  }
  // True if the numbers of the records delivered so far are certain.
  bool numbers_exact() const { return past_damage_ == nullptr || past_damage_->numbers_exact(); }
  // Number of records lost; nullopt if unknown.
  std::optional<uint64_t> records_lost() const;
  uint64_t bytes_skipped() const;

  Compression compression() const { return format_.compression; }
  Framing framing() const { return format_.framing; }
  // The header of an MDS shard; null for other shards, and if it is damaged.
  const MdsHeader* mds() const { return reader_ != nullptr ? reader_->mds() : nullptr; }
  // The footer of an ArrayRecord shard; likewise.
  const ArrayRecordFooter* array_record() const {
    return reader_ != nullptr ? reader_->array_record() : nullptr;
  }
  // Where `record`, which is at `stream_offset`, is in the file of an MDS or an ArrayRecord shard;
  // for other shards `stream_offset`.
  uint64_t PlaceOf(uint64_t record, uint64_t stream_offset) const {
    return reader_ != nullptr ? reader_->FileOffset(record, stream_offset) : stream_offset;
  }
  // See RecordStream; up to the first damage.
  uint64_t tar_members_skipped() const {
    return reader_ != nullptr ? reader_->stream().tar_members_skipped() : 0;
  }
  const File& file() const { return *file_; }
  // Number of records delivered.
  uint64_t records() const { return past_damage_ != nullptr ? past_damage_->records() : records_; }
  uint64_t stream_bytes() const;
  uint64_t file_position() const;

 private:
  ShardSalvager() = default;

  static absl::StatusOr<Compression> GuessCompression(std::shared_ptr<const File> file,
                                                      const SalvageOptions& options);
  FirstDamage DamageHere(const absl::Status& error) const;
  absl::Status AdoptIndex(FirstDamage* first) const;
  absl::Status Finish();
  void LosePlaces(const absl::Status& error);
  absl::StatusOr<std::shared_ptr<const ArrayRecordFooter>> FooterOfIndex() const;
  void LoseFooter(const absl::Status& error);
  absl::Status PassPlacedDamage(const absl::Status& error);
  absl::Status PassTarDamage(const absl::Status& error);
  absl::Status NextByTarIndex(RecordBlock* block);

  SalvageOptions options_;
  std::shared_ptr<const File> file_;
  ShardFormat format_;
  // Reads up to the first damage.
  std::unique_ptr<ShardReader> reader_;
  // Reads from the first damage on; null before.
  std::unique_ptr<PastDamage> past_damage_;
  // Number of records delivered before the first damage, or in all of a tar shard.
  uint64_t records_ = 0;
  // After the first damage of a raw tar shard, as the reader found it: its index and the next
  // sample.
  DamagedPlace tar_damage_;
  std::shared_ptr<const ShardIndex> tar_index_;
  uint64_t tar_next_ = 0;
  // The end of an otherwise undamaged shard, if records are missing there; or the damage of a tar,
  // an MDS or an ArrayRecord shard.
  std::vector<DamagedPlace> damage_;
  // True once the end has been reached without damage, or nothing more of a tar shard can be read.
  bool ended_ = false;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_VERIFY_SALVAGE_H_
