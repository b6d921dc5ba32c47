// Folders of images, one folder per class: the layout of torchvision's ImageFolder.
//
//   SOURCE/CLASS/image.jpg, also at any depth below CLASS
//
// The classes are the folders in SOURCE, sorted by the bytes of their names and numbered from 0;
// of several sources, the folders of equal name are one class. Files count as images by their
// suffix: jpg, jpeg, png, bmp, webp, gif, tif, tiff, in any case. Names that start with a dot are
// passed over. Links are followed, except into a folder that they stand in.
//
// Features, with the names and meanings of TensorFlow's ImageNet scripts:
//
//   image/encoded      bytes   the file, as it is
//   image/format       bytes   "jpeg", "png" ..., by its first bytes
//   image/height       int64   in pixels
//   image/width        int64
//   image/class/label  int64   the number of the class
//   image/class/text   bytes   the name of its folder
//   image/filename     bytes   the path below SOURCE

#ifndef SHARDFEED_CONVERT_SOURCES_IMAGEFOLDER_H_
#define SHARDFEED_CONVERT_SOURCES_IMAGEFOLDER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/class_map.h"
#include "convert/features/image_rewriter.h"
#include "convert/items/source.h"

namespace shardfeed {

struct ImageFolderOptions {
  // Gives the classes their numbers, in the place of the order of their names.
  std::optional<ClassMap> classes;
  ImageOptions images;
};

// The images of class 0, then class 1 ..., within a class by source, within a folder by the bytes
// of the names. Scan and ForEach each walk the folders and hold the names of no more than one
// folder and those it stands in; Build reads the image and, from its first bytes, its size.
//
// InvalidArgument: no sources. DataLoss: the layout is another, a class has no images, the name
// of a class is not UTF-8 or not in the class map, or an image is none. FailedPrecondition: the
// folders have changed since Scan. NotFound and the like: a file or folder cannot be read.
absl::StatusOr<std::unique_ptr<Source>> MakeImageFolderSource(std::vector<std::string> folders,
                                                              ImageFolderOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_IMAGEFOLDER_H_
