// What the recovery engine keeps of a damaged shard that no index fits, as a shard without damage.

#ifndef SHARDFEED_READER_SOUND_COPY_H_
#define SHARDFEED_READER_SOUND_COPY_H_

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/file.h"
#include "shard/index.h"
#include "shard/salvage.h"

namespace shardfeed {

// Readers find records by an index. That of a damaged shard cannot be made, and one from before,
// of another size, leads elsewhere. So the sound records are copied to a raw shard, in which a
// frame without a payload and with a wrong CRC stands for each record that is lost; where nobody
// knows how many were, for all of one place.
struct SoundCopy {
  std::shared_ptr<const File> file;
  std::shared_ptr<const ShardIndex> index;
  std::vector<DamagedPlace> places;
};

// The file has no name, and is in the system's folder for temporary files (TMPDIR).
//
// Errors: those of opening and reading the shard; ResourceExhausted and others of writing the copy.
// Cancelled: stopping was asked for.
absl::StatusOr<std::shared_ptr<const SoundCopy>> CopySoundRecords(const std::string& path,
                                                                  std::stop_token stop);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_SOUND_COPY_H_
