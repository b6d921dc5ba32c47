// What a chain consists of: one immutable description for each step. Each file of steps/ makes one
// kind of step; plan/ makes a run of them.

#ifndef SHARDFEED_PIPELINE_PLAN_STEP_H_
#define SHARDFEED_PIPELINE_PLAN_STEP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/data/identity.h"
#include "pipeline/rows/row_step.h"
#include "pipeline/stages/parallel_stage.h"
#include "pipeline/stages/run_context.h"
#include "pipeline/stages/stage.h"
#include "reader/lazy_shard_table.h"
#include "shardfeed/batch.h"
#include "shardfeed/dataset.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// Of inputs one after another, whatever the order.
Length SumOfLengths(const std::vector<Length>& inputs);

// What a step does, from which plan/compile.h makes stages. Steps of the same work that follow one
// another run as one stage.

// The records of shards.
struct ShardsWork {
  std::shared_ptr<const LazyShardTable> table;
  ReaderOptions reader;
};
// Another source. `source` is its number in the chain, for the origins of its rows.
struct SourceWork {
  std::function<std::unique_ptr<Stage>(uint64_t epoch, uint32_t source)> make;
  // What its rows are called in errors, by their position. May be empty.
  std::function<std::string(uint64_t position)> describe;
};
// Each row by itself.
struct RowWork {
  std::shared_ptr<const RowStep> step;
};
// Rows into batches of a fixed size.
struct BatchWork {
  uint64_t size = 0;
  bool drop_remainder = false;
};
// Each batch, or each block of rows, by itself.
struct BatchFnWork {
  BatchFn fn;
  bool changes_count = false;  // whether the number of elements changes
};
struct PrefetchWork {
  size_t count = 0;
};
struct RepeatWork {
  uint64_t epochs = 0;  // 0: without end
};
// Anything else: a stage of its own, from what makes the stages of the step's inputs, for an epoch.
struct StageInputs {
  std::vector<StageFactory> factories;
  std::shared_ptr<RunContext> context;
  uint64_t epoch = 0;
};
struct StageWork {
  std::function<absl::StatusOr<std::unique_ptr<Stage>>(const StageInputs&)> make;
};

// How far a state of a chain holds for other ranks than the one that saved it.
enum class Sharing {
  // As its input has it: as many elements are behind the step as before it, or they are counted.
  kKeeps,
  // It takes a rank's part of its input, which all ranks pass through.
  kTakesPart,
  // Ranks that have taken as many elements may have read other numbers of records, hold some back,
  // or count their own.
  kUneven,
};

struct Step {
  std::string name;  // "batch": as in statistics, errors and the identity
  std::string text;  // "batch(1024)": for people alone
  // The values that decide what the step delivers, but for those below.
  Identity identity{""};
  // What else decides that, and takes time to find out: digests of data. May be empty.
  std::function<absl::Status(Identity*)> data_identity;
  // kTakesPart: which.
  uint64_t rank = 0;
  uint64_t world = 1;

  std::vector<std::shared_ptr<const Step>> inputs;
  std::shared_ptr<const RowSpec> spec;
  bool batched = false;
  // By the lengths of the inputs; empty: as many elements as the input has. Of shards, see
  // plan/length.h.
  std::function<Length(const std::vector<Length>&)> length;
  // Draws numbers by an element's place in an epoch.
  bool random = false;
  // What it does with an element depends on how many were before it.
  bool counts = false;
  Sharing sharing = Sharing::kKeeps;
  // What comes next may depend on what the consumer does with what it has.
  bool may_await = false;
  // Of steps with a stage of their own: elements leave it as they came, and none is held back for
  // longer than its own batch takes, so that the last one tells what has passed.
  bool in_order = false;
  // Of others: each row that leaves it tells what is held back (stages/reordered_rows.h).
  bool tells_held = false;
  // It makes several rows of one, whose origins tell which is which.
  bool makes_parts = false;

  std::variant<StageWork, ShardsWork, SourceWork, RowWork, BatchWork, BatchFnWork, PrefetchWork,
               RepeatWork>
      work;

  // The work, if it is of this kind; else null.
  template <typename Work>
  const Work* as() const {
    return std::get_if<Work>(&work);
  }
};

using StepPtr = std::shared_ptr<const Step>;

// A step of one input, whose stage is made from the input's.
template <typename Make>
StageWork OnInput(Make make) {
  return {[make = std::move(make)](
              const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<Stage>> stage = inputs.factories[0](inputs.epoch);
    if (!stage.ok()) return stage;
    return make(*std::move(stage), inputs.epoch);
  }};
}

// Limits of a row's column, and of a batch: what is larger is a mistake, and products of these and
// the size of an element do not overflow.
constexpr int64_t kMaxLength = INT32_MAX;
constexpr uint64_t kMaxRows = INT32_MAX;

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_PLAN_STEP_H_
