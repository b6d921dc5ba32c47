#include "pipeline/stages/flat_map.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/work_stop.h"
#include "decode/features/columns.h"
#include "fmt/format.h"
#include "io/buffer.h"
#include "pipeline/rows/row_step.h"
#include "pipeline/stages/parallel_steps.h"

namespace shardfeed {

struct RowEmitter::Rows {
  explicit Rows(std::shared_ptr<const RowSpec> outputs)
      : spec(std::move(outputs)), fixed(spec->size()) {
    for (const ColumnSpec& s : *spec) columns.emplace_back(s.bytes(), false);
  }

  void EndRow() {
    if (count == 0) return;
    for (VariableColumn& column : columns) column.EndRow();
  }
  void Truncate(size_t rows) {
    EndRow();
    for (VariableColumn& column : columns) column.Truncate(std::min(rows, column.num_rows()));
    count = rows;
  }

  const std::shared_ptr<const RowSpec> spec;
  std::vector<VariableColumn> columns;
  std::vector<char*> fixed;  // fixed columns of the current row
  std::shared_ptr<std::vector<std::unique_ptr<std::string>>> kept =
      std::make_shared<std::vector<std::unique_ptr<std::string>>>();
  size_t count = 0;
};

void RowEmitter::Begin() {
  rows_->EndRow();
  ++rows_->count;
  for (size_t i = 0; i < rows_->columns.size(); ++i) {
    if (spec_[i].ragged) continue;
    VariableColumn& column = rows_->columns[i];
    rows_->fixed[i] = column.Extend(1);
    std::memset(rows_->fixed[i], 0, column.element_bytes());
  }
}

namespace {

// float16 and bfloat16 are written as their bits.
bool Holds(const ColumnSpec& spec, DType asked) {
  return spec.dtype == asked || (asked == DType::kUInt16 &&
                                 (spec.dtype == DType::kFloat16 || spec.dtype == DType::kBFloat16));
}

}  // namespace

char* RowEmitter::Fixed(size_t output, DType asked) {
  const ColumnSpec& s = spec_[output];
  if (!Holds(s, asked) || s.ragged || rows_->count == 0) {
    throw std::invalid_argument(fmt::format(
        "column '{}' {}", s.name,
        rows_->count == 0 ? "has no row: call Begin first" : "is of another type, or ragged"));
  }
  return rows_->fixed[output];
}

char* RowEmitter::Ragged(size_t output, DType asked, size_t elements) {
  const ColumnSpec& s = spec_[output];
  if (!Holds(s, asked) || !s.ragged || rows_->count == 0) {
    throw std::invalid_argument(fmt::format(
        "column '{}' {}", s.name,
        rows_->count == 0 ? "has no row: call Begin first" : "is of another type, or not ragged"));
  }
  return ExtendColumn(s, elements, &rows_->columns[output]);
}

std::string_view RowEmitter::Keep(std::string bytes) {
  rows_->kept->push_back(std::make_unique<std::string>(std::move(bytes)));
  return *rows_->kept->back();
}

BatchFn MakeFlatMapFn(std::shared_ptr<const RowSpec> outputs, FlatMapFn fn) {
  return [outputs = std::move(outputs), fn = std::move(fn)](Batch& batch) -> absl::Status {
    RowEmitter::Rows rows(outputs);
    RowEmitter emitter(*outputs, &rows);
    std::vector<RowOrigin> origins;
    std::vector<Reordered> reordered;
    absl::Status status;
    const std::stop_token& stop = WorkStop::Token();
    for (size_t row = 0; row < batch.rows; ++row) {
      if (stop.stop_requested()) return absl::CancelledError();
      const size_t first = rows.count;
      if (std::binary_search(batch.damaged.begin(), batch.damaged.end(), row)) continue;
      try {
        status = fn(batch, row, emitter);
      } catch (const std::bad_alloc& error) {
        status = NoRoom("flat_map", error);
      } catch (const std::exception& error) {
        status = absl::InternalError(fmt::format("flat_map: {}", error.what()));
      }
      if (!status.ok()) {
        // The rows made of the preceding rows are delivered.
        rows.Truncate(first);
        SetFailedRow(row, &status);
        break;
      }
      RowOrigin origin;
      if (rows.count > first && batch.OriginOf(row, &origin)) {
        origin.first = first;
        origin.stride = 0;  // all of them came from one row
        origin.part = 0;
        origins.push_back(origin);
      }
      if (rows.count > first && !batch.reordered.empty()) {
        reordered.push_back(batch.ReorderedOf(row));
        reordered.back().first = first;
        reordered.back().stride = 0;
      }
    }
    if (status.ok()) rows.EndRow();
    Batch out;
    out.rows = rows.count;
    out.spec = outputs;
    out.origins = std::move(origins);
    out.reordered = std::move(reordered);
    if (out.rows == 0) {
      batch = std::move(out);
      return status;
    }
    AllocateFixedColumns(&out);
    for (size_t c = 0; c < outputs->size(); ++c) {
      const VariableColumn* pieces[] = {&rows.columns[c]};
      if (!(*outputs)[c].ragged) {
        FillElements(pieces, out.columns[c].data);
        continue;
      }
      const size_t splits_bytes = ((out.rows + 1) * sizeof(int64_t) + 63) / 64 * 64;
      std::shared_ptr<Buffer> buffer =
          Buffer::Allocate(splits_bytes + Measure(pieces).elements * (*outputs)[c].bytes() + 1);
      auto* splits = reinterpret_cast<int64_t*>(buffer->data());
      FillRowSplits(pieces, splits);
      out.columns[c].splits = splits;
      out.columns[c].data = buffer->data() + splits_bytes;
      FillElements(pieces, out.columns[c].data);
      out.memory.push_back(std::move(buffer));
    }
    out.memory.push_back(std::move(rows.kept));
    // Views of bytes may point into the input.
    out.memory.insert(out.memory.end(), batch.memory.begin(), batch.memory.end());
    batch = std::move(out);
    return status;
  };
}

}  // namespace shardfeed
