// Folders of images, one folder per class: the layout of torchvision's ImageFolder.
//
//   SOURCE/CLASS/image.jpg, or at any depth below CLASS
//
// The classes are the folders in SOURCE, sorted by the bytes of their names and numbered from 0;
// folders of equal name in several sources are one class. Files are images if they have the suffix
// jpg, jpeg, png, bmp, webp, gif, tif, tiff, avif, heic, heif or jxl, in any case. Names that start
// with a dot are skipped. Links are followed, except into a folder that contains the link.
//
// Features, with the names and meanings of TensorFlow's ImageNet scripts:
//
//   image/encoded      bytes   the file, rewritten if StoredImageOptions says so
//   image/format       bytes   "jpeg", "png" and so on, by the first bytes of the file
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
  // The numbers of the classes, instead of the order of their names.
  std::optional<ClassMap> classes;
  StoredImageOptions images;
};

// Delivers the images of class 0, then class 1 and so on, within a class by source, and within a
// folder by the bytes of the names. Scan and ForEach each walk the folders and hold the names of
// one folder and those that enclose it; Build reads the image and takes its size from its header.
//
// InvalidArgument: no sources. DataLoss: another layout, a class without images, the name of a
// class that is not UTF-8 or not in the class map, or an invalid image. FailedPrecondition: the
// folders have changed since Scan. NotFound and the like: a file or folder cannot be read.
absl::StatusOr<std::unique_ptr<Source>> MakeImageFolderSource(std::vector<std::string> folders,
                                                              ImageFolderOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_IMAGEFOLDER_H_
