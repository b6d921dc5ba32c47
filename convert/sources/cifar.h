// The binary files of CIFAR-10 and CIFAR-100, plain or compressed with gzip.
//
// Layout (cs.toronto.edu/~kriz/cifar.html): records of one label byte (CIFAR-10) or two (CIFAR-100:
// coarse, then fine) and 3072 bytes of pixels, 32 x 32, all red ones first, then green, then blue.
//
// Features:
//
//   image/raw                 bytes   32 x 32 x 3 bytes, row by row, red, green and blue together
//   image/height              int64   32
//   image/width               int64   32
//   image/channels            int64   3
//   image/class/label         int64   0 to 9, or the fine label, 0 to 99
//   image/class/coarse_label  int64   0 to 19; CIFAR-100 only
//   image/class/text          bytes   the name of the class, if there is a class map

#ifndef SHARDFEED_CONVERT_SOURCES_CIFAR_H_
#define SHARDFEED_CONVERT_SOURCES_CIFAR_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/class_map.h"
#include "convert/items/source.h"

namespace shardfeed {

struct CifarOptions {
  // 10 or 100. 0: inferred from the sizes of the files, which are multiples of 3073 or of 3074
  // bytes.
  int variant = 0;
  // Names of the (fine) labels; batches.meta.txt and fine_label_names.txt can be used unchanged.
  std::optional<ClassMap> classes;
};

// Delivers the records of the files in order. An item's bytes are a record.
//
// InvalidArgument: no paths, or an unknown variant. DataLoss: a size that fits neither variant, or
// both; a label out of range, with record and byte. FailedPrecondition: a file has changed since
// Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeCifarSource(std::vector<std::string> paths,
                                                        CifarOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_CIFAR_H_
