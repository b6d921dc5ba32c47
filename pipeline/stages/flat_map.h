// Makes any number of rows of each row.

#ifndef SHARDFEED_PIPELINE_STAGES_FLAT_MAP_H_
#define SHARDFEED_PIPELINE_STAGES_FLAT_MAP_H_

#include <memory>

#include "shardfeed/functions.h"

namespace shardfeed {

// Applies `fn` to all rows of a batch and replaces it by the emitted rows. If `fn` fails, the batch
// has the rows emitted for the rows before: see SetFailedRow.
BatchFn MakeFlatMapFn(std::shared_ptr<const RowSpec> outputs, FlatMapFn fn);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_FLAT_MAP_H_
