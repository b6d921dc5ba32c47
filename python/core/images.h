// Conversion of the options of image steps.

#ifndef SHARDFEED_PYTHON_CORE_IMAGES_H_
#define SHARDFEED_PYTHON_CORE_IMAGES_H_

#include <vector>

#include "nanobind/nanobind.h"
#include "pipeline/rows/augment.h"
#include "pipeline/rows/decode_image.h"

namespace shardfeed::python {

// Converts a dict with fields of DecodeImageOptions and ImageOptions; other fields keep their
// defaults. Raises ValueError for an unknown choice.
DecodeImageOptions DecodeImageFromPython(nanobind::dict fields);

// Converts (name, {field: value}) of each augmentation, as augment.py makes them.
std::vector<Augmentation> AugmentationsFromPython(nanobind::sequence steps);

// Converts a dict with fields of JointColumns; other fields keep their defaults.
JointColumns JointColumnsFromPython(nanobind::dict fields);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_IMAGES_H_
