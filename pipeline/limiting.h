// Stages that count elements: take, skip, shard, enumerate; and those that keep some for a while:
// shuffle of a window, cache.

#ifndef SHARDFEED_PIPELINE_LIMITING_H_
#define SHARDFEED_PIPELINE_LIMITING_H_

#include <cstdint>
#include <memory>
#include <vector>

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

// What a cache holds; shared by all runs of a recipe.
struct CachedElements {
  std::vector<Batch> batches;
  bool complete = false;
  uint64_t bytes = 0;
};

// Keeps what the input delivers, and delivers it from memory once it is complete. ResourceExhausted
// when it takes more than `max_bytes`. A state that was saved before is come back to by reading the
// input from its start.
std::unique_ptr<Stage> MakeCacheStage(std::unique_ptr<Stage> input,
                                      std::shared_ptr<CachedElements> cache, uint64_t max_bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_LIMITING_H_
