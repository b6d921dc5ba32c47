// Any number of rows for each row.

#ifndef SHARDFEED_PIPELINE_STAGES_FLAT_MAP_H_
#define SHARDFEED_PIPELINE_STAGES_FLAT_MAP_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "decode/features/columns.h"
#include "pipeline/rows/row_step.h"
#include "pipeline/stages/parallel_stage.h"

namespace shardfeed {

// Takes the rows that a FlatMapFn makes.
class RowEmitter {
 public:
  // Begins a row.
  void Begin();
  // Of the row that was begun: as RowContext::Out and Extend. An Out that is not called leaves
  // zeros.
  template <typename T>
  absl::Span<T> Out(size_t output) {
    return {reinterpret_cast<T*>(Fixed(output, Batch::DTypeOf<T>())),
            (*spec_)[output].num_values()};
  }
  template <typename T>
  absl::Span<T> Extend(size_t output, size_t elements) {
    return {reinterpret_cast<T*>(Ragged(output, Batch::DTypeOf<T>(), elements)),
            elements * (*spec_)[output].num_values()};
  }
  // A string of bytes that lives as long as the batch. For those that are not in the row that came
  // in.
  std::string_view Keep(std::string bytes);

 private:
  friend BatchFn MakeFlatMapFn(std::shared_ptr<const RowSpec>,
                               std::function<absl::Status(const Batch&, size_t, RowEmitter&)>);
  char* Fixed(size_t output, DType asked);
  char* Ragged(size_t output, DType asked, size_t elements);
  void EndRow();
  void Truncate(size_t rows);

  std::shared_ptr<const RowSpec> spec_;
  std::vector<VariableColumn> columns_;
  std::vector<char*> fixed_;  // of the row that was begun
  std::shared_ptr<std::vector<std::unique_ptr<std::string>>> kept_;
  size_t rows_ = 0;
};

// Called for row `row` of `in`, with Batch::Row to read its values.
using FlatMapFn = std::function<absl::Status(const Batch& in, size_t row, RowEmitter& out)>;

// Applies `fn` to all rows of a batch, which becomes one of the rows that were emitted. Where `fn`
// fails, of those that were emitted for the rows before; see SetFailedRow.
BatchFn MakeFlatMapFn(std::shared_ptr<const RowSpec> outputs, FlatMapFn fn);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_FLAT_MAP_H_
