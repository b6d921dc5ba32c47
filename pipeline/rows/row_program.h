// A sequence of row steps, and where each finds its columns.

#ifndef SHARDFEED_PIPELINE_ROWS_ROW_PROGRAM_H_
#define SHARDFEED_PIPELINE_ROWS_ROW_PROGRAM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/rows/row_step.h"

namespace shardfeed {

// What one range of rows needs until its batch is assembled.
struct RangeMemory {
  RowRange range;
  std::vector<std::unique_ptr<StepMemory>> steps;
};

// Immutable and thread-safe.
class RowProgram {
 public:
  // `carries_errors`: the last column of the input is that of a CatchStep, at which an earlier
  // program ended. The steps do not see it, nor the rows with errors, which are passed on to a
  // CatchStep of this program.
  //
  // InvalidArgument: a step needs a column that does not exist, or sees rows that are still to be
  // replaced (see RowStep::replaces).
  static absl::StatusOr<std::shared_ptr<const RowProgram>> Make(
      std::shared_ptr<const RowSpec> input, std::vector<std::shared_ptr<const RowStep>> steps,
      bool carries_errors = false);

  const std::shared_ptr<const RowSpec>& output() const { return output_; }
  const std::vector<std::shared_ptr<const RowStep>>& steps() const { return steps_; }
  bool filters() const { return filters_; }
  // See RowStep::replaces.
  bool replaces() const { return replaces_; }
  // Size of a row in the fixed columns that the steps write.
  size_t fixed_row_bytes() const { return fixed_row_bytes_; }

  // Allocates memory for the fixed columns that the steps will write for the rows of `input`. Its
  // spec is one of the program's own. Throws NoRoomError.
  Batch AllocateFixed(const Batch& input, const HostAllocator& allocator) const;
  std::unique_ptr<RangeMemory> MakeMemory() const;
  // Runs all steps over rows [begin, end). Different ranges may run concurrently. If row
  // memory->range.failed_row fails, returns its error, and the range ends before it. Rows that fail
  // before a catching step do not end it: see RowStep::Catch.
  absl::Status Run(const Batch& input, const Batch& fixed, size_t begin, size_t end,
                   RangeMemory* memory) const;
  // Size of what the steps have made outside the fixed columns.
  uint64_t VariableBytes(const RangeMemory& memory) const;
  // Assembles the batch from all ranges, in order, without the rows that filters dropped.
  // `num_invalid`: see RowRange::invalid. Throws NoRoomError.
  Batch Finish(Batch input, Batch fixed, absl::Span<const std::unique_ptr<RangeMemory>> ranges,
               const HostAllocator& allocator, uint64_t* num_invalid) const;

 private:
  RowProgram() = default;
  absl::Status RunStep(size_t step, RangeMemory* memory) const;
  void ClearFixed(size_t row, RowRange* range) const;
  Batch Gather(const Batch& rows, const std::vector<uint8_t>& keep,
               const HostAllocator& allocator) const;

  struct Step {
    std::vector<int> visible;
    size_t first_output;
  };
  // Where the rows of a slot are.
  struct Place {
    enum { kInput, kFixed, kRagged } kind;
    size_t number;  // number of the column in the input or in fixed_, or of the step
    size_t output;  // kRagged: of the step
  };

  std::shared_ptr<const RowSpec> input_;
  std::vector<std::shared_ptr<const RowStep>> steps_;
  std::vector<Step> plans_;
  RowSpec slots_;
  std::vector<Place> places_;
  std::shared_ptr<const RowSpec> fixed_;
  std::vector<size_t> fixed_steps_;  // steps that write fixed columns
  size_t fixed_row_bytes_ = 0;
  std::vector<int> result_;  // slots of the output's columns
  int valid_ = -1;           // valid_output() of the step that replaces rows: column of the output
  std::shared_ptr<const RowSpec> output_;
  size_t catching_ = 0;  // errors of the steps before this one are caught
  bool filters_ = false;
  bool replaces_ = false;
  bool carries_errors_ = false;
  bool keeps_input_ = false;  // the output has views into the input's memory
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_ROW_PROGRAM_H_
