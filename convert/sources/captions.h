// Images with a text beside each: cat.jpg and cat.txt, cat.json or both.
//
// Features: those of images.h without labels, and
//
//   text   bytes   the content of the .txt file, without line breaks at its end; UTF-8
//   KEY            one for each key of the .json file, as json.h has them
//   json   bytes   the .json file as it is, in the place of its keys, if JSON is to be kept

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
  // Of the keys of the JSON files, by dotted names, see JsonSchema.
  FeatureChoice choice;
  ImageOptions images;
};

// The images of each folder sorted by the bytes of their names without suffix, then those of the
// folders in it. Holds the names of no more than one folder and those it stands in, and the keys of
// the JSON files, all of which Scan reads.
//
// InvalidArgument: no folders. DataLoss: no images; an image that is none, is empty or has no
// text beside it; two images of one name; JSON that cannot become features; text that is not
// UTF-8. FailedPrecondition: files have changed since Scan. NotFound and the like: a file or folder
// cannot be read.
absl::StatusOr<std::unique_ptr<Source>> MakeCaptionsSource(std::vector<std::string> folders,
                                                           CaptionsOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_CAPTIONS_H_
