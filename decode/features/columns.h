// Where parsed rows go, and how the pieces that several workers parsed become one batch.
//
// The rows of a batch are divided among workers, each of which parses a range of them. Features of
// a fixed size are written straight to their row of the batch's memory, which the caller provides.
// The others are gathered by each worker in a VariableColumn; once all workers are done, Measure
// tells how much memory the batch needs for them, and the Fill functions write ragged, padded or
// sparse (COO) arrays from the columns, in the order of the rows.

#ifndef SHARDFEED_DECODE_FEATURES_COLUMNS_H_
#define SHARDFEED_DECODE_FEATURES_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace shardfeed {

// Rows of any length, appended one after another. Its memory grows and is kept. Not thread-safe.
//
// A row consists either of elements of `element_bytes` each, or of steps, which in turn consist of
// elements. Elements of bytes features are std::string_views (see ExampleParser for their
// lifetime).
class VariableColumn {
 public:
  VariableColumn(size_t element_bytes, bool has_steps)
      : element_bytes_(element_bytes), has_steps_(has_steps) {}

  // Adds room for `elements` to the last row and returns where to write them. The pointer is valid
  // until the next call.
  char* Extend(size_t elements) {
    const size_t size = num_elements_ + elements;
    if (size > capacity_) Grow(size);
    char* to = data_.get() + num_elements_ * element_bytes_;
    num_elements_ = static_cast<int64_t>(size);
    return to;
  }
  // End the last step and the last row.
  void EndStep() { step_ends_.push_back(num_elements_); }
  void EndRow() { row_ends_.push_back(has_steps_ ? num_steps() : num_elements_); }

  // Keeps the first `rows` rows and drops all others, even an unfinished one.
  void Truncate(size_t rows);
  void Clear() { Truncate(0); }

  size_t element_bytes() const { return element_bytes_; }
  bool has_steps() const { return has_steps_; }
  size_t num_rows() const { return row_ends_.size(); }
  int64_t num_steps() const { return static_cast<int64_t>(step_ends_.size()); }
  int64_t num_elements() const { return num_elements_; }
  // Aligned to 16 bytes.
  const char* elements() const { return data_.get(); }
  // Where each row ends, counted in elements, or in steps if it has them.
  absl::Span<const int64_t> row_ends() const { return row_ends_; }
  // Where each step ends, counted in elements.
  absl::Span<const int64_t> step_ends() const { return step_ends_; }

 private:
  void Grow(size_t elements);

  const size_t element_bytes_;
  const bool has_steps_;
  std::unique_ptr<char[]> data_;
  size_t capacity_ = 0;  // capacity in elements
  int64_t num_elements_ = 0;
  std::vector<int64_t> row_ends_;
  std::vector<int64_t> step_ends_;
};

// The columns of one feature that follow each other in a batch. All of one shape.
using Pieces = absl::Span<const VariableColumn* const>;

// Sums and maxima over all pieces.
struct VariableSize {
  int64_t rows = 0;
  int64_t steps = 0;  // 0 if the columns have none
  int64_t elements = 0;
  int64_t longest_row = 0;   // length of the longest row, in elements or steps
  int64_t longest_step = 0;  // in elements
};
VariableSize Measure(Pieces pieces);

// Each Fill function writes to memory that the caller provides, of the size stated at the function
// and aligned for its type. An element takes element_bytes().

// Ragged: size.elements elements.
void FillElements(Pieces pieces, char* elements);
// size.rows + 1 numbers: row r is [splits[r], splits[r + 1]), in elements or in steps.
void FillRowSplits(Pieces pieces, int64_t* splits);
// size.steps + 1 numbers: step s is the elements [splits[s], splits[s + 1]).
void FillStepSplits(Pieces pieces, int64_t* splits);

// Padded: [size.rows, row_length] elements, or [size.rows, row_length, step_length] for columns
// with steps. The lengths are at least the longest of `size`. `padding` is one element.
void FillPadded(Pieces pieces, int64_t row_length, int64_t step_length, std::string_view padding,
                char* elements);

// Sparse: for each element its row and its position in the row; with steps, its row, its step in
// the row, and its position in the step. size.elements times 2 (3) numbers, in order.
void FillIndices(Pieces pieces, int64_t* indices);

// Copies byte strings into one array. The caller provides TotalBytes(strings) bytes and
// strings.size() + 1 offsets; string i is [offsets[i], offsets[i + 1]).
size_t TotalBytes(absl::Span<const std::string_view> strings);
void CopyBytes(absl::Span<const std::string_view> strings, char* bytes, int64_t* offsets);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_COLUMNS_H_
