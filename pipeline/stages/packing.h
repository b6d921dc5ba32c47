// Packs sequences into rows of fixed length.

#ifndef SHARDFEED_PIPELINE_STAGES_PACKING_H_
#define SHARDFEED_PIPELINE_STAGES_PACKING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/stages/padding_value.h"
#include "pipeline/stages/run_context.h"
#include "pipeline/stages/stage.h"
#include "reader/plan/pack_plan.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// What packed rows are made of.
struct PackLayout {
  int64_t length = 0;
  std::vector<size_t> columns;    // the input's columns of sequences
  std::vector<PaddingValue> pad;  // the value that fills up each of them
  // The value after each of their sequences, which belongs to it; empty: none.
  std::vector<PaddingValue> separator;
  std::vector<size_t> kept;  // the input's columns with one value per segment
  bool cu_seqlens = false;
  // The columns of packed rows: the sequences', NAME_segment_ids, NAME_positions, the kept ones
  // and, if asked for, NAME_cu_seqlens, where NAME is that of the first sequences.
  std::shared_ptr<const RowSpec> spec;
};

// Fills packed rows one after the other: a sequence goes into the first of `open` rows that has
// room; if none has, the oldest is delivered. A sequence longer than a row is truncated, or else an
// error. `context` names records in errors.
std::unique_ptr<Stage> MakePackStage(std::unique_ptr<Stage> input, PackLayout layout, size_t open,
                                     bool truncate, std::shared_ptr<RunContext> context);

// Fills the rows of a plan, whose records `input` delivers row by row.
std::unique_ptr<Stage> MakePlannedPackStage(std::unique_ptr<Stage> input, PackLayout layout,
                                            std::shared_ptr<const PackPlan> plan,
                                            std::shared_ptr<RunContext> context);

// What the rows of a plan made with PackSpec::How::kSteps consist of.
struct StepsLayout {
  struct Part {
    size_t column = 0;  // a ragged column of the input
    int64_t begin = 0;  // the elements from step + begin to step + end - 1
    int64_t end = 0;
    int mask = -1;  // the output's uint8 column that marks elements beyond the ends; -1: none
  };
  std::vector<Part> parts;  // the output's first columns
  int number = -1;          // the output's int32 column with the number of the step; -1: none
  // The output's last columns: of the input, those with one value per episode.
  std::vector<size_t> kept;
  std::shared_ptr<const RowSpec> spec;
};

// Makes the rows of such a plan, whose records `input` delivers row by row.
std::unique_ptr<Stage> MakePlannedStepsStage(std::unique_ptr<Stage> input, StepsLayout layout,
                                             std::shared_ptr<const PackPlan> plan,
                                             std::shared_ptr<RunContext> context);

// Batches the records of the rows of a plan made with PackSpec::How::kBatch, as they are. `column`
// gives the length of a row.
std::unique_ptr<Stage> MakePlannedBatchStage(std::unique_ptr<Stage> input,
                                             std::shared_ptr<const RowSpec> spec, size_t column,
                                             std::shared_ptr<const PackPlan> plan,
                                             std::shared_ptr<RunContext> context);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_PACKING_H_
