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
#include "pipeline/stages/number_columns.h"
#include "pipeline/stages/parallel_stage.h"
#include "pipeline/stages/run_context.h"
#include "pipeline/stages/stage.h"
#include "reader/shards/lazy_shard_table.h"
#include "shardfeed/batch.h"
#include "shardfeed/dataset.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// The length of the inputs in sequence, in any order.
Length SumOfLengths(const std::vector<Length>& inputs);

// The kinds of work that a step may do. plan/compile.h makes stages of them; consecutive steps with
// the same kind of work run as one stage.

// Reads the records of shards.
struct ShardsWork {
  std::shared_ptr<const LazyShardTable> table;
  ReaderOptions reader;
  NumberColumns numbers;
};
// Another source. `source` is its number in the chain, which the origins of its rows have.
struct SourceWork {
  std::function<std::unique_ptr<Stage>(uint64_t epoch, uint32_t source)> make;
  // Names the row at a position in errors. May be empty.
  std::function<std::string(uint64_t position)> describe;
};
// Works on each row separately.
struct RowWork {
  std::shared_ptr<const RowStep> step;
};
// Combines rows into batches of a fixed size.
struct BatchWork {
  uint64_t size = 0;
  bool drop_remainder = false;
};
// Works on each batch, or on each block of rows, separately.
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
// Anything else: a stage of its own, made for an epoch from the factories of its inputs' stages.
struct Step;
struct StageInputs {
  std::vector<StageFactory> factories;
  std::shared_ptr<RunContext> context;
  uint64_t epoch = 0;
  const Step* step = nullptr;  // the step whose stage is made
};
struct StageWork {
  std::function<absl::StatusOr<std::unique_ptr<Stage>>(const StageInputs&)> make;
};

// Whether a state of a chain is valid for ranks other than the one that saved it.
enum class Sharing {
  // As for its input: the step does not change the number of elements, or it counts them.
  kKeeps,
  // The step selects a rank's part of its input, which all ranks read.
  kTakesPart,
  // Ranks that have delivered the same number of elements may have read different numbers of
  // records, may hold some back, or count their own elements.
  kUneven,
};

struct Step {
  std::string name;  // "batch": used in statistics, errors and the identity
  std::string text;  // "batch(1024)": shown to people only
  // The values that determine what the step delivers, except those below.
  Identity identity{""};
  // Adds what takes time to find out, such as digests of data. May be empty.
  std::function<absl::Status(Identity*)> data_identity;
  // kTakesPart: the part.
  uint64_t rank = 0;
  uint64_t world = 1;

  std::vector<std::shared_ptr<const Step>> inputs;
  std::shared_ptr<const RowSpec> spec;
  bool batched = false;
  // Computes the length from the lengths of the inputs; if empty, it is that of the input. For
  // shards, see pipeline/plan/length.h.
  std::function<Length(const std::vector<Length>&)> length;
  // Whether it draws random numbers by an element's place in an epoch.
  bool random = false;
  // Whether its result for an element depends on the number of preceding elements.
  bool counts = false;
  Sharing sharing = Sharing::kKeeps;
  // Whether the next element may depend on what the consumer does with earlier ones.
  bool may_await = false;
  // For steps with a stage of their own: whether elements leave it in order, and are held back no
  // longer than for their own batch, so that the last one tells which have passed.
  bool in_order = false;
  // For the others: whether rows tell what the stage holds back (stages/reordered_rows.h).
  bool tells_held = false;
  // Whether it makes several rows of one, which their origins tell apart.
  bool makes_parts = false;

  std::variant<StageWork, ShardsWork, SourceWork, RowWork, BatchWork, BatchFnWork, PrefetchWork,
               RepeatWork>
      work;

  // The work if it is of this kind, otherwise null.
  template <typename Work>
  const Work* as() const {
    return std::get_if<Work>(&work);
  }
};

using StepPtr = std::shared_ptr<const Step>;

// The chain that ends with the step, as calls that could have made it.
std::string ChainText(const Step& step);

// The work of a step with one input, whose stage is made from the input's stage.
template <typename Make>
StageWork OnInput(Make make) {
  return {[make = std::move(make)](
              const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<Stage>> stage = inputs.factories[0](inputs.epoch);
    if (!stage.ok()) return stage;
    return make(*std::move(stage), inputs.epoch);
  }};
}

// Limits of a row's column and of a batch. Larger values are mistakes, and products of these with
// the size of an element do not overflow.
constexpr int64_t kMaxLength = INT32_MAX;
constexpr uint64_t kMaxRows = INT32_MAX;

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_PLAN_STEP_H_
