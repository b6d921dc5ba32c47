// Tar archives in WebDataset's layout: the files of one record share the name up to the first dot.
//
//   n01.jpg n01.cls n01.json n02.jpg n02.cls ...
//
// The files of a record are adjacent. The part of the name after the first dot, in lower case, is
// the name of a feature:
//
//   __key__                           bytes   the name up to the first dot, including folders
//   cls, cls2, class, count, id,
//   index, inx                        int64   if all contents in the input are integers; float if
//                                             all are numbers; otherwise bytes
//   json, if `parse_json`             a feature "json.KEY" for each key, as in json.h
//   any other                         bytes   the content, rewritten if StoredImageOptions says so
//
// Folders and names without a dot are skipped, as are names that start with a dot and names such as
// __this__. Archives may be compressed: see codec.h.

#ifndef SHARDFEED_CONVERT_SOURCES_TAR_H_
#define SHARDFEED_CONVERT_SOURCES_TAR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/feature_choice.h"
#include "convert/features/image_rewriter.h"
#include "convert/items/source.h"

namespace shardfeed {

struct TarOptions {
  bool parse_json = false;
  // Keys of parsed JSON, by names such as "json.KEY": see JsonSchema.
  FeatureChoice choice;
  // For members that are JPEGs.
  StoredImageOptions images = {.jpeg = JpegMode::kKeep};
};

// Delivers the records of the archives in order. Nothing is unpacked: Build reads the members of a
// plain archive, and an item's bytes hold their offsets; for a compressed archive, an item holds
// the members.
//
// With SkipDefects, a record with an invalid member is left out; of a truncated archive, the
// records before the end are kept.
//
// InvalidArgument: no paths. DataLoss, with the byte: not a tar archive, damaged or cut off; links,
// devices and names that lead outside ("../x", "/x"); a member that appears twice; files of one
// record that are not adjacent. FailedPrecondition: a file has changed since Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeTarSource(std::vector<std::string> paths,
                                                      TarOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_TAR_H_
