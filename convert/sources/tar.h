// Tar archives as WebDataset has them: the files of one record share the name up to the first dot.
//
//   n01.jpg n01.cls n01.json n02.jpg n02.cls ...
//
// The files of a record stand one after another. What follows the first dot, in lower case, is the
// name of a feature:
//
//   __key__                           bytes   the name up to the first dot, folders included
//   cls, cls2, class, count, id,
//   index, inx                        int64   if all contents in the input are integers; float if
//                                             all are numbers; otherwise bytes
//   json, if JSON is to be parsed     as jsonl has it: "json.KEY" for each key
//   any other                         bytes   the content, as it is
//
// Folders and names without a dot are passed over, as are names that start with a dot and those
// like __this__. Archives may be compressed with gzip.

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
  // Of the keys of parsed JSON, by names such as "json.KEY", see JsonSchema.
  FeatureChoice choice;
  // Of members that are JPEGs.
  ImageOptions images = {.jpeg = JpegMode::kKeep};
};

// The records of the archives one after another. Nothing is unpacked: members of a plain archive
// are read in Build, and an item's bytes say where they stand; of a compressed one, an item holds
// them.
//
// With SkipDefects, a record with a member that must not be is left out; of an archive that breaks
// off, what was before.
//
// InvalidArgument: no paths. DataLoss, with the byte: what is no tar, damaged or cut; links,
// devices and names that lead outside ("../x", "/x"); a member twice; files of one record that do
// not stand together. FailedPrecondition: a file has changed since Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeTarSource(std::vector<std::string> paths,
                                                      TarOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_TAR_H_
