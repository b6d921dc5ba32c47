// Reads one shard past damage. The one way that verify, repair, convert and whoever skips damage
// have of doing that, so that they all count the same. The rules: docs/repair.md.

#ifndef SHARDFEED_SHARD_SALVAGE_H_
#define SHARDFEED_SHARD_SALVAGE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/file.h"
#include "shard/past_damage.h"
#include "shard/shard_reader.h"
#include "shardfeed/options.h"
#include "tfrecord/decompress.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {

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

  // The next sound records, with consecutive numbers; without records at the end of the shard.
  // Numbers are those of the undamaged shard as far as numbers_exact() says so.
  absl::Status Next(RecordBlock* block);

  // All damage met so far; complete once Next came to the end.
  const std::vector<DamagedPlace>& damage() const {
    return past_damage_ != nullptr ? past_damage_->damage() : cut_;
  }
  // Whether the numbers of the records delivered so far are certain.
  bool numbers_exact() const { return past_damage_ == nullptr || past_damage_->numbers_exact(); }
  // How many records are lost; nullopt where that is not known.
  std::optional<uint64_t> records_lost() const;
  uint64_t bytes_skipped() const;

  Compression compression() const { return compression_; }
  const File& file() const { return *file_; }
  // How many were delivered.
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

  SalvageOptions options_;
  std::shared_ptr<const File> file_;
  Compression compression_ = Compression::kNone;
  std::unique_ptr<ShardReader> reader_;      // up to the first damage
  std::unique_ptr<PastDamage> past_damage_;  // from there on
  uint64_t records_ = 0;                     // delivered up to the first damage
  std::vector<DamagedPlace> cut_;            // the end, if something is missing there
  bool ended_ = false;                       // without damage before
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SALVAGE_H_
