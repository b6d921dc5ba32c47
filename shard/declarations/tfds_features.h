// The features of a dataset of TensorFlow Datasets (TFDS), as its features.json declares them.
//
// Format: tensorflow_datasets/core/proto/feature.proto as proto3 JSON, or the older form of
// {"type", "content"}. What is stored in records follows from the declaration as in
// tensorflow_datasets/core/example_serializer.py; docs/tfds.md has the table.
//
// All functions are thread-safe.

#ifndef SHARDFEED_SHARD_DECLARATIONS_TFDS_FEATURES_H_
#define SHARDFEED_SHARD_DECLARATIONS_TFDS_FEATURES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/schema/class_names.h"
#include "shard/schema/schema.h"
#include "shardfeed/spec.h"

namespace shardfeed {

// How arrays are stored in a bytes feature.
enum class TfdsEncoding : uint8_t {
  kNone,   // values are those of the record's list
  kBytes,  // each string holds the values of an array in memory order, little-endian
  kZlib,   // the same, compressed
};

// One feature of the records.
struct TfdsFeature {
  // Its name in records. Names of nested features are joined by '/'.
  std::string name;
  // Its declaration as text: "Sequence(ClassLabel)".
  std::string connector;
  // The kind of its list in records.
  FeatureKind kind = FeatureKind::kNone;
  // Type of the values: "bool", "uint8", "float64" and other names of NumPy's; "bytes" for strings,
  // which include encoded images.
  std::string dtype;
  // Shape of the value in a record; -1 is any length. Values are in C order.
  std::vector<int64_t> shape;
  // kBytes and kZlib: this number of dimensions at the end of `shape` are those of each encoded
  // array, and the others count the arrays.
  TfdsEncoding encoding = TfdsEncoding::kNone;
  size_t array_rank = 0;
  // Whether records may lack it: TFDS then gives the lowest value of its type.
  bool optional = false;
  // "png" or "jpeg" for an image that says so.
  std::string image_format;
  // For a class label: the number of classes, and the file beside features.json that may name them.
  uint64_t num_classes = 0;
  std::string labels_file;
  // Why records cannot be parsed like this; empty if they can.
  std::string problem;
};

struct TfdsFeatures {
  std::string path;  // path of features.json
  std::vector<TfdsFeature> features;
};

// Parses features.json, whose path is `path`. DataLoss: it is damaged. A feature of an unknown
// class has a `problem`.
absl::StatusOr<TfdsFeatures> ParseTfdsFeatures(std::string_view text, std::string path);

// Reads the features.json of the folder if all files of `set` are shards that the dataset_info.json
// beside it lists. Null: it does not, or there are no such files. Errors: those of
// ParseTfdsFeatures, ReadTfdsSplits and ReadWhole.
absl::StatusOr<std::shared_ptr<const TfdsFeatures>> FindTfdsFeatures(const ShardSet& set);

// Reads the names of classes from the files beside features.json. DataLoss: a file has a name
// twice, a name that is not UTF-8, or another number of names than there are classes.
absl::StatusOr<FeatureClasses> ReadTfdsClasses(const TfdsFeatures& features);

// The types of features, for Schema::SetTypes.
FeatureTypes TypesOf(const TfdsFeatures& features);

// The part of the declared features that a new manifest of the dataset can hold.
struct TfdsDeclared {
  // The types with which parse() restores from the manifest what it restores from features.json.
  FeatureTypes types;
  FeatureClasses classes;
  std::vector<std::string> notes;  // what is lost
};

// Returns what features.json declares about the set; nullopt as FindTfdsFeatures. A damaged
// description becomes a note. Errors: files cannot be read.
absl::StatusOr<std::optional<TfdsDeclared>> FindTfdsDeclared(const ShardSet& set);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_DECLARATIONS_TFDS_FEATURES_H_
