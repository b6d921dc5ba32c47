// Records of another dataset, to be compressed, sharded or shuffled again. The bytes of each record
// do not change, unless its images are to be rewritten.

#ifndef SHARDFEED_CONVERT_SOURCES_TFRECORD_H_
#define SHARDFEED_CONVERT_SOURCES_TFRECORD_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/image_rewriter.h"
#include "convert/items/source.h"

namespace shardfeed {

// Delivers the records of the datasets in order, raw or compressed, in the order of their shards;
// `specs` are as for ResolveSpecs. Both CRCs of each record are checked.
//
// For large records in raw shards, an item's bytes refer to the record, which Build reads;
// otherwise they are the record.
//
// With SkipDefects, damaged records are left out, as by ShardSalvager.
//
// InvalidArgument and others: those of ResolveSpecs. Scan, ForEach and Build: DataLoss for damage,
// with file, record and byte; FailedPrecondition: a shard has changed since Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeTfrecordSource(const std::vector<std::string>& specs,
                                                           const StoredImageOptions& images = {
                                                               .jpeg = JpegMode::kKeep});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_TFRECORD_H_
