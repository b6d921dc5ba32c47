// Images with boxes in the layout of Pascal VOC:
//
//   SOURCE/JPEGImages/NAME.jpg            or any other suffix of an image
//   SOURCE/Annotations/NAME.xml
//   SOURCE/ImageSets/Main/SUBSET.txt      a NAME in each line
//
// If there is no folder Annotations, images and annotations are both in SOURCE.
//
// Features: those of images.h without labels, the boxes and classes of object_list.h, those of
// difficult, truncated and view that any object has, and
//
//   image/source_id  bytes  the name of the image's file
//
// VOC counts pixels from 1, and a box includes its last column and row, so it covers the fractions
// from (xmin - 1) / width to xmax / width.

#ifndef SHARDFEED_CONVERT_SOURCES_VOC_H_
#define SHARDFEED_CONVERT_SOURCES_VOC_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/class_map.h"
#include "convert/features/image_rewriter.h"
#include "convert/items/source.h"

namespace shardfeed {

struct VocOptions {
  // Only the images of this list. If empty, all that have annotations.
  std::string subset;
  // The numbers of the classes. Without it, the names in all annotations of the sources, also of
  // those outside the subset, are numbered in the order of their bytes.
  std::optional<ClassMap> classes;
  // Boxes are edges that count from 0, from xmin / width to xmax / width, as many tools write them.
  bool zero_based = false;
  StoredImageOptions images;
};

// Delivers the images of each source in the order of the annotations' names. Scan and Build each
// read the annotations; memory holds the names.
//
// InvalidArgument: no sources. DataLoss: another layout; an annotation that is broken, has no image
// or a class that is not in the class map; a name of the list without annotation. NotFound and the
// like: a file cannot be read.
absl::StatusOr<std::unique_ptr<Source>> MakeVocSource(std::vector<std::string> folders,
                                                      VocOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_VOC_H_
