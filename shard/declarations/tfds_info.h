// Describes a folder of datasets as one dataset of TensorFlow Datasets (TFDS).
//
// Formats: tensorflow_datasets/core/proto/dataset_info.proto and feature.proto, as proto3 JSON.

#ifndef SHARDFEED_SHARD_DECLARATIONS_TFDS_INFO_H_
#define SHARDFEED_SHARD_DECLARATIONS_TFDS_INFO_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace shardfeed {

// Writes dataset_info.json and features.json into `directory` (empty: the current one), so that
// tfds.builder_from_directory opens it. Each dataset there that has a manifest becomes a split.
//
// The dataset has the name of the folder and the version 1.0.0; if the folder is named like a
// version (1.2.3), that is the version, and its parent folder gives the name. A split is named
// after its stem, without a leading dataset name and dash: the stem mnist-train becomes train.
//
// Features keep their names. A feature with the same number of values in every record becomes a
// Tensor of that shape, otherwise a Tensor of any length, empty where the feature is missing.
// image/encoded becomes an Image of three channels, and image/class/label a ClassLabel if
// `class_names` are given, which are stored in a file of their own. Features without values or of
// mixed kinds are left out.
//
// FailedPrecondition: a dataset is compressed, has records that are not Examples, or would become a
// split named "all"; or the class names differ from those of an earlier call. Nothing is written
// then. NotFound: no dataset in the folder has a manifest.
absl::Status WriteTfdsInfo(const std::string& directory,
                           const std::vector<std::string>& class_names);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_DECLARATIONS_TFDS_INFO_H_
