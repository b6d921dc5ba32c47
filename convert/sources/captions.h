// Images with a text for each: cat.jpg and cat.txt, cat.json or both.
//
// Features: those of images.h without labels, and
//
//   text   bytes   the content of the .txt file, without line breaks at its end; UTF-8
//   KEY            one feature for each key of the .json file, as in json.h
//   json   bytes   the unchanged .json file instead of its keys, if `keep_json`

#ifndef SHARDFEED_CONVERT_SOURCES_CAPTIONS_H_
#define SHARDFEED_CONVERT_SOURCES_CAPTIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/feature_choice.h"
#include "convert/features/image_rewriter.h"
#include "convert/items/source.h"

namespace shardfeed {

struct CaptionsOptions {
  bool keep_json = false;
  // Keys of the JSON files, by dotted names: see JsonSchema.
  FeatureChoice choice;
  StoredImageOptions images;
};

// Delivers the images of each folder sorted by the bytes of their names without suffix, then those
// of its subfolders. Holds in memory the names of one folder and those that enclose it, and the
// keys of the JSON files, all of which Scan reads.
//
// InvalidArgument: no folders. DataLoss: no images; an image that is invalid, empty or without a
// text; two images with one stem; JSON that cannot become features; text that is not UTF-8.
// FailedPrecondition: files have changed since Scan. NotFound and the like: a file or folder cannot
// be read.
absl::StatusOr<std::unique_ptr<Source>> MakeCaptionsSource(std::vector<std::string> folders,
                                                           CaptionsOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_CAPTIONS_H_
