// The sources of a chain's elements.

#ifndef SHARDFEED_PIPELINE_STAGES_SOURCES_H_
#define SHARDFEED_PIPELINE_STAGES_SOURCES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "pipeline/stages/number_columns.h"
#include "pipeline/stages/run_context.h"
#include "pipeline/stages/stage.h"
#include "reader/plan/pack_plan.h"
#include "reader/shards/lazy_shard_table.h"
#include "shardfeed/functions.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// What a source of packed records leaves in RunContext::Kept, by its step, for the stage that makes
// rows of them.
struct KeptPack {
  Mutex mutex;
  std::shared_ptr<const PackPlan> plan ABSL_GUARDED_BY(mutex);
};

// Below, `source` is the number of the source in its chain, for the origins of the rows.
//
// Delivers the records of a dataset of shards, from epoch `epoch` on. Damaged records that the
// options allow to skip are in Batch::damaged. `options.epochs` is the number of epochs; `key`
// identifies the step in `context`. If indexes are missing and the order allows it, the first
// records are delivered before the indexes are built (UnindexedReader), unless records have
// numbers.
absl::StatusOr<std::unique_ptr<Stage>> MakeShardsStage(std::shared_ptr<const LazyShardTable> table,
                                                       ReaderOptions options,
                                                       const NumberColumns& numbers, uint64_t epoch,
                                                       uint32_t source, const void* key,
                                                       std::shared_ptr<RunContext> context);

// How many numbers start, start + step ... precede stop. `step` is not 0.
uint64_t RangeSize(int64_t start, int64_t stop, int64_t step);

// Delivers these numbers in an int64 column.
std::unique_ptr<Stage> MakeRangeStage(int64_t start, int64_t stop, int64_t step,
                                      std::shared_ptr<const RowSpec> spec, uint64_t epoch,
                                      uint32_t source);

// Delivers the rows of `rows`, which must not be `batched`.
std::unique_ptr<Stage> MakeRowsStage(Batch rows, uint64_t epoch, uint32_t source);

// Calls a generator on a thread of its own, and delivers rows as soon as they are made. Few rows
// are requested ahead of the consumer: one at first, at most 64. If the stage is destroyed while a
// call does not return, the thread is abandoned, so the function must own, or otherwise keep alive,
// everything that it uses.
//
// To resume from a saved state, a new generator is made, and what was delivered before is
// generated again and dropped.
std::unique_ptr<Stage> MakeGeneratorStage(std::function<Generator()> make,
                                          std::shared_ptr<const RowSpec> spec, uint64_t epoch,
                                          uint32_t source);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_SOURCES_H_
