// Images with labels in the layout of YOLO, as Ultralytics' tools read it:
//
//   data.yaml            path, train, val and test (folders of images), and names (of the classes)
//   images/train/a.jpg
//   labels/train/a.txt   a line for each object, see yolo_label.h; none, or no file: no objects
//
// The labels of an image are where its path has "labels" in place of the last "images", or beside
// the image if there is no such folder.
//
// Features: those of images.h without labels; the boxes and classes of object_list.h, and those of
// polygons and keypoints if any line has them.

#ifndef SHARDFEED_CONVERT_SOURCES_YOLO_H_
#define SHARDFEED_CONVERT_SOURCES_YOLO_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/image_rewriter.h"
#include "convert/items/source.h"

namespace shardfeed {

struct YoloOptions {
  // "train", "val" or "test", or any folder below images/ if there is no data.yaml. May be empty if
  // there is only one.
  std::string subset;
  StoredImageOptions images;
};

// `paths` is one file (data.yaml by any name) or one folder, which has data.yaml or otherwise a
// folder images, and perhaps classes.txt with a name in each line. Without names, records have the
// numbers of classes alone.
//
// Delivers the images of each folder sorted by the bytes of their names, then those of its
// subfolders. Scan and Build each read the labels; memory holds the names.
//
// InvalidArgument: not one path, or no choice between several subsets. DataLoss: a broken line, a
// class without a name, no images. NotFound and the like: a file cannot be read.
absl::StatusOr<std::unique_ptr<Source>> MakeYoloSource(std::vector<std::string> paths,
                                                       YoloOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_YOLO_H_
