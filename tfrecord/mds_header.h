// The beginning of a shard of MosaicML Streaming (MDS, version 2):
//
//   u32   samples
//   u32   offsets[samples + 1], in the file; the last one is the end of the file
//   byte  JSON that describes the columns, up to the first offset
//
// Integers are little-endian. The samples follow: see mds_columns.h.

#ifndef SHARDFEED_TFRECORD_MDS_HEADER_H_
#define SHARDFEED_TFRECORD_MDS_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tfrecord/mds_columns.h"

namespace shardfeed {

// Number of bytes from the beginning of a file that MdsHeaderBytes needs.
inline constexpr size_t kMdsStartBytes = 8;

struct MdsHeader {
  std::vector<uint32_t> offsets;  // one more than the number of samples
  std::shared_ptr<const MdsColumns> columns;

  uint64_t samples() const { return offsets.size() - 1; }
  uint64_t SampleBytes(uint64_t sample) const { return offsets[sample + 1] - offsets[sample]; }
};

// Returns the size of the header of a file of `file_bytes` bytes that begins with `start`.
// DataLoss: the numbers cannot be those of a shard of this size.
absl::StatusOr<uint64_t> MdsHeaderBytes(std::string_view start, uint64_t file_bytes);

// Parses the whole header.
// DataLoss: offsets that do not rise or do not end with the file; the errors of MdsColumns::Parse.
absl::StatusOr<MdsHeader> ParseMdsHeader(std::string_view header, uint64_t file_bytes);

// Returns whether the first bytes of a file, which hold its whole header, look like those of a
// shard.
bool LooksLikeMds(std::string_view first_bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_MDS_HEADER_H_
