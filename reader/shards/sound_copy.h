// Copies the records that the recovery engine keeps of a damaged shard without a matching index.

#ifndef SHARDFEED_READER_SHARDS_SOUND_COPY_H_
#define SHARDFEED_READER_SHARDS_SOUND_COPY_H_

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/file.h"
#include "shard/index/index.h"
#include "shard/verify/salvage.h"

namespace shardfeed {

// Readers find records by an index. A damaged shard has none: it cannot be indexed, and an older
// index, made for another size, does not match. So its intact records are copied to a raw shard.
// There, a frame without a payload and with a wrong CRC represents each lost record; where the
// number of lost records is unknown, one frame represents all of them.
struct SoundCopy {
  std::shared_ptr<const File> file;
  std::shared_ptr<const ShardIndex> index;
  std::vector<DamagedPlace> places;
};

// The file has no name, and is in the folder for temporary files (TMPDIR).
//
// Errors: those of opening and reading the shard; ResourceExhausted and others of writing the copy.
// Cancelled: a stop was requested.
absl::StatusOr<std::shared_ptr<const SoundCopy>> CopySoundRecords(const std::string& path,
                                                                  std::stop_token stop);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_SHARDS_SOUND_COPY_H_
