// Reads the header of an MDS shard from its file.

#ifndef SHARDFEED_SHARD_FORMATS_MDS_FILE_H_
#define SHARDFEED_SHARD_FORMATS_MDS_FILE_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/file.h"
#include "tfrecord/mds_header.h"

namespace shardfeed {

bool IsNamedMds(std::string_view path);
// InvalidArgument: the name is that of a compressed MDS shard, which is not read in place.
absl::Status CheckNotCompressedMds(std::string_view path);

// Reads the whole header, usually at once.
// DataLoss, with the path: the errors of MdsHeaderBytes and ParseMdsHeader.
absl::StatusOr<MdsHeader> ReadMdsHeader(const File& file);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FORMATS_MDS_FILE_H_
