// IDX files: images and labels as MNIST has them, plain or compressed with gzip.
//
// Layout (yann.lecun.com/exdb/mnist): two zero bytes, a type (0x08 unsigned byte, 0x09 signed byte,
// 0x0b int16, 0x0c int32), the number of dimensions, each dimension as a big-endian uint32, then
// the values, big-endian, the last dimension running fastest.
//
// Features:
//
//   image/raw          bytes   height x width x channels bytes, row by row
//   image/height       int64
//   image/width        int64
//   image/channels     int64   1, or the fourth dimension
//   image/class/label  int64   where there are labels
//   image/class/text   bytes   the name of the class, where a class map gives it

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

// `paths` are files of images (unsigned bytes, three dimensions or four) and of labels (integers,
// one dimension), in any order: the first file of labels goes with the first of images, and so
// on; or there are no labels at all. An item's bytes are a label and an image.
//
// InvalidArgument: no paths. DataLoss: not IDX or another kind of it; counts that do not agree; a
// file that is cut or goes on; a label that the class map does not have. FailedPrecondition: a file
// has changed since Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeIdxSource(std::vector<std::string> paths,
                                                      IdxOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_IDX_H_
