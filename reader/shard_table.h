// A dataset's shards as one list of records.

#ifndef SHARDFEED_READER_SHARD_TABLE_H_
#define SHARDFEED_READER_SHARD_TABLE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "io/file.h"
#include "reader/selection.h"
#include "reader/sound_copy.h"
#include "shard/index.h"
#include "shard/manifest.h"
#include "shard/spec.h"

namespace shardfeed {

struct ShardTableOptions {
  int threads = 0;  // 0: one per processor
  // false: NotFound for an index that is missing, or made for a shard of another size.
  bool build_indexes = true;
  // Indexes that had to be built are kept beside the shards, where that can be written.
  bool keep_indexes = true;
  // A damaged shard without an index that fits is no error: the table has a copy of what is sound
  // (SoundCopy). For readers that skip damage.
  bool salvage = false;
  std::stop_token stop;
  // Adds up the bytes of shards whose indexes are built: for progress.
  std::atomic<uint64_t>* bytes_indexed = nullptr;
  // What lets the shards be read through a cache (reader/disk_cache.h), for as long as the table
  // lives; may be null.
  std::shared_ptr<const void> disk_cache;
};

// Records are numbered from 0 through all shards in their order. Thread safe. Shards and indexes
// are opened when they are first asked for, and so many of them stay open as the process may have.
class ShardTable {
 public:
  // Reads the heads of all indexes, on `threads` threads; an index that is missing or made for a
  // shard of another size is built (headers only, for raw shards).
  //
  // Errors: those of File::Open and of WriteIndex, and see ShardTableOptions. Aborted: the dataset
  // was replaced meanwhile.
  static absl::StatusOr<std::shared_ptr<const ShardTable>> Open(
      const ShardSet& set, const ShardTableOptions& options = {});

  size_t num_shards() const { return shards_.size(); }
  uint64_t num_records() const { return begin_.back(); }
  // Of all frames, before compression.
  uint64_t stream_bytes() const { return stream_bytes_; }
  // Of the files.
  uint64_t file_bytes() const { return file_bytes_; }
  // Of a frame.
  uint64_t mean_bytes() const { return stream_bytes_ / (num_records() > 0 ? num_records() : 1); }
  // Where each shard begins; one more for the end.
  const std::vector<uint64_t>& begins() const { return begin_; }
  size_t ShardOf(uint64_t record) const;
  const std::string& path(size_t shard) const { return shards_[shard].path; }
  // "train-00001-of-00010: record 17 at byte 4242"; without the byte where the index is not to be
  // had. For messages.
  std::string NameOf(uint64_t record) const;
  const IndexSummary& summary(size_t shard) const { return shards_[shard].summary; }
  RecordRange RangeOf(size_t shard) const {
    return {begin_[shard], begin_[shard + 1] - begin_[shard]};
  }

  // A number that changes when any record, or their order, does (as far as headers and CRCs tell);
  // where the shards are and what they are called is not in it.
  uint64_t fingerprint() const { return fingerprint_; }
  // Compares shards that were written to after the file at `path` with their indexes, on all
  // processors; older ones cost nothing. FailedPrecondition: one has other records than its index
  // tells, so that fingerprint() is that of records from before. Others: as ShardTable::Open.
  absl::Status CheckWrittenSince(const std::string& path) const;
  // How many indexes were not there, and how many of them could not be kept.
  uint64_t indexes_built() const { return built_; }
  uint64_t indexes_not_kept() const { return not_kept_; }
  // How many shards are copies.
  uint64_t shards_copied() const { return copied_; }
  // Of a shard that is a copy of what is sound; null for others.
  const SoundCopy* copy(size_t shard) const { return shards_[shard].copy.get(); }

  // Whether any shard is in a store.
  bool remote() const { return remote_; }

  // How many files the table keeps open at most, besides those in use.
  size_t max_open() const { return max_open_; }

  // A damaged one is built anew, in memory. Aborted: it has changed since the table was opened.
  // Others as ShardIndex::Open.
  absl::StatusOr<std::shared_ptr<const ShardIndex>> Index(size_t shard) const;
  // FailedPrecondition: its size has changed since. Aborted: another file has taken its place.
  // Others as File::Open.
  absl::StatusOr<std::shared_ptr<const File>> OpenFile(size_t shard) const;

 private:
  // What a file has that takes another one's place has not, even where it gets the same inode
  // number; that a file was written to does not change it. Zeros: unknown to the file system.
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
    std::string version;  // of an object in a store
    IndexSummary summary;
    // The one in memory, for a shard whose index could not be kept.
    std::shared_ptr<const ShardIndex> built;
    std::shared_ptr<const SoundCopy> copy;
  };
  struct Opened {
    std::shared_ptr<const ShardIndex> index;
    std::shared_ptr<const File> file;
  };

  ShardTable() = default;
  absl::Status Find(size_t shard, const ShardTableOptions& options);
  absl::Status FindRemote(size_t shard, const ManifestShard* listed,
                          const ShardTableOptions& options);
  absl::Status Salvage(size_t shard, const ShardTableOptions& options);

  std::vector<Shard> shards_;
  std::vector<uint64_t> begin_;
  uint64_t stream_bytes_ = 0;
  uint64_t file_bytes_ = 0;
  uint64_t fingerprint_ = 0;
  std::atomic<uint64_t> built_ = 0;
  std::atomic<uint64_t> not_kept_ = 0;
  std::atomic<uint64_t> copied_ = 0;
  DatasetVersion version_;
  size_t max_open_ = 0;
  bool remote_ = false;
  std::shared_ptr<const void> disk_cache_;

  mutable Mutex mutex_;
  mutable std::vector<Opened> opened_ ABSL_GUARDED_BY(mutex_);
  // The order in which they were opened: the oldest are let go.
  mutable std::deque<size_t> files_ ABSL_GUARDED_BY(mutex_);
  mutable std::deque<size_t> indexes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_SHARD_TABLE_H_
