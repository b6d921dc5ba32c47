// Images without class folders: a flat folder, or any tree of folders.
//
// Features:
//
//   image/encoded      bytes   the file, rewritten if StoredImageOptions says so
//   image/format       bytes   "jpeg", "png" and so on, by the first bytes of the file
//   image/height       int64   in pixels
//   image/width        int64
//   image/filename     bytes   the path below SOURCE, or the path as given if SOURCE is a file
//
// and, from a file of labels:
//
//   image/class/label  int64   the label if labels are integers, otherwise the number of the class
//   image/class/text   bytes   the name of the class, if known
//
// and each other column of a table of labels, by its name; also that of labels with fractions.

#ifndef SHARDFEED_CONVERT_SOURCES_IMAGES_H_
#define SHARDFEED_CONVERT_SOURCES_IMAGES_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/class_map.h"
#include "convert/features/image_rewriter.h"
#include "convert/features/label_file.h"
#include "convert/items/source.h"

namespace shardfeed {

struct ImagesOptions {
  std::optional<LabelFile> labels;
  // The numbers of class names, or the names of numbers. Without it, names are numbered in the
  // order of their bytes.
  std::optional<ClassMap> classes;
  StoredImageOptions images;
};

// Delivers the images of each folder sorted by the bytes of their names, then those of its
// subfolders. Files are images by their suffix, see image_file.h; names that start with a dot are
// skipped.
//
// InvalidArgument: no paths, or classes without labels. DataLoss: no images; an image that is
// invalid, empty or has no label; a label that the class map does not have. FailedPrecondition:
// files were added or removed since Scan. NotFound and the like: a file or folder cannot be read.
absl::StatusOr<std::unique_ptr<Source>> MakeImagesSource(std::vector<std::string> paths,
                                                         ImagesOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_IMAGES_H_
