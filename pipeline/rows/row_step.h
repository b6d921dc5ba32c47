// Steps that work on each row by itself: parse, map, filter. They run over ranges of rows of one
// batch, on any thread, and write fixed columns straight into the batch.

#ifndef SHARDFEED_PIPELINE_ROWS_ROW_STEP_H_
#define SHARDFEED_PIPELINE_ROWS_ROW_STEP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "decode/features/columns.h"
#include "decode/features/example_parser.h"
#include "shardfeed/batch.h"
#include "shardfeed/functions.h"

namespace shardfeed {

// Rows [begin, end) of a batch, on their way through the steps.
struct RowRange {
  const Batch* input = nullptr;
  size_t begin = 0;
  size_t end = 0;
  std::vector<Slot> slots;
  // One for each row of the range. kDropped: a filter has dropped it, or its record is damaged;
  // steps leave such a row alone, but for ending it in their ragged outputs. kReplace: a row that
  // is kept of the same batch is to stand in its place.
  enum : uint8_t { kDropped = 0, kKept = 1, kReplace = 2, kCaught = 3 };
  std::vector<uint8_t> keep;
  // Where a step begins: at `begin` or, once more, at a row that it has failed on and that was
  // caught. That one is kDropped then, for the steps behind too, until the CatchStep makes it
  // kCaught: it is delivered as it is, and stands in for none.
  size_t from = 0;
  size_t failed_row = 0;  // row of the batch at which a step failed or threw
  // Rows that were caught, rising for each step, and what is kept of their errors.
  std::vector<std::pair<size_t, std::string>> caught;
};

// Memory that a step asks for and cannot have. what() names the column and the bytes.
class NoRoomError : public std::bad_alloc {
 public:
  explicit NoRoomError(std::string what)
      : what_(std::make_shared<const std::string>(std::move(what))) {}
  const char* what() const noexcept override { return what_->c_str(); }

 private:
  std::shared_ptr<const std::string> what_;  // copying must not throw
};

std::string NoRoomText(const ColumnSpec& spec, size_t elements);
// ResourceExhausted, told as the step `step`'s. `error` may be a NoRoomError.
absl::Status NoRoom(std::string_view step, const std::bad_alloc& error);

// As column.Extend, of the column that `spec` describes. Throws NoRoomError.
inline char* ExtendColumn(const ColumnSpec& spec, size_t elements, VariableColumn* column) {
  constexpr size_t kMostElements = size_t{1} << 60;  // the sum with those that are there fits
  try {
    if (elements > kMostElements) throw std::bad_alloc();
    return column->Extend(elements);
  } catch (const std::bad_alloc&) {
    throw NoRoomError(NoRoomText(spec, elements));
  }
}

// What a step needs for one range; it stays until the batch is put together.
class StepMemory {
 public:
  virtual ~StepMemory() = default;
  // The rows of the step's ragged output number `output`.
  virtual const VariableColumn* variable(size_t output) const = 0;
  // What bytes of its outputs point to, to be kept with the batch; may be null.
  virtual std::shared_ptr<const void> kept() const { return nullptr; }
  // What kept() takes.
  virtual uint64_t kept_bytes() const { return 0; }
  // Drops what belongs to rows from number `rows` of the range on; of a row that was begun too.
  virtual void Truncate(size_t rows) = 0;
  // Drops all, for another range.
  virtual void Clear() { Truncate(0); }
};

class RowStep {
 public:
  virtual ~RowStep() = default;
  // The columns that the step adds. One that is named as a column before takes its place.
  const RowSpec& outputs() const { return outputs_; }
  // Names of columns that are not handed on.
  const std::vector<std::string>& drops() const { return drops_; }

  virtual std::string name() const = 0;
  virtual bool filters() const { return false; }
  // It may mark rows as RowRange::kReplace.
  virtual bool replaces() const { return false; }
  // Errors of rows of the steps before it end nothing: see MakeCatchStep.
  virtual bool catches() const { return false; }
  // What is kept of such an error; nothing where it is not to be caught.
  virtual std::optional<std::string> Catch(const absl::Status& /*error*/) const {
    return std::nullopt;
  }
  // Its outputs may be in the memory of the columns that they replace, where those were written by
  // a step before it.
  virtual bool in_place() const { return false; }
  // Which of its outputs, a uint8, tells the rows that are as they should be (1) from those that
  // are not (0); -1: all are.
  virtual int valid_output() const { return -1; }
  // What its outputs of bytes may point to, besides the batch that came in.
  virtual std::shared_ptr<const void> lends() const { return nullptr; }
  virtual std::unique_ptr<StepMemory> MakeMemory() const = 0;
  // Over rows [from, end). `visible`: the slots of the columns before the step. Its outputs are the
  // slots from `first_output` on. May throw. Between rows, it ends with Cancelled where
  // WorkStop::Token asks. An error is that of row `range->failed_row`; all outputs of the rows
  // before it are there.
  virtual absl::Status Run(absl::Span<const int> visible, size_t first_output, RowRange* range,
                           StepMemory* memory) const = 0;

 protected:
  RowSpec outputs_;
  std::vector<std::string> drops_;
};

std::shared_ptr<const RowStep> MakeParseStep(std::shared_ptr<const ExampleParser> parser);
std::shared_ptr<const RowStep> MakeMapStep(RowSpec outputs, std::vector<std::string> drops,
                                           MapFn fn, uint64_t seed, std::string name = "map");
std::shared_ptr<const RowStep> MakeFilterStep(FilterFn fn, uint64_t seed);

// Adds a column of bytes `column`: of a row on which a step before this one failed, the error by
// `text` (empty: its message), else nothing. What else the steps have made of such a row is not to
// be looked at. Cancelled is never caught.
std::shared_ptr<const RowStep> MakeCatchStep(std::string column, ErrorText text);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_ROW_STEP_H_
