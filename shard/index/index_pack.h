// The index pack: the indexes of all shards of a dataset in one file beside the manifest.
//
// In a store, where each index of its own costs a request, readers take indexes from it. Layout and
// reasons: docs/index_pack.md. What binds an index to its shard binds a pack's index as well, so a
// pack that is out of date is noticed shard by shard.

#ifndef SHARDFEED_SHARD_INDEX_INDEX_PACK_H_
#define SHARDFEED_SHARD_INDEX_INDEX_PACK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "io/file.h"
#include "io/output_file.h"
#include "shard/index/index.h"
#include "shardfeed/index.h"
#include "shardfeed/spec.h"

namespace shardfeed {

// The names that a pack is made for, whose number is that of the shards.
struct IndexPackName {
  std::string stem;
  std::string suffix;
};

// What the pack of a set is named after: its stem. That of files that one range of numbers stands
// for has the range in it: for laion-{00000..00299}.tar, it is "laion-00000-to-00299.tar". Nullopt:
// files of other names, or of longer ones than the pack's can be, have no pack.
std::optional<IndexPackName> IndexPackNameOf(const ShardSet& set);

// The set whose pack has a file of this name in the hidden folder of `directory`, if it is one of a
// range of numbers.
std::optional<ShardSet> RangeOfIndexPack(const std::string& directory, std::string_view file_name);

// Writes a pack, index by index in the order of the shards. Not thread-safe.
class IndexPackWriter {
 public:
  // For `count` shards, whose names end in `suffix`. `file` must be empty and outlive the writer.
  IndexPackWriter(OutputFile* file, size_t count, std::string_view suffix);

  // Adds the index of the next shard. Errors: OutputFile::Append's.
  absl::Status Add(const ShardIndex& index);
  // Completes the pack, which is not synced. Errors: as Add. Internal: not all shards have been
  // added.
  absl::Status Finish();

 private:
  absl::Status Flush();

  OutputFile* const file_;
  const size_t count_;
  const uint32_t names_;
  std::string directory_;
  std::string buffer_;  // what follows the directory and is not yet written
  uint64_t bytes_;      // size of the pack so far
};

// Writes a pack of the indexes in the files index_path(0) ... index_path(count - 1), which
// `threads` threads open.
//
// Errors: those of ShardIndex::Open and of IndexPackWriter. Cancelled: `stop` was requested.
absl::Status PackIndexes(OutputFile* file, size_t count, std::string_view suffix,
                         const std::function<std::string(size_t)>& index_path, int threads = 1,
                         const std::stop_token& stop = {});

// An open pack. Thread-safe, also in a child after fork.
class IndexPack {
 public:
  // Opens the pack of the dataset with this many shards and this suffix; see IndexPackNameOf. In a
  // store, this takes one request for up to 200,000 shards; the indexes of small packs come with
  // it.
  //
  // NotFound: there is none. DataLoss: it is damaged, contradicts itself, or is of a dataset with
  // other names; the remedy is to rebuild it. Others: those of File::Open and Store::ErrorOf.
  static absl::StatusOr<std::shared_ptr<const IndexPack>> Open(const std::string& directory,
                                                               const std::string& stem,
                                                               size_t count,
                                                               std::string_view suffix);
  // The same of a pack in memory; `name` is used in messages.
  static absl::StatusOr<std::shared_ptr<const IndexPack>> FromBytes(std::string bytes,
                                                                    const std::string& name,
                                                                    size_t count,
                                                                    std::string_view suffix);

  const std::string& path() const { return path_; }
  size_t num_shards() const { return summaries_.size(); }
  // What the directory says about a shard, which may not be true of the present shard.
  const IndexSummary& summary(size_t shard) const { return summaries_[shard]; }

  // The index of a shard, which agrees with summary(). Indexes are fetched together with their
  // neighbors, in ranges of 8 MiB, which stay in memory as long as the pack.
  //
  // DataLoss: the index is damaged, or not the one of the directory. Others: those of File::ReadAt;
  // Aborted: the pack was replaced since it was opened; Cancelled: the work of this thread is not
  // needed any more (see WorkStop).
  absl::StatusOr<std::shared_ptr<const ShardIndex>> Index(size_t shard) const;

 private:
  // A range of the pack that has been fetched, or is being fetched by a thread of this process.
  struct Block {
    uint64_t forks = 0;  // ForkCount() when it was begun
    std::thread::id fetcher;
    bool done = false;
    absl::Status status;
    std::shared_ptr<const std::string> bytes;
  };

  explicit IndexPack(std::string path) : path_(std::move(path)) {}
  absl::Status Parse(std::string_view start, uint64_t size, size_t count, std::string_view suffix);
  absl::StatusOr<std::shared_ptr<const std::string>> Fetch(uint64_t begin, uint64_t end) const;

  const std::string path_;
  std::vector<IndexSummary> summaries_;
  std::vector<uint64_t>
      begins_;  // where each index begins in the pack, and the end of the last one
  std::shared_ptr<const std::string> whole_;  // the pack, if it is small
  std::shared_ptr<const File> file_;          // otherwise

  mutable Mutex mutex_;
  mutable CondVar fetched_;
  mutable std::map<uint64_t, std::shared_ptr<Block>> blocks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_INDEX_INDEX_PACK_H_
