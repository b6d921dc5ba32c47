#include "shard/indexing/index_pack_write.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
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
  // By folder, stem, suffix and number of shards.
  std::map<std::tuple<std::string, std::string, std::string, uint64_t>, std::vector<uint64_t>> sets;
  for (const std::string& path : paths) {
    const PathParts parts = SplitPath(path);
    const std::optional<ShardNameView> shard = ViewShardName(parts.name);
    if (!shard || shard->index >= shard->count) continue;
    sets[{std::string(parts.directory), std::string(shard->stem), std::string(shard->suffix),
          shard->count}]
        .push_back(shard->index);
  }
  for (const auto& [key, shards] : sets) {
    const auto& [directory, stem, suffix, count] = key;
    const absl::StatusOr<std::shared_ptr<const IndexPack>> pack =
        IndexPack::Open(directory, stem, count, suffix);
    if (absl::IsCancelled(pack.status())) return pack.status();
    if (!pack.ok()) continue;  // none, or none that is used
    const auto path_of = [&, &directory = directory, &stem = stem, &suffix = suffix,
                          count = count](uint64_t i) {
      return JoinPath(directory, ShardName(stem, i, count, suffix));
    };
    bool out_of_date = false;
    for (size_t i = 0; i < shards.size() && !out_of_date; ++i) {
      absl::StatusOr<bool> is = IsOutOfDate(**pack, shards[i], IndexPath(path_of(shards[i])));
      if (!is.ok()) return is.status();
      out_of_date = *is;
    }
    if (!out_of_date) continue;
    ShardSet set;
    set.directory = directory;
    set.stem = stem;
    set.suffix = suffix;
    set.sharded_name = true;
    for (uint64_t i = 0; i < count; ++i) set.paths.push_back(path_of(i));
    set.version = DatasetVersion::Of(directory, stem);
    if (absl::Status status = WriteIndexPack(set, stop); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status UpdateIndexPacks(const ShardSet& set, const std::stop_token& stop) {
  absl::Status status = WriteIndexPack(set, stop);
  return status.ok() && !set.sharded_name ? RefreshIndexPacks(set.paths, stop) : status;
}

}  // namespace shardfeed
