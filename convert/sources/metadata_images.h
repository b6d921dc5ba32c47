// Folders of images with a table of their features, as Hugging Face's datasets have them:
//
//   SOURCE/metadata.csv or SOURCE/metadata.jsonl   file_name (below SOURCE) and other columns
//   SOURCE/a.jpg, SOURCE/cats/b.png ...
//
// Features: those of images.h without labels, and one for each column, as in csv.h or json.h. A row
// is a record, in the order of the table; an image may have several rows.

#ifndef SHARDFEED_CONVERT_SOURCES_METADATA_IMAGES_H_
#define SHARDFEED_CONVERT_SOURCES_METADATA_IMAGES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/feature_choice.h"
#include "convert/features/image_rewriter.h"
#include "convert/items/source.h"

namespace shardfeed {

// Returns the path of the table in one of the sources; empty if none has one.
//
// InvalidArgument: there are several sources, a folder with both tables, or a folder whose folders
// (train, test) have tables of their own.
absl::StatusOr<std::string> FindMetadata(const std::vector<std::string>& sources);

// Makes the source of the table at `path` and the images in its folder. `kinds`: those of columns,
// instead of the inferred ones; others are ignored.
//
// DataLoss: a row without an image, an image that is invalid or empty, a column with the name of a
// feature that the image makes. Others: those of csv.h and json.h, and of files that cannot be
// read.
absl::StatusOr<std::unique_ptr<Source>> MakeMetadataImagesSource(std::string path,
                                                                 StoredImageOptions options,
                                                                 ChosenKinds kinds = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_METADATA_IMAGES_H_
