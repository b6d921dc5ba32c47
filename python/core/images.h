// Options of the steps on images, as Python has them.

#ifndef SHARDFEED_PYTHON_CORE_IMAGES_H_
#define SHARDFEED_PYTHON_CORE_IMAGES_H_

#include <vector>

#include "nanobind/nanobind.h"
#include "pipeline/rows/augment.h"
#include "pipeline/rows/decode_image.h"

namespace shardfeed::python {

// {name: value} of the fields of DecodeImageOptions and ImageOptions; what is not named has its
// default. Raises ValueError where a name of a choice is none.
DecodeImageOptions DecodeImageFromPython(nanobind::dict fields);

// (name, {field: value}) of each, as augment.py makes them.
std::vector<Augmentation> AugmentationsFromPython(nanobind::sequence steps);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_IMAGES_H_
