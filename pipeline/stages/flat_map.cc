#include "pipeline/stages/flat_map.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "fmt/format.h"
#include "io/buffer.h"
#include "pipeline/data/work_stop.h"

namespace shardfeed {

void RowEmitter::Begin() {
  EndRow();
  ++rows_;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if ((*spec_)[i].ragged) continue;
    fixed_[i] = columns_[i].Extend(1);
    std::memset(fixed_[i], 0, columns_[i].element_bytes());
  }
}

void RowEmitter::EndRow() {
  if (rows_ == 0) return;
  for (VariableColumn& column : columns_) column.EndRow();
}

void RowEmitter::Truncate(size_t rows) {
  EndRow();
  for (VariableColumn& column : columns_) column.Truncate(std::min(rows, column.num_rows()));
  rows_ = rows;
}

char* RowEmitter::Fixed(size_t output, DType asked) {
  const ColumnSpec& s = (*spec_)[output];
  if (s.dtype != asked || s.ragged || rows_ == 0) {
    throw std::invalid_argument(
        fmt::format("column '{}' {}", s.name,
                    rows_ == 0 ? "has no row: call Begin first" : "is of another type, or ragged"));
  }
  return fixed_[output];
}

char* RowEmitter::Ragged(size_t output, DType asked, size_t elements) {
  const ColumnSpec& s = (*spec_)[output];
  if (s.dtype != asked || !s.ragged || rows_ == 0) {
    throw std::invalid_argument(fmt::format(
        "column '{}' {}", s.name,
        rows_ == 0 ? "has no row: call Begin first" : "is of another type, or not ragged"));
  }
  return ExtendColumn(s, elements, &columns_[output]);
}

std::string_view RowEmitter::Keep(std::string bytes) {
  kept_->push_back(std::make_unique<std::string>(std::move(bytes)));
  return *kept_->back();
}

BatchFn MakeFlatMapFn(std::shared_ptr<const RowSpec> outputs, FlatMapFn fn) {
  return [outputs = std::move(outputs), fn = std::move(fn)](Batch& batch) -> absl::Status {
    RowEmitter emitter;
    emitter.spec_ = outputs;
    for (const ColumnSpec& s : *outputs) emitter.columns_.emplace_back(s.bytes(), false);
    emitter.fixed_.resize(outputs->size());
    emitter.kept_ = std::make_shared<std::vector<std::unique_ptr<std::string>>>();
    std::vector<RowOrigin> origins;
    std::vector<Reordered> reordered;
    absl::Status status;
    const std::stop_token& stop = WorkStop::Token();
    for (size_t row = 0; row < batch.rows; ++row) {
      if (stop.stop_requested()) return absl::CancelledError();
      const size_t first = emitter.rows_;
      if (std::binary_search(batch.damaged.begin(), batch.damaged.end(), row)) continue;
      try {
        status = fn(batch, row, emitter);
      } catch (const std::bad_alloc& error) {
        status = NoRoom("flat_map", error);
      } catch (const std::exception& error) {
        status = absl::InternalError(fmt::format("flat_map: {}", error.what()));
      }
      if (!status.ok()) {
        // The rows of those before it are delivered.
        emitter.Truncate(first);
        SetFailedRow(row, &status);
        break;
      }
      RowOrigin origin;
      if (emitter.rows_ > first && batch.OriginOf(row, &origin)) {
        origin.first = first;
        origin.stride = 0;  // all of them came from there
        origin.part = 0;
        origins.push_back(origin);
      }
      if (emitter.rows_ > first && !batch.reordered.empty()) {
        reordered.push_back(batch.ReorderedOf(row));
        reordered.back().first = first;
        reordered.back().stride = 0;
      }
    }
    if (status.ok()) emitter.EndRow();
    Batch out;
    out.rows = emitter.rows_;
    out.spec = outputs;
    out.origins = std::move(origins);
    out.reordered = std::move(reordered);
    if (out.rows == 0) {
      batch = std::move(out);
      return status;
    }
    AllocateFixedColumns(&out);
    for (size_t c = 0; c < outputs->size(); ++c) {
      const VariableColumn* pieces[] = {&emitter.columns_[c]};
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
    out.memory.push_back(std::move(emitter.kept_));
    // Views of bytes may point into what came in.
    out.memory.insert(out.memory.end(), batch.memory.begin(), batch.memory.end());
    batch = std::move(out);
    return status;
  };
}

}  // namespace shardfeed
