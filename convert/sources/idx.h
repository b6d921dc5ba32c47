// IDX files of images and labels, such as MNIST's, plain or compressed with gzip.
//
// Layout (yann.lecun.com/exdb/mnist): two zero bytes, a type (0x08 unsigned byte, 0x09 signed byte,
// 0x0b int16, 0x0c int32), the number of dimensions, each dimension as a big-endian uint32, then
// the big-endian values, with the last dimension varying fastest.
//
// Features:
//
//   image/raw          bytes   height x width x channels bytes, row by row
//   image/height       int64
//   image/width        int64
//   image/channels     int64   1, or the fourth dimension
//   image/class/label  int64   if there are labels
//   image/class/text   bytes   the name of the class, if there is a class map

#ifndef SHARDFEED_CONVERT_SOURCES_IDX_H_
#define SHARDFEED_CONVERT_SOURCES_IDX_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/class_map.h"
#include "convert/items/source.h"

namespace shardfeed {

struct IdxOptions {
  std::optional<ClassMap> classes;  // names of the labels
};

// `paths` are files of images (unsigned bytes, three or four dimensions) and of labels (integers,
// one dimension), in any order: the first file of labels belongs to the first file of images, and
// so on. There may also be no labels at all. An item's bytes are a label and an image.
//
// InvalidArgument: no paths. DataLoss: not an IDX file, or an unsupported type; numbers of images
// and labels that differ; a file that is cut off or has data after its end; a label that the class
// map does not have. FailedPrecondition: a file has changed since Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeIdxSource(std::vector<std::string> paths,
                                                      IdxOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_IDX_H_
