// Several streams to one.

#ifndef SHARDFEED_PIPELINE_COMBINING_H_
#define SHARDFEED_PIPELINE_COMBINING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/stage.h"

namespace shardfeed {

// Makes the stage of an input, for an epoch. The epoch's number keys random steps and orders.
using StageFactory = std::function<absl::StatusOr<std::unique_ptr<Stage>>(uint64_t epoch)>;

// One input after another.
absl::StatusOr<std::unique_ptr<Stage>> MakeConcatenateStage(std::vector<StageFactory> inputs,
                                                            uint64_t epoch);

// Elements side by side: the columns of all. Ends with the shortest.
std::unique_ptr<Stage> MakeZipStage(std::vector<std::unique_ptr<Stage>> inputs,
                                    std::shared_ptr<const RowSpec> spec);

// What a mix does when one of its inputs ends.
enum class Exhausted {
  kStop,    // ends
  kDrop,    // goes on with the others
  kRepeat,  // begins the input's next epoch
};

// Each element from an input that is drawn by weight. The draw of element i depends on seed, epoch
// and i alone.
absl::StatusOr<std::unique_ptr<Stage>> MakeMixStage(std::vector<StageFactory> inputs,
                                                    std::vector<double> weights,
                                                    std::vector<Exhausted> exhausted,
                                                    std::shared_ptr<const RowSpec> spec,
                                                    uint64_t seed, uint64_t epoch);

// As tf.data's interleave: `cycle` inputs at a time, `block` elements from each in turn; where one
// ends, the next input takes its place.
absl::StatusOr<std::unique_ptr<Stage>> MakeInterleaveStage(std::vector<StageFactory> inputs,
                                                           uint64_t cycle, uint64_t block,
                                                           uint64_t epoch);

// The input's epochs, `epochs` of them (0: without end), one after another from `epoch` on.
absl::StatusOr<std::unique_ptr<Stage>> MakeRepeatStage(StageFactory input, uint64_t epochs,
                                                       uint64_t epoch);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_COMBINING_H_
