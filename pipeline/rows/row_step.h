// Steps that work on each row separately: parse, map, filter. They run over ranges of rows of one
// batch, on any thread, and write fixed columns directly into the batch.

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

// Rows [begin, end) of a batch while steps work on them.
struct RowRange {
  const Batch* input = nullptr;
  size_t begin = 0;
  size_t end = 0;
  std::vector<Slot> slots;
  // One entry per row of the range. kDropped: a filter has dropped it, or its record is damaged;
  // steps do nothing for such a row except ending it in their ragged outputs. kReplace: another row
  // of the batch that is kept takes its place.
  enum : uint8_t { kDropped = 0, kKept = 1, kReplace = 2, kCaught = 3 };
  std::vector<uint8_t> keep;
  // One entry per row of the range: whether a step could not decode it, so that it is replaced or
  // holds zeros. Later steps change nothing about it.
  std::vector<uint8_t> invalid;
  // Where a step begins: at `begin` or, again, at a row on which it failed and whose error was
  // caught. That row is kDropped for the following steps until the CatchStep makes it kCaught: it
  // is delivered unchanged, and replaces no other row.
  size_t from = 0;
  size_t failed_row = 0;  // row of the batch at which a step failed or threw
  // Rows whose errors were caught, in ascending order for each step, and what is kept of the
  // errors.
  std::vector<std::pair<size_t, std::string>> caught;
};

// A step needs memory that is not available. what() names the column and the bytes.
class NoRoomError : public std::bad_alloc {
 public:
  explicit NoRoomError(std::string what)
      : what_(std::make_shared<const std::string>(std::move(what))) {}
  const char* what() const noexcept override { return what_->c_str(); }

 private:
  std::shared_ptr<const std::string> what_;  // copying must not throw
};

std::string NoRoomText(const ColumnSpec& spec, size_t elements);
// Returns ResourceExhausted for the step `step`. `error` may be a NoRoomError.
absl::Status NoRoom(std::string_view step, const std::bad_alloc& error);

// Calls column.Extend for the column that `spec` describes. Throws NoRoomError.
inline char* ExtendColumn(const ColumnSpec& spec, size_t elements, VariableColumn* column) {
  constexpr size_t kMostElements = size_t{1}
                                   << 60;  // the sum with existing elements does not overflow
  try {
    if (elements > kMostElements) throw std::bad_alloc();
    return column->Extend(elements);
  } catch (const std::bad_alloc&) {
    throw NoRoomError(NoRoomText(spec, elements));
  }
}

// What a step needs for one range, until the batch is assembled.
class StepMemory {
 public:
  virtual ~StepMemory() = default;
  // The rows of the step's ragged output number `output`.
  virtual const VariableColumn* variable(size_t output) const = 0;
  // Memory that bytes outputs point to, which is kept with the batch; may be null.
  virtual std::shared_ptr<const void> kept() const { return nullptr; }
  // Size of kept().
  virtual uint64_t kept_bytes() const { return 0; }
  // Drops what belongs to the rows of the range from number `rows` on, including an unfinished row.
  virtual void Truncate(size_t rows) = 0;
  // Drops everything, to be used for another range.
  virtual void Clear() { Truncate(0); }
};

class RowStep {
 public:
  virtual ~RowStep() = default;
  // The columns that the step adds. A column with the name of an existing one replaces it.
  const RowSpec& outputs() const { return outputs_; }
  // Names of columns that the step removes.
  const std::vector<std::string>& drops() const { return drops_; }

  virtual std::string name() const = 0;
  virtual bool filters() const { return false; }
  // Whether it may mark rows as RowRange::kReplace. Such a row is replaced when all rows of its
  // batch are done, and no function may see it before, so only a CatchStep may follow in its
  // program.
  virtual bool replaces() const { return false; }
  // Whether errors of preceding steps do not end the run: see MakeCatchStep.
  virtual bool catches() const { return false; }
  // What is kept of such an error; nullopt if it is not caught.
  virtual std::optional<std::string> Catch(const absl::Status& /*error*/) const {
    return std::nullopt;
  }
  // The same for a program of steps that ends earlier, with the columns `spec`, and whose caught
  // errors the next program carries on. Requires catches().
  virtual std::shared_ptr<const RowStep> CatchBefore(const RowSpec& /*spec*/) const {
    return nullptr;
  }
  // Whether its outputs may use the memory of the columns that they replace, if an earlier step
  // wrote those.
  virtual bool in_place() const { return false; }
  // The uint8 output that tells valid rows (1) from invalid ones (0); -1: there is none.
  virtual int valid_output() const { return -1; }
  // What its bytes outputs may point to, besides the input batch.
  virtual std::shared_ptr<const void> lends() const { return nullptr; }
  virtual std::unique_ptr<StepMemory> MakeMemory() const = 0;
  // Runs over rows [from, end). `visible`: the slots of the columns before the step; its outputs
  // are the slots from `first_output` on. May throw. Between rows, it returns Cancelled if
  // WorkStop::Token demands it. An error belongs to row `range->failed_row`; all outputs of the
  // preceding rows are complete.
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

// Adds a bytes column `column` with the error of a row on which an earlier step failed, rendered by
// `text` (empty: its message), or nothing. Other results of the steps for such a row must not be
// used. Cancelled is never caught.
std::shared_ptr<const RowStep> MakeCatchStep(std::string column, ErrorText text);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_ROW_STEP_H_
