#include "reader/shards/shard_table.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/count_text.h"
#include "base/mutex.h"
#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/parallel.h"
#include "net/block_cache.h"
#include "net/open.h"
#include "net/remote_file.h"
#include "net/store.h"
#include "reader/order/permutation.h"
#include "shard/formats/index_match.h"
#include "shard/formats/shard_notes.h"
#include "shard/indexing/index_build.h"
#include "shard/names/names.h"

namespace shardfeed {
namespace {

// Files and mappings that one table keeps open; a kernel allows 65,530 mappings in all.
constexpr size_t kMaxOpen = 16384;
constexpr int kRemoteThreads = 64;

// Raises the limit on open files as far as allowed, and returns how many a table may use.
size_t FileLimit() {
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::getrlimit(RLIMIT_NOFILE, &limit);
  }
  return std::clamp<size_t>(limit.rlim_cur / 8, 4, kMaxOpen);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ShardTable>> ShardTable::Open(
    const ShardSet& set, const ShardTableOptions& options) {
  std::shared_ptr<ShardTable> table(new ShardTable());
  table->shards_.resize(set.paths.size());
  for (size_t i = 0; i < set.paths.size(); ++i) table->shards_[i].path = set.paths[i];
  {
    MutexLock lock(table->mutex_);
    table->opened_.resize(set.paths.size());
  }
  table->max_open_ = FileLimit();
  table->version_ = set.version;
  table->disk_cache_ = options.disk_cache;
  table->remote_ = std::any_of(set.paths.begin(), set.paths.end(), IsRemote);
  std::shared_ptr<const Manifest> manifest;
  std::vector<size_t> unknown;      // shards that the manifest and the pack do not describe
  std::vector<size_t> unversioned;  // other shards in stores that are read through a cache
  if (table->remote_) {
    manifest = FindManifest(set);
    absl::Status status = table->OpenPack(set);
    if (!status.ok()) return set.version.CheckUnchanged(std::move(status));
  }
  for (size_t i = 0; i < set.paths.size(); ++i) {
    if (!table->TakeFromPack(i, manifest ? &manifest->shards[i] : nullptr)) {
      unknown.push_back(i);
    } else if (BlockCache::For(set.paths[i]) != nullptr) {
      unversioned.push_back(i);
    }
  }
  // Threads mostly wait for stores.
  const int threads = table->remote_ ? kRemoteThreads : ThreadCount(options.threads);
  absl::Status status = ParallelFor(unknown.size(), threads, options.stop, [&](size_t i) {
    const size_t shard = unknown[i];
    if (!IsRemote(table->shards_[shard].path)) return table->Find(shard, options);
    return table->FindRemote(shard, manifest ? &manifest->shards[shard] : nullptr, options);
  });
  if (status.ok()) {
    status = ParallelFor(unversioned.size(), threads, options.stop,
                         [&](size_t i) { return table->FindVersion(unversioned[i]); });
  }
  // Refuse a mixture of shards of two datasets. There is none if one manifest described all shards,
  // and the pack agrees with it.
  const bool from_manifest = manifest != nullptr && manifest == set.manifest;
  if (!status.ok() || !from_manifest || !unknown.empty() || !unversioned.empty()) {
    status = set.version.CheckUnchanged(std::move(status));
  }
  if (!status.ok()) return status;
  table->begin_.reserve(set.paths.size() + 1);
  table->begin_.push_back(0);
  for (const Shard& shard : table->shards_) {
    const IndexSummary& summary = shard.summary;
    table->begin_.push_back(table->begin_.back() + summary.records);
    table->stream_bytes_ += summary.stream_bytes;
    table->file_bytes_ += summary.shard_bytes;
    for (uint64_t number :
         {summary.records, summary.stream_bytes, uint64_t{summary.records_digest}}) {
      table->fingerprint_ = DeriveKey(table->fingerprint_, number);
    }
  }
  ShardNotes told;
  for (Shard& shard : table->shards_) told.Add(std::exchange(shard.notes, {}));
  const std::vector<std::string> notes = told.Take();
  if (options.on_notes && !notes.empty()) options.on_notes(notes);
  return table;
}

absl::StatusOr<ShardTable::FileBirth> ShardTable::BirthOf(int fd, const std::string& path) {
  struct statx info;
  const int result = fd < 0 ? ::statx(AT_FDCWD, path.c_str(), 0, STATX_INO | STATX_BTIME, &info)
                            : ::statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &info);
  if (result != 0 && (errno == ENOSYS || errno == EPERM)) {  // some containers forbid it
    struct stat plain;
    if ((fd < 0 ? ::stat(path.c_str(), &plain) : ::fstat(fd, &plain)) == 0) {
      return FileBirth{.inode = plain.st_ino};
    }
  }
  if (result != 0) return ErrnoStatus(errno, path, "look up");
  if ((info.stx_mask & STATX_BTIME) == 0) return FileBirth{.inode = info.stx_ino};
  return FileBirth{info.stx_ino, info.stx_btime.tv_sec, info.stx_btime.tv_nsec};
}

absl::Status ShardTable::Find(size_t i, const ShardTableOptions& options) {
  Shard& shard = shards_[i];
  struct stat info;
  if (::stat(shard.path.c_str(), &info) != 0) return ErrnoStatus(errno, shard.path, "open");
  if (S_ISDIR(info.st_mode)) return ErrnoStatus(EISDIR, shard.path, "read");
  absl::StatusOr<FileBirth> birth = BirthOf(-1, shard.path);
  if (!birth.ok()) return birth.status();
  shard.birth = *birth;
  absl::StatusOr<IndexSummary> summary = ReadIndexSummary(IndexPath(shard.path));
  absl::StatusOr<bool> matches = false;
  if (summary.ok()) {
    const uint64_t size = S_ISBLK(info.st_mode) ? summary->shard_bytes : info.st_size;
    matches = IndexMatches(*summary, size, [&] { return shardfeed::OpenFile(shard.path); });
  }
  if (!matches.ok()) return matches.status();
  if (*matches) {
    shard.summary = *summary;
    return absl::OkStatus();
  }
  if (!summary.ok() && !absl::IsNotFound(summary.status()) && !absl::IsDataLoss(summary.status())) {
    return summary.status();
  }
  if (!options.build_indexes) {
    return absl::NotFoundError(fmt::format(
        "{}: has no index that matches it; build one with 'shardfeed index'", shard.path));
  }
  IndexBuildOptions building;
  building.stop = options.stop;
  building.bytes_passed = options.bytes_indexed;
  building.notes = &shard.notes;
  // With few shards, each one gets several threads.
  building.threads =
      std::max<int>(1, ThreadCount(options.threads) / static_cast<int>(shards_.size()));
  const auto salvage = [&] { return Salvage(i, options); };
  if (summary.ok()) {
    absl::Status whole = CheckNotCut(shard.path, building);
    if (absl::IsDataLoss(whole) && options.salvage) return salvage();
    if (!whole.ok()) return whole;
  }
  if (options.keep_indexes) {
    summary = IndexShard(shard.path, building);
    if (summary.ok()) {
      ++built_;
      shard.summary = *summary;
      return absl::OkStatus();
    }
    if (absl::IsDataLoss(summary.status()) && options.salvage) return salvage();
    // Defects of the shard itself would be found in memory as well.
    if (absl::IsDataLoss(summary.status()) || absl::IsCancelled(summary.status())) {
      return summary.status();
    }
  }
  absl::StatusOr<std::shared_ptr<const ShardIndex>> index = BuildIndex(shard.path, building);
  if (absl::IsDataLoss(index.status()) && options.salvage) return salvage();
  if (!index.ok()) return index.status();
  ++built_;
  ++not_kept_;
  shard.summary = (*index)->summary();
  shard.built = *std::move(index);
  return absl::OkStatus();
}

// A pack that cannot be used is as good as none.
absl::Status ShardTable::OpenPack(const ShardSet& set) {
  const std::optional<IndexPackName> named = IndexPackNameOf(set);
  if (!named || !IsRemote(set.directory)) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<const IndexPack>> pack =
      IndexPack::Open(set.directory, named->stem, set.paths.size(), named->suffix);
  if (pack.ok()) {
    pack_ = *std::move(pack);
    return absl::OkStatus();
  }
  // Errors that mean that this reader gets no pack (it may not read it, or the server sends no
  // ranges) are ignored; errors that mean that the store cannot be reached are not.
  const bool reached = !absl::IsUnavailable(pack.status()) && !absl::IsCancelled(pack.status());
  return reached ? absl::OkStatus() : pack.status();
}

// Takes a shard's summary from the index pack, unless the manifest contradicts it.
// Without a manifest, the size is checked when the shard is first read.
bool ShardTable::TakeFromPack(size_t i, const ManifestShard* listed) {
  if (pack_ == nullptr) return false;
  const IndexSummary& summary = pack_->summary(i);
  if (listed != nullptr &&
      (listed->bytes != summary.shard_bytes || listed->records != summary.records ||
       listed->records_digest != summary.records_digest)) {
    return false;
  }
  shards_[i].summary = summary;
  shards_[i].packed = true;
  return true;
}

// Finds the version of an object that the index pack describes, which its blocks in a cache have.
absl::Status ShardTable::FindVersion(size_t i) {
  Shard& shard = shards_[i];
  absl::StatusOr<ObjectInfo> info = StatObject(shard.path);
  if (!info.ok()) return info.status();
  if (info->size != shard.summary.shard_bytes) {
    return absl::AbortedError(
        fmt::format("{}: the object has {}, but the index pack was made for {}; rebuild it with "
                    "'shardfeed index', or open the dataset again if it is being replaced",
                    shard.path, CountText(info->size, "byte"), shard.summary.shard_bytes));
  }
  shard.version = std::move(info->version);
  return absl::OkStatus();
}

// Finds the size, version and index of an object. If a manifest gives the size, the version is that
// of the first read, which compares the size. Indexes stay in memory, because fetching them again
// takes long.
absl::Status ShardTable::FindRemote(size_t i, const ManifestShard* listed,
                                    const ShardTableOptions& options) {
  Shard& shard = shards_[i];
  uint64_t size = listed == nullptr ? 0 : listed->bytes;
  // A cache needs the versions of objects.
  if (listed == nullptr || BlockCache::For(shard.path) != nullptr) {
    if (listed == nullptr) ++requests_;  // a manifest would save it
    absl::StatusOr<ObjectInfo> info = StatObject(shard.path);
    if (!info.ok()) return info.status();
    shard.version = std::move(info->version);
    if (listed == nullptr) size = info->size;
  }
  ++requests_;
  absl::StatusOr<std::shared_ptr<const ShardIndex>> index = ShardIndex::Open(IndexPath(shard.path));
  if (!index.ok() && !absl::IsNotFound(index.status()) && !absl::IsDataLoss(index.status())) {
    return index.status();
  }
  absl::StatusOr<bool> matches = false;
  if (index.ok() &&
      (listed == nullptr || (*index)->summary().records_digest == listed->records_digest)) {
    matches = IndexMatches((*index)->summary(), size, [&] {
      ++requests_;
      return RemoteFile::Open({.path = shard.path, .size = size, .version = shard.version});
    });
  }
  if (!matches.ok()) return matches.status();
  if (!*matches) {
    if (!options.build_indexes) {
      return absl::NotFoundError(fmt::format(
          "{}: has no index that matches it; build one with 'shardfeed index' where the "
          "dataset is local, and copy the folder {} as well",
          shard.path, kSidecarFolder));
    }
    IndexBuildOptions building;
    building.stop = options.stop;
    building.bytes_passed = options.bytes_indexed;
    building.notes = &shard.notes;
    index = BuildIndex(shard.path, building);
    if (absl::IsDataLoss(index.status()) && options.salvage) return Salvage(i, options);
    if (!index.ok()) return index.status();
    ++built_;
    ++not_kept_;
  }
  shard.summary = (*index)->summary();
  shard.built = *std::move(index);
  return absl::OkStatus();
}

// Copies the intact records of a shard.
absl::Status ShardTable::Salvage(size_t i, const ShardTableOptions& options) {
  Shard& shard = shards_[i];
  absl::StatusOr<std::shared_ptr<const SoundCopy>> copy =
      CopySoundRecords(shard.path, options.stop);
  if (!copy.ok()) return copy.status();
  ++copied_;
  shard.summary = (*copy)->index->summary();
  shard.built = (*copy)->index;
  shard.copy = *std::move(copy);
  return absl::OkStatus();
}

absl::Status ShardTable::CheckWrittenSince(const std::string& path) const {
  // Objects are never modified, only replaced, which their versions reveal.
  if (remote_) return absl::OkStatus();
  struct stat made;
  if (::stat(path.c_str(), &made) != 0) return ErrnoStatus(errno, path, "look up");
  return ParallelFor(shards_.size(), ThreadCount(0), {}, [&](size_t i) -> absl::Status {
    const Shard& shard = shards_[i];
    struct stat info;
    if (::stat(shard.path.c_str(), &info) != 0) return ErrnoStatus(errno, shard.path, "open");
    const auto written = std::pair(info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    if (shard.copy != nullptr || written < std::pair(made.st_mtim.tv_sec, made.st_mtim.tv_nsec)) {
      return absl::OkStatus();
    }
    const absl::StatusOr<std::shared_ptr<const ShardIndex>> index = BuildIndex(shard.path, {});
    if (!index.ok() && !absl::IsDataLoss(index.status())) return index.status();
    if (index.ok() && (*index)->summary().records == shard.summary.records &&
        (*index)->summary().records_digest == shard.summary.records_digest) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(
        fmt::format("{}: was modified after {}, and its index lists other records; rebuild the "
                    "index with 'shardfeed index'",
                    shard.path, path));
  });
}

size_t ShardTable::ShardOf(uint64_t record) const {
  return std::upper_bound(begin_.begin(), begin_.end(), record) - begin_.begin() - 1;
}

std::string ShardTable::NameOf(uint64_t record) const {
  const size_t shard = ShardOf(record);
  const uint64_t number = record - begin_[shard];
  if (copy(shard) != nullptr) return fmt::format("{}: record {}", path(shard), number);
  const auto index = Index(shard);
  if (!index.ok()) return fmt::format("{}: record {}", path(shard), number);
  return fmt::format("{}: record {} at byte {}", path(shard), number, (*index)->FileOffset(number));
}

// The index as the pack has it, or, if that is damaged, as the file beside the shard does.
absl::StatusOr<std::shared_ptr<const ShardIndex>> ShardTable::OpenIndex(size_t shard) const {
  const std::string path = IndexPath(shards_[shard].path);
  if (!shards_[shard].packed) return ShardIndex::Open(path);
  absl::StatusOr<std::shared_ptr<const ShardIndex>> packed = pack_->Index(shard);
  if (!absl::IsDataLoss(packed.status()) && !absl::IsAborted(packed.status())) return packed;
  absl::StatusOr<std::shared_ptr<const ShardIndex>> own = ShardIndex::Open(path);
  return absl::IsNotFound(own.status()) ? packed : own;
}

absl::StatusOr<std::shared_ptr<const ShardIndex>> ShardTable::Index(size_t shard) const {
  const Shard& known = shards_[shard];
  if (known.built != nullptr) return known.built;
  {
    MutexLock lock(mutex_);
    if (opened_[shard].index != nullptr) return opened_[shard].index;
  }
  absl::StatusOr<std::shared_ptr<const ShardIndex>> index = OpenIndex(shard);
  if (!index.ok()) return version_.CheckUnchanged(index.status());
  const IndexSummary& summary = (*index)->summary();
  if (summary.records != known.summary.records ||
      summary.records_digest != known.summary.records_digest) {
    return version_.CheckUnchanged(absl::AbortedError(
        fmt::format("{}: describes other records than when the dataset was opened; open it again",
                    IndexPath(known.path))));
  }
  MutexLock lock(mutex_);
  if (opened_[shard].index == nullptr) {
    opened_[shard].index = *index;
    indexes_.push_back(shard);
    if (indexes_.size() > max_open_) {
      opened_[indexes_.front()].index = nullptr;
      indexes_.pop_front();
    }
  }
  return index;
}

absl::StatusOr<std::shared_ptr<const File>> ShardTable::OpenFile(size_t shard) const {
  if (const SoundCopy* sound = copy(shard)) return sound->file;
  {
    MutexLock lock(mutex_);
    if (opened_[shard].file != nullptr) return opened_[shard].file;
  }
  const Shard& known = shards_[shard];
  const bool remote = IsRemote(known.path);
  absl::StatusOr<std::shared_ptr<File>> file =
      remote ? RemoteFile::Open({known.path, known.summary.shard_bytes, known.version},
                                version_.guard())
             : File::Open(known.path);
  if (!file.ok()) return version_.CheckUnchanged(file.status());
  if ((*file)->size() != known.summary.shard_bytes) {
    return version_.CheckUnchanged(absl::FailedPreconditionError(
        fmt::format("{}: has {}, but had {} when it was indexed; rebuild the index with "
                    "'shardfeed index'",
                    known.path, CountText((*file)->size(), "byte"), known.summary.shard_bytes)));
  }
  const absl::StatusOr<FileBirth> birth = remote ? known.birth : BirthOf((*file)->fd(), known.path);
  if (!birth.ok()) return birth.status();
  if (*birth != known.birth) {
    return version_.CheckUnchanged(absl::AbortedError(
        fmt::format("{}: was replaced by another file since the dataset was opened; open it again",
                    known.path)));
  }
  MutexLock lock(mutex_);
  if (opened_[shard].file == nullptr) {
    opened_[shard].file = *file;
    files_.push_back(shard);
    if (files_.size() > max_open_) {
      opened_[files_.front()].file = nullptr;
      files_.pop_front();
    }
  }
  return std::shared_ptr<const File>(*std::move(file));
}

}  // namespace shardfeed
