// Records of another dataset: to compress it anew, to cut it into other shards, or to shuffle it.
// The bytes of each record stay as they are, whatever they hold, unless its images are to be
// rewritten.

#ifndef SHARDFEED_CONVERT_SOURCES_TFRECORD_H_
#define SHARDFEED_CONVERT_SOURCES_TFRECORD_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/image_rewriter.h"
#include "convert/items/source.h"

namespace shardfeed {

// The records of the datasets one after another, in the order of their shards; `specs` as
// ResolveSpecs has them, raw or compressed. Both CRCs of each record are checked.
//
// Of large records in raw shards, an item's bytes say where the record stands, and Build reads it;
// otherwise they are the record.
//
// With SkipDefects, damaged records are left out, as ShardSalvager does.
//
// InvalidArgument and others: those of ResolveSpecs. Scan, ForEach and Build: DataLoss at damage,
// with file, record and byte; FailedPrecondition: a shard has changed since Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeTfrecordSource(const std::vector<std::string>& specs,
                                                           const ImageOptions& images = {
                                                               .jpeg = JpegMode::kKeep});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_TFRECORD_H_
