// NumPy arrays: row i of each array goes into record i.
//
// Layout (numpy.org/doc/stable/reference/generated/numpy.lib.format.html): "\x93NUMPY", version,
// length of the header, the header (the text of a Python dictionary), then the values.
//
// Each array gives one feature, by the type of its values:
//
//   bool, int8 to int64, uint8 to uint64   int64, the row as a flat list; an error beyond int64
//   uint8 with rows of two or more dimensions (images)   bytes: the unchanged row
//   float16, float32, float64              float32, the row as a flat list
//   S (bytes of a fixed size)              bytes, without the zeros at the end
//   U (text of a fixed size)               bytes, in UTF-8
//
// A row's shape is the same in all records and is recorded in a note.

#ifndef SHARDFEED_CONVERT_SOURCES_NPY_H_
#define SHARDFEED_CONVERT_SOURCES_NPY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/items/source.h"

namespace shardfeed {

// Each of `sources` is PATH or NAME=PATH, where NAME is the name of the feature; by default, it is
// the file's name without ".npy". Files with the same NAME are concatenated to one array; all
// arrays need the same number of rows. Rows are read in Build; an item's bytes are a row number.
//
// InvalidArgument: no sources. DataLoss: not a .npy file; an unsupported type, byte order or axis
// order, with the remedy; a size that does not match the header; numbers of rows that differ; a
// value beyond int64. FailedPrecondition: a file has changed since Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeNpySource(std::vector<std::string> sources);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_NPY_H_
