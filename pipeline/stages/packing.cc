#include "pipeline/stages/packing.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "pipeline/stages/pending_rows.h"

namespace shardfeed {
namespace {

class PackStage : public Stage {
 public:
  PackStage(std::unique_ptr<Stage> input, size_t column, std::shared_ptr<const RowSpec> spec,
            const PackOptions& options, std::shared_ptr<const RunContext> context)
      : rows_(std::move(input)),
        column_(column),
        spec_(std::move(spec)),
        options_(options),
        context_(std::move(context)) {}

  absl::Status Next(Batch* out) override {
    *out = Batch();
    while (!ended_) {
      PendingRow row;
      absl::Status status = rows_.Next(&row);
      if (!status.ok()) return status;
      if (row.batch.empty()) {
        ended_ = true;
        break;
      }
      const int64_t* splits = row.batch.columns[column_].splits;
      int64_t length = splits[1] - splits[0];
      if (length > options_.length) {
        if (!options_.truncate) {
          return absl::InvalidArgumentError(fmt::format(
              "{}pack: column '{}': a sequence of {} elements does not fit into a row of {}; "
              "raise the length or set truncate",
              context_->Prefix(row.batch, 0), (*spec_)[0].name, length, options_.length));
        }
        length = options_.length;
      }
      if (length == 0) {
        rows_.Done(row.number);
        continue;
      }
      auto bin = std::find_if(bins_.begin(), bins_.end(),
                              [&](const Bin& b) { return b.used + length <= options_.length; });
      if (bin == bins_.end()) {
        bins_.emplace_back();
        bin = bins_.end() - 1;
      }
      bin->used += length;
      bin->rows.push_back(std::move(row));
      // The oldest bin is emitted to make room; a full one is emitted at once.
      if (bin->used == options_.length) {
        Emit(bin, out);
        return absl::OkStatus();
      }
      if (bins_.size() > options_.open) {
        Emit(bins_.begin(), out);
        return absl::OkStatus();
      }
    }
    if (!bins_.empty()) Emit(bins_.begin(), out);
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override { rows_.Save(words); }
  absl::Status Load(StateReader* words) override {
    bins_.clear();
    ended_ = false;
    return rows_.Load(words);
  }

 private:
  struct Bin {
    int64_t used = 0;
    std::vector<PendingRow> rows;
  };

  void Emit(std::deque<Bin>::iterator bin, Batch* out) {
    out->rows = 1;
    out->spec = spec_;
    AllocateFixedColumns(out);
    const size_t width = DTypeSize((*spec_)[0].dtype);
    char* tokens = out->columns[0].data;
    auto* segments = reinterpret_cast<int32_t*>(out->columns[1].data);
    auto* positions = reinterpret_cast<int32_t*>(out->columns[2].data);
    int64_t at = 0;
    for (size_t i = 0; i < bin->rows.size(); ++i) {
      const Column& column = bin->rows[i].batch.columns[column_];
      const int64_t n = std::min(column.splits[1] - column.splits[0], options_.length);
      std::memcpy(tokens + at * width, column.data + column.splits[0] * width, n * width);
      for (int64_t j = 0; j < n; ++j) {
        segments[at + j] = static_cast<int32_t>(i + 1);
        positions[at + j] = static_cast<int32_t>(j);
      }
      at += n;
      rows_.Done(bin->rows[i].number);
    }
    out->origins = bin->rows[0].batch.origins;
    rows_.TellHeld({bin->rows.data(), 1}, out);
    for (; at < options_.length; ++at) {
      if (width == 8) {
        reinterpret_cast<int64_t*>(tokens)[at] = options_.pad;
      } else {
        reinterpret_cast<int32_t*>(tokens)[at] = static_cast<int32_t>(options_.pad);
      }
      segments[at] = positions[at] = 0;
    }
    bins_.erase(bin);
  }

  PendingRows rows_;
  const size_t column_;
  const std::shared_ptr<const RowSpec> spec_;
  const PackOptions options_;
  const std::shared_ptr<const RunContext> context_;
  std::deque<Bin> bins_;
  bool ended_ = false;
};

}  // namespace

std::shared_ptr<const RowSpec> PackedSpec(const ColumnSpec& column, int64_t length) {
  return std::make_shared<const RowSpec>(
      RowSpec{{column.name, column.dtype, {length}, false},
              {column.name + "_segment_ids", DType::kInt32, {length}, false},
              {column.name + "_positions", DType::kInt32, {length}, false}});
}

std::unique_ptr<Stage> MakePackStage(std::unique_ptr<Stage> input, size_t column,
                                     std::shared_ptr<const RowSpec> spec,
                                     const PackOptions& options,
                                     std::shared_ptr<const RunContext> context) {
  return std::make_unique<PackStage>(std::move(input), column, std::move(spec), options,
                                     std::move(context));
}

}  // namespace shardfeed
