// Stages that count elements: take, skip, shard, enumerate; and one that keeps some for a while:
// shuffle of a window.

#ifndef SHARDFEED_PIPELINE_LIMITING_H_
#define SHARDFEED_PIPELINE_LIMITING_H_

#include <cstdint>
#include <memory>

#include "pipeline/stage.h"

namespace shardfeed {

// The first `count` elements.
std::unique_ptr<Stage> MakeTakeStage(std::unique_ptr<Stage> input, uint64_t count);
// All but the first `count` elements.
std::unique_ptr<Stage> MakeSkipStage(std::unique_ptr<Stage> input, uint64_t count);
// The elements whose number is `rank` modulo `world`.
std::unique_ptr<Stage> MakeShardStage(std::unique_ptr<Stage> input, uint64_t rank, uint64_t world);

// Adds the elements' numbers as a last column of int64. Of a stream of rows.
std::unique_ptr<Stage> MakeEnumerateStage(std::unique_ptr<Stage> input,
                                          std::shared_ptr<const RowSpec> spec, int64_t start);

// Permutes each stretch of `window` elements, by a key made of seed, epoch and the stretch's
// number. Memory: the elements of one stretch.
std::unique_ptr<Stage> MakeShuffleStage(std::unique_ptr<Stage> input,
                                        std::shared_ptr<const RowSpec> spec, uint64_t window,
                                        uint64_t seed, uint64_t epoch);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_LIMITING_H_
