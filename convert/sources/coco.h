// Images with the annotations of a COCO file: boxes, outlines, keypoints, captions.
//
// Features: those of images.h without labels, those of object_list.h that any annotation has, and
//
//   image/source_id  bytes  the image's id
//   image/caption    bytes  its captions, if the file has any
//
// Labels are the ids of categories as they are in the file (1 to 90 in COCO's own). Boxes are kept
// as they are, also where they leave the image or have no area, which is noted.

#ifndef SHARDFEED_CONVERT_SOURCES_COCO_H_
#define SHARDFEED_CONVERT_SOURCES_COCO_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/image_rewriter.h"
#include "convert/input/text_reader.h"
#include "convert/items/source.h"

namespace shardfeed {

struct CocoOptions {
  // The folder to which file names are relative. If empty, the folder of the annotation file.
  std::string images_folder;
  // A longer object is an error.
  uint64_t max_object_bytes = kDefaultMaxLineBytes;
  StoredImageOptions images;
};

// Delivers the images of one file, such as instances_train2017.json, in its order, each with its
// annotations in theirs. Scan reads the file twice; memory holds the images' names and ids, the
// categories, and 32 bytes for each annotation, which Build reads again.
//
// If defects are skipped, an image with a broken annotation is left out, and an annotation of an
// unknown image counts as one. InvalidArgument: not one path. ResourceExhausted: an object
// above the limit. DataLoss: anything that contradicts the format or itself. FailedPrecondition:
// the file has changed since Scan. NotFound and the like: a file cannot be read.
absl::StatusOr<std::unique_ptr<Source>> MakeCocoSource(std::vector<std::string> paths,
                                                       CocoOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_COCO_H_
