// Indexes of tar shards: docs/webdataset.md.

#ifndef SHARDFEED_SHARD_FORMATS_TAR_INDEX_H_
#define SHARDFEED_SHARD_FORMATS_TAR_INDEX_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/statusor.h"
#include "io/file.h"
#include "shard/index/index.h"
#include "shardfeed/index.h"

namespace shardfeed {

// What users should know about a tar archive that is read without an error. Not thread-safe.
class TarNotes {
 public:
  // Adds the key of the next sample, which starts at `offset`.
  void AddKey(std::string_view key, uint64_t offset);
  // Adds members that belong to no sample.
  void AddSkipped(uint64_t members) { skipped_ += members; }

  // The notes, each of which begins with `path`.
  std::vector<std::string> Texts(std::string_view path) const;

 private:
  // Hashes instead of keys, since there may be millions. 1 in 400,000 archives of ten million
  // samples gets a note about a repetition that does not exist.
  absl::btree_set<uint64_t> keys_;
  uint64_t repeated_ = 0;
  std::string first_repeated_;
  uint64_t first_repeated_at_ = 0;
  uint64_t skipped_ = 0;
};

// Indexes an archive that is not compressed from its headers, without reading large files.
//
// DataLoss, with the sample and the byte: a damaged header; a link, a device or another member that
// cannot be part of a sample; two files of a sample with one ending; an archive that is cut off.
absl::StatusOr<IndexSummary> IndexTar(const File& file, const IndexBuildOptions& options,
                                      IndexBuilder* builder);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FORMATS_TAR_INDEX_H_
