// Images without class folders: a flat folder, or any tree of folders.
//
// Features:
//
//   image/encoded      bytes   the file, as it is
//   image/format       bytes   "jpeg", "png" ..., by its first bytes
//   image/height       int64   in pixels
//   image/width        int64
//   image/filename     bytes   the path below SOURCE; as given for a file that was named itself
//
// and, from a file of labels:
//
//   image/class/label  int64   the label if labels are numbers, otherwise the number of its class
//   image/class/text   bytes   the name of the class, where it is known

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
  // Gives class names their numbers, or numbers their names. Without it, names are numbered in the
  // order of their bytes.
  std::optional<ClassMap> classes;
  ImageOptions images;
};

// The images of each folder sorted by the bytes of their names, then those of the folders in it.
// Files count as images by their suffix, see image.h; names that start with a dot are passed
// over.
//
// InvalidArgument: no paths, or classes without labels. DataLoss: no images; one that is none, is
// empty or lacks a label; a label that the class map does not have. FailedPrecondition: files were
// added or removed since Scan. NotFound and the like: a file or folder cannot be read.
absl::StatusOr<std::unique_ptr<Source>> MakeImagesSource(std::vector<std::string> paths,
                                                         ImagesOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_IMAGES_H_
