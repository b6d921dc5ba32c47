#include "shard/indexing/index_pack_write.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "fmt/format.h"
#include "io/file.h"
#include "io/output_file.h"
#include "io/parallel.h"
#include "net/open.h"
#include "net/upload.h"
#include "shard/commit/file_replacement.h"
#include "shard/index/index.h"
#include "shard/index/index_pack.h"
#include "shard/names/names.h"
#include "shard/spec/folder_listing.h"

namespace shardfeed {
namespace {

// Indexes that are fetched from a store side by side.
constexpr int kRemoteThreads = 64;
constexpr uint64_t kCopyBytes = 8 << 20;

// Uploads what `file` has as the object at `path`.
absl::Status UploadFile(const File& file, const std::string& path, const std::stop_token& stop) {
  absl::StatusOr<std::unique_ptr<UploadGroup>> group = UploadGroup::Begin(path);
  if (!group.ok()) return group.status();
  Upload upload(**group, path);
  std::string piece;
  for (uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min(kCopyBytes, file.size() - at));
    absl::Status status = file.ReadExactlyAt(at, absl::MakeSpan(piece));
    if (status.ok()) status = upload.Append(piece);
    if (!status.ok()) return status;
  }
  const absl::StatusOr<PendingObject> object = upload.Finish(stop);
  if (!object.ok()) return object.status();
  return Publish(*object).status();
}

absl::Status WriteToStore(const ShardSet& set, const IndexPackName& named,
                          const std::stop_token& stop,
                          const std::function<std::string(size_t)>& index_path) {
  const absl::StatusOr<int> unnamed = OpenUnnamedFile();
  if (!unnamed.ok()) return unnamed.status();
  const auto close = [](const int* fd) { ::close(*fd); };
  const std::unique_ptr<const int, decltype(close)> closing(&*unnamed, close);
  const std::string name = fmt::format("/proc/self/fd/{}", *unnamed);
  absl::StatusOr<std::unique_ptr<OutputFile>> packed = OutputFile::Create(name);
  if (!packed.ok()) return packed.status();
  absl::Status status =
      PackIndexes(packed->get(), set.paths.size(), named.suffix, index_path, kRemoteThreads, stop);
  if (status.ok()) status = (*packed)->Close();
  if (!status.ok()) return status;
  const absl::StatusOr<std::shared_ptr<File>> file = File::Open(name);
  if (!file.ok()) return file.status();
  status = set.version.CheckUnchanged();
  return status.ok() ? UploadFile(**file, IndexPackPath(set.directory, named.stem), stop) : status;
}

// Cancelled: the look was broken off.
absl::StatusOr<bool> IsOutOfDate(const IndexPack& pack, size_t shard,
                                 const std::string& index_path) {
  const absl::StatusOr<std::shared_ptr<const ShardIndex>> own = ShardIndex::Open(index_path);
  if (absl::IsCancelled(own.status())) return own.status();
  if (!own.ok()) return false;
  const absl::StatusOr<std::shared_ptr<const ShardIndex>> packed = pack.Index(shard);
  if (absl::IsCancelled(packed.status())) return packed.status();
  return !packed.ok() || (*packed)->bytes() != (*own)->bytes();
}

// Writes the pack of `set` if it has other indexes for those of its shards whose numbers are in
// `changed`. A pack that is not used is left alone.
absl::Status RefreshIndexPack(const ShardSet& set, const IndexPackName& named,
                              absl::Span<const uint64_t> changed, const std::stop_token& stop) {
  const absl::StatusOr<std::shared_ptr<const IndexPack>> pack =
      IndexPack::Open(set.directory, named.stem, set.paths.size(), named.suffix);
  if (absl::IsCancelled(pack.status())) return pack.status();
  if (!pack.ok()) return absl::OkStatus();
  for (uint64_t shard : changed) {
    const absl::StatusOr<bool> is = IsOutOfDate(**pack, shard, IndexPath(set.paths[shard]));
    if (!is.ok()) return is.status();
    if (*is) return WriteIndexPack(set, stop);
  }
  return absl::OkStatus();
}

// The same for the ranges of numbers in `directory` that have packs, except for the pack that is
// named after `written`.
absl::Status RefreshRanges(const std::string& directory,
                           const std::unordered_set<std::string>& changed,
                           const std::string& written, const std::stop_token& stop) {
  const absl::StatusOr<Folder> folder = ListFolder(SidecarPath(directory));
  if (absl::IsCancelled(folder.status())) return folder.status();
  if (!folder.ok()) return absl::OkStatus();
  for (const std::string& file : folder->files) {
    const std::optional<ShardSet> set = RangeOfIndexPack(directory, file);
    if (!set) continue;
    const IndexPackName named = *IndexPackNameOf(*set);
    if (named.stem == written) continue;
    std::vector<uint64_t> numbers;
    for (size_t i = 0; i < set->paths.size(); ++i) {
      if (changed.contains(set->paths[i])) numbers.push_back(i);
    }
    if (numbers.empty()) continue;
    absl::Status status = RefreshIndexPack(*set, named, numbers, stop);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// As RefreshIndexPacks, but leaves out the pack of a range that is named after `written`.
absl::Status RefreshOtherPacks(const std::vector<std::string>& paths, const std::string& written,
                               const std::stop_token& stop) {
  // By folder, stem, suffix and number of shards.
  std::map<std::tuple<std::string, std::string, std::string, uint64_t>, std::vector<uint64_t>> sets;
  std::map<std::string, std::unordered_set<std::string>> others;  // by folder
  for (const std::string& path : paths) {
    const PathParts parts = SplitPath(path);
    const std::optional<ShardNameView> shard = ViewShardName(parts.name);
    if (!shard) others[std::string(parts.directory)].insert(path);
    if (!shard || shard->index >= shard->count) continue;
    sets[{std::string(parts.directory), std::string(shard->stem), std::string(shard->suffix),
          shard->count}]
        .push_back(shard->index);
  }
  for (const auto& [key, shards] : sets) {
    const auto& [directory, stem, suffix, count] = key;
    ShardSet set;
    set.directory = directory;
    set.stem = stem;
    set.suffix = suffix;
    set.sharded_name = true;
    for (uint64_t i = 0; i < count; ++i) {
      set.paths.push_back(JoinPath(directory, ShardName(stem, i, count, suffix)));
    }
    set.version = DatasetVersion::Of(directory, stem);
    absl::Status status = RefreshIndexPack(set, {stem, suffix}, shards, stop);
    if (!status.ok()) return status;
  }
  for (const auto& [directory, changed] : others) {
    absl::Status status = RefreshRanges(directory, changed, written, stop);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteIndexPack(const ShardSet& set, const std::stop_token& stop) {
  const std::optional<IndexPackName> named = IndexPackNameOf(set);
  if (!named) return absl::OkStatus();
  const auto index_path = [&set](size_t i) { return IndexPath(set.paths[i]); };
  if (IsRemote(set.directory)) return WriteToStore(set, *named, stop, index_path);
  absl::StatusOr<std::unique_ptr<FileReplacement>> replacement =
      FileReplacement::Begin(IndexPackPath(set.directory, named->stem), stop);
  if (!replacement.ok()) return replacement.status();
  absl::Status status = PackIndexes(&(*replacement)->file(), set.paths.size(), named->suffix,
                                    index_path, ThreadCount(0), stop);
  status = set.version.CheckUnchanged(std::move(status));
  return status.ok() ? (*replacement)->Commit() : status;
}

absl::Status RefreshIndexPacks(const std::vector<std::string>& paths, const std::stop_token& stop) {
  return RefreshOtherPacks(paths, "", stop);
}

absl::Status UpdateIndexPacks(const ShardSet& set, const std::stop_token& stop) {
  absl::Status status = WriteIndexPack(set, stop);
  if (!status.ok() || set.sharded_name) return status;
  const std::optional<IndexPackName> named = IndexPackNameOf(set);
  return RefreshOtherPacks(set.paths, named ? named->stem : "", stop);
}

}  // namespace shardfeed
