// Where the elements of a chain come from.

#ifndef SHARDFEED_PIPELINE_STAGES_SOURCES_H_
#define SHARDFEED_PIPELINE_STAGES_SOURCES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pipeline/stages/run_context.h"
#include "pipeline/stages/stage.h"
#include "reader/lazy_shard_table.h"
#include "shardfeed/functions.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// The one column of records as they stand in shards: "record", bytes.
std::shared_ptr<const RowSpec> RecordSpec();

// `source`: the number of the source in its chain, for the origins of the rows.
//
// The records of a dataset of shards, from epoch `epoch` on. Damaged records that the options have
// skipped are Batch::damaged. `options.epochs` is the number of epochs; `key` tells the step from
// others in `context`. Where indexes are missing, the first records come before they are made, if
// the order allows it (UnindexedReader).
absl::StatusOr<std::unique_ptr<Stage>> MakeShardsStage(std::shared_ptr<const LazyShardTable> table,
                                                       ReaderOptions options, uint64_t epoch,
                                                       uint32_t source, const void* key,
                                                       std::shared_ptr<RunContext> context);

// How many numbers start, start + step ... there are before stop. `step` is not 0.
uint64_t RangeSize(int64_t start, int64_t stop, int64_t step);

// These numbers, in a column of int64.
std::unique_ptr<Stage> MakeRangeStage(int64_t start, int64_t stop, int64_t step,
                                      std::shared_ptr<const RowSpec> spec, uint64_t epoch,
                                      uint32_t source);

// The rows of `rows`, which is not `batched`.
std::unique_ptr<Stage> MakeRowsStage(Batch rows, uint64_t epoch, uint32_t source);

// The generator is called on a thread of its own, and rows are delivered as they are there. It is
// asked for few rows ahead of the consumer: one at first, 64 at the most. When the stage goes while
// a call of it does not return, the thread is left behind: so the function must hold, or outlive by
// other means, all that it uses.
//
// The generator is made anew to go to a saved state, and what was delivered before is generated
// again and dropped.
std::unique_ptr<Stage> MakeGeneratorStage(std::function<Generator()> make,
                                          std::shared_ptr<const RowSpec> spec, uint64_t epoch,
                                          uint32_t source);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_SOURCES_H_
