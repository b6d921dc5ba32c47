// Packs sequences into rows of fixed length.

#ifndef SHARDFEED_PIPELINE_STAGES_PACKING_H_
#define SHARDFEED_PIPELINE_STAGES_PACKING_H_

#include <cstdint>
#include <memory>

#include "pipeline/stages/run_context.h"
#include "pipeline/stages/stage.h"
#include "shardfeed/dataset.h"

namespace shardfeed {

// For a ragged int64 or int32 column: rows with the columns NAME [length], NAME_segment_ids (int32:
// 1, 2 ... for the sequences in a row, 0 for padding) and NAME_positions (int32: the position
// within the sequence).
std::shared_ptr<const RowSpec> PackedSpec(const ColumnSpec& column, int64_t length);

// `context` names records in errors.
std::unique_ptr<Stage> MakePackStage(std::unique_ptr<Stage> input, size_t column,
                                     std::shared_ptr<const RowSpec> spec,
                                     const PackOptions& options,
                                     std::shared_ptr<const RunContext> context);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_PACKING_H_
