// The boxes and points of an image, which change with it, as columns of a step.

#ifndef SHARDFEED_PIPELINE_ROWS_BOXES_AND_POINTS_H_
#define SHARDFEED_PIPELINE_ROWS_BOXES_AND_POINTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "decode/features/columns.h"
#include "decode/images/pixels/projection.h"
#include "pipeline/rows/row_step.h"
#include "shardfeed/images.h"

namespace shardfeed {

// What happened to an image: where its points went, and its sizes before and after, in pixels.
struct ImageChange {
  Projection projection;
  double from_width = 0;
  double from_height = 0;
  double to_width = 0;
  double to_height = 0;
};

// Immutable; thread-safe.
class BoxesAndPoints {
 public:
  // For the step `step` on rows of `spec`: the boxes, box_columns and points that `columns` names.
  // InvalidArgument: a column does not exist or cannot be what it is named for, or an option is out
  // of its range; the message names the step and the column.
  static absl::StatusOr<BoxesAndPoints> Make(std::string_view step, const JointColumns& columns,
                                             const RowSpec& spec);

  // The columns that the step replaces or adds.
  const RowSpec& outputs() const { return outputs_; }

  // What a range of rows needs.
  struct Memory {
    std::vector<VariableColumn> columns;  // one for each output; those of fixed ones are not used
    std::vector<uint8_t> keep;            // whether each box of the row is kept
    std::vector<double> boxes;            // those that are kept
    struct {
      std::vector<double> x;
      std::vector<double> y;
      std::vector<uint8_t> inside;
    } points;
  };
  Memory MakeMemory() const;

  // A row of a range, and the slots of the columns: `visible` as in RowStep::Run, and the outputs
  // from `first_output` on.
  struct Row {
    const RowRange& range;
    size_t number;  // in the batch
    absl::Span<const int> visible;
    size_t first_output;
  };
  // Writes all outputs of a row whose image changed. InvalidArgument: the row's columns do not fit
  // each other, or a box is not finite; the message names the columns.
  absl::Status Run(const Row& row, const ImageChange& change, Memory* memory) const;
  // Sets the fixed outputs of a row to 0.
  void Clear(const Row& row) const;
  // Ends the row in all ragged outputs, where it is empty if Run was not called.
  void EndRow(Memory* memory) const;

 private:
  // A column of the input, by its number in the spec, and the output that replaces it.
  struct Replaced {
    size_t input;
    size_t output;
    // Number of elements if the input is fixed: what has an element for each box becomes ragged.
    size_t fixed_count = 1;
  };
  // Points, in one column or in two.
  struct Points {
    std::vector<Replaced> columns;
    size_t visible;  // the output POINTS/visible
    bool follows;    // loses the elements whose boxes are dropped
  };
  // The numbers of a box in the order of the options' format.
  using Box = std::array<double, 4>;

  absl::Status AddBoxes(const RowSpec& spec);
  absl::Status AddPoints(const RowSpec& spec);
  absl::Status AddBoxColumns(const RowSpec& spec);
  absl::StatusOr<Replaced> AddNumbers(std::string_view what, const std::string& name,
                                      const RowSpec& spec);
  bool Follows(const std::string& name) const;
  absl::Status Error(std::string_view what) const;

  absl::Status MoveBoxes(const Row& row, const ImageChange& change, Memory* memory) const;
  std::optional<Box> MoveBox(const Box& box, const ImageChange& change) const;
  absl::Status MovePoints(const Points& points, const Row& row, const ImageChange& change,
                          Memory* memory) const;
  absl::Status CopyKept(const Replaced& column, const Row& row, Memory* memory) const;
  absl::Status CheckCount(const ColumnSpec& column, size_t elements, const Memory& memory) const;
  char* OutputOf(size_t output, size_t elements, const Row& row, Memory* memory) const;

  std::string step_;
  JointColumns options_;
  RowSpec outputs_;
  std::vector<Replaced> boxes_;  // one or four
  // If boxes are fixed columns, what their shapes begin with: the number of boxes, or nothing.
  std::optional<std::vector<int64_t>> fixed_boxes_;
  std::vector<Points> points_;
  std::vector<Replaced> box_columns_;  // without those of points
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_BOXES_AND_POINTS_H_
