// A dataset's shards as one list of records.

#ifndef SHARDFEED_READER_SHARDS_SHARD_TABLE_H_
#define SHARDFEED_READER_SHARDS_SHARD_TABLE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "io/file.h"
#include "reader/shards/selection.h"
#include "reader/shards/sound_copy.h"
#include "shard/index/index.h"
#include "shard/index/index_pack.h"
#include "shard/manifest/manifest.h"
#include "shard/spec/spec.h"

namespace shardfeed {

struct ShardTableOptions {
  int threads = 0;  // 0 means one per processor
  // If false, an index that is missing, or made for a shard of another size, is NotFound.
  bool build_indexes = true;
  // Whether indexes that had to be built are stored beside the shards, if possible.
  bool keep_indexes = true;
  // Whether a damaged shard without a matching index is accepted: the table then has a copy of its
  // intact records (SoundCopy). For readers that skip damage.
  bool salvage = false;
  std::stop_token stop;
  // Counts the bytes of shards whose indexes are being built, for progress.
  std::atomic<uint64_t>* bytes_indexed = nullptr;
  // Called before Open returns with the notes (IndexBuildOptions) on shards whose indexes had to be
  // built, in the order of the shards, if there are any.
  std::function<void(const std::vector<std::string>&)> on_notes;
  // What lets the shards be read through a cache (reader/disk_cache.h), for as long as the table
  // lives; may be null.
  std::shared_ptr<const void> disk_cache;
};

// Records are numbered from 0 through all shards in order. Thread-safe. Shards and indexes are
// opened on first use, and as many of them stay open as the process may have.
class ShardTable {
 public:
  // Reads the heads of all indexes, on `threads` threads; an index that is missing or made for a
  // shard of another size is built (headers only, for raw shards). In a store, the manifest and the
  // index pack replace them, if they exist and agree; then no shard costs a request.
  //
  // Errors: those of File::Open and of IndexShard, and see ShardTableOptions. Aborted: the dataset
  // was replaced meanwhile.
  static absl::StatusOr<std::shared_ptr<const ShardTable>> Open(
      const ShardSet& set, const ShardTableOptions& options = {});

  size_t num_shards() const { return shards_.size(); }
  uint64_t num_records() const { return begin_.back(); }
  // Size of all frames, before compression.
  uint64_t stream_bytes() const { return stream_bytes_; }
  // Size of the files.
  uint64_t file_bytes() const { return file_bytes_; }
  // Mean size of a frame.
  uint64_t mean_bytes() const { return stream_bytes_ / (num_records() > 0 ? num_records() : 1); }
  // The first record of each shard, and at the end the number of records.
  const std::vector<uint64_t>& begins() const { return begin_; }
  size_t ShardOf(uint64_t record) const;
  const std::string& path(size_t shard) const { return shards_[shard].path; }
  // "train-00001-of-00010: record 17 at byte 4242", for messages; without the byte if the index is
  // unavailable.
  std::string NameOf(uint64_t record) const;
  const IndexSummary& summary(size_t shard) const { return shards_[shard].summary; }
  RecordRange RangeOf(size_t shard) const {
    return {begin_[shard], begin_[shard + 1] - begin_[shard]};
  }

  // A number that changes when any record, or their order, changes (as far as headers and CRCs
  // tell). It does not depend on where the shards are, or on their names.
  uint64_t fingerprint() const { return fingerprint_; }
  // Compares shards that were modified after the file at `path` with their indexes, on all
  // processors; older ones cost nothing. FailedPrecondition: a shard's records differ from its
  // index, so that fingerprint() is out of date. Other errors: those of ShardTable::Open.
  absl::Status CheckWrittenSince(const std::string& path) const;
  // How many indexes had to be built, and how many of these could not be stored.
  uint64_t indexes_built() const { return built_; }
  uint64_t indexes_not_kept() const { return not_kept_; }
  // How many requests were made for the sizes and the separate indexes of shards, which a manifest
  // and an index pack would have saved.
  uint64_t requests_for_shards() const { return requests_; }
  // How many shards are copies of intact records.
  uint64_t shards_copied() const { return copied_; }
  // The copy of a damaged shard's intact records; null for other shards.
  const SoundCopy* copy(size_t shard) const { return shards_[shard].copy.get(); }

  // Whether any shard is in a store.
  bool remote() const { return remote_; }

  // The most files that the table keeps open, besides those in use.
  size_t max_open() const { return max_open_; }

  // The index of a shard. A damaged one is rebuilt in memory. Aborted: the shard has changed since
  // the table was opened. Other errors: those of ShardIndex::Open.
  absl::StatusOr<std::shared_ptr<const ShardIndex>> Index(size_t shard) const;
  // Opens a shard. FailedPrecondition: its size has changed since the table was opened. Aborted:
  // another file has taken its place. Other errors: those of File::Open.
  absl::StatusOr<std::shared_ptr<const File>> OpenFile(size_t shard) const;

 private:
  // Identifies a file: one that replaces it differs in this, even if it gets the same inode number,
  // while writing to the file does not change it. Zeros: unknown to the file system.
  struct FileBirth {
    uint64_t inode = 0;
    int64_t seconds = 0;
    uint32_t nanoseconds = 0;

    bool operator==(const FileBirth&) const = default;
  };
  static absl::StatusOr<FileBirth> BirthOf(int fd, const std::string& path);

  struct Shard {
    std::string path;
    FileBirth birth;      // identity of the file that the table was made for
    std::string version;  // version of an object in a store
    IndexSummary summary;
    bool packed = false;  // its index is in pack_
    // The index in memory, for a shard whose index could not be stored.
    std::shared_ptr<const ShardIndex> built;
    std::shared_ptr<const SoundCopy> copy;
    std::vector<std::string> notes;  // notes from building its index; empty once told
  };
  struct Opened {
    std::shared_ptr<const ShardIndex> index;
    std::shared_ptr<const File> file;
  };

  ShardTable() = default;
  absl::Status Find(size_t shard, const ShardTableOptions& options);
  absl::Status OpenPack(const ShardSet& set);
  bool TakeFromPack(size_t shard, const ManifestShard* listed);
  absl::Status FindVersion(size_t shard);
  absl::Status FindRemote(size_t shard, const ManifestShard* listed,
                          const ShardTableOptions& options);
  absl::StatusOr<std::shared_ptr<const ShardIndex>> OpenIndex(size_t shard) const;
  absl::Status Salvage(size_t shard, const ShardTableOptions& options);

  std::vector<Shard> shards_;
  std::vector<uint64_t> begin_;
  uint64_t stream_bytes_ = 0;
  uint64_t file_bytes_ = 0;
  uint64_t fingerprint_ = 0;
  std::atomic<uint64_t> built_ = 0;
  std::atomic<uint64_t> not_kept_ = 0;
  std::atomic<uint64_t> copied_ = 0;
  std::atomic<uint64_t> requests_ = 0;
  std::shared_ptr<const IndexPack> pack_;  // null: there is none, or none that is sound
  DatasetVersion version_;
  size_t max_open_ = 0;
  bool remote_ = false;
  std::shared_ptr<const void> disk_cache_;

  mutable Mutex mutex_;
  mutable std::vector<Opened> opened_ ABSL_GUARDED_BY(mutex_);
  // In the order in which they were opened; the oldest are closed first.
  mutable std::deque<size_t> files_ ABSL_GUARDED_BY(mutex_);
  mutable std::deque<size_t> indexes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_SHARDS_SHARD_TABLE_H_
