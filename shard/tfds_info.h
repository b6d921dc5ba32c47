// A folder of datasets as one dataset of TensorFlow Datasets (TFDS).
//
// Formats: tensorflow_datasets/core/proto/dataset_info.proto and feature.proto, as proto3 JSON.

#ifndef SHARDFEED_SHARD_TFDS_INFO_H_
#define SHARDFEED_SHARD_TFDS_INFO_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace shardfeed {

// Writes dataset_info.json and features.json into `directory` (empty: the current one), so that
// tfds.builder_from_directory opens it. Each dataset there that has a manifest becomes a split.
//
// The dataset has the name of the folder and the version 1.0.0; a folder that is named like a
// version (1.2.3) gives the version, and the one above it the name. A split has the name of its
// stem, without the dataset's and a dash where it begins so: of mnist-train, train.
//
// Features keep their names. One that has the same number of values in every record is a Tensor of
// that shape; otherwise a Tensor of any length, empty where it is missing. image/encoded is an
// Image of three channels; image/class/label is a ClassLabel where `class_names` are given, which
// go to a file of their own. Features without values, and of more than one kind, are left out.
//
// FailedPrecondition, and nothing is written: a dataset there is compressed or holds other records
// than Examples, or its split would be called "all"; classes that an earlier call wrote have other
// names. NotFound: no dataset has a manifest there.
absl::Status WriteTfdsInfo(const std::string& directory,
                           const std::vector<std::string>& class_names);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_TFDS_INFO_H_
