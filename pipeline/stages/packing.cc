#include "pipeline/stages/packing.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "absl/types/span.h"
#include "base/count_text.h"
#include "fmt/format.h"
#include "pipeline/data/batch_builder.h"
#include "pipeline/stages/batching.h"
#include "pipeline/stages/pending_rows.h"

namespace shardfeed {
namespace {

// Elements [begin, begin + count) of the sequences of a row, of which a separator is the last.
struct Segment {
  const Batch* batch = nullptr;
  size_t row = 0;
  int64_t begin = 0;
  int64_t count = 0;
};

// Allocates a ragged column of one row with `count` elements.
void AllocateRagged(const ColumnSpec& column, int64_t count, Column* to, Batch* out) {
  const size_t bytes = AlignedColumnBytes(2 * sizeof(int64_t)) + count * column.bytes();
  std::shared_ptr<char> memory = AllocateValues(bytes, {});
  auto* const splits = reinterpret_cast<int64_t*>(memory.get());
  splits[0] = 0;
  splits[1] = count;
  to->splits = splits;
  to->data = memory.get() + AlignedColumnBytes(2 * sizeof(int64_t));
  out->memory.push_back(std::move(memory));
}

// Makes `*out` the packed row of these segments, which fit it.
void MakeRow(absl::Span<const Segment> segments, const PackLayout& layout, Batch* out) {
  out->rows = 1;
  out->spec = layout.spec;
  AllocateFixedColumns(out);
  const size_t packed = layout.columns.size();
  auto* const ids = reinterpret_cast<int32_t*>(out->columns[packed].data);
  auto* const positions = reinterpret_cast<int32_t*>(out->columns[packed + 1].data);
  int64_t at = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    for (size_t c = 0; c < packed; ++c) {
      const Column& from = segment.batch->columns[layout.columns[c]];
      const DType dtype = (*layout.spec)[c].dtype;
      const size_t width = DTypeSize(dtype);
      const int64_t first = from.splits[segment.row] + segment.begin;
      const int64_t copied = std::min(segment.count, from.splits[segment.row + 1] - first);
      char* const to = out->columns[c].data + at * width;
      std::memcpy(to, from.data + first * width, copied * width);
      if (copied < segment.count) FillWith(layout.separator[c], dtype, 1, to + copied * width);
    }
    for (int64_t j = 0; j < segment.count; ++j) {
      ids[at + j] = static_cast<int32_t>(i + 1);
      positions[at + j] = static_cast<int32_t>(j);
    }
    at += segment.count;
  }
  const int64_t left = layout.length - at;
  for (size_t c = 0; c < packed; ++c) {
    const ColumnSpec& column = (*layout.spec)[c];
    FillWith(layout.pad[c], column.dtype, left,
             out->columns[c].data + at * DTypeSize(column.dtype));
  }
  std::fill_n(ids + at, left, 0);
  std::fill_n(positions + at, left, 0);
  const auto count = static_cast<int64_t>(segments.size());
  for (size_t k = 0; k < layout.kept.size(); ++k) {
    const ColumnSpec& column = (*layout.spec)[packed + 2 + k];
    Column& to = out->columns[packed + 2 + k];
    AllocateRagged(column, count, &to, out);
    const size_t bytes = column.bytes();
    for (int64_t i = 0; i < count; ++i) {
      const Segment& segment = segments[i];
      std::memcpy(to.data + i * bytes,
                  segment.batch->columns[layout.kept[k]].data + segment.row * bytes, bytes);
      if (column.dtype == DType::kBytes) {
        out->memory.insert(out->memory.end(), segment.batch->memory.begin(),
                           segment.batch->memory.end());
      }
    }
  }
  if (!layout.cu_seqlens) return;
  Column& ends = out->columns.back();
  AllocateRagged(layout.spec->back(), count + 1 + (left > 0), &ends, out);
  auto* end = reinterpret_cast<int32_t*>(ends.data);
  *end = 0;
  for (const Segment& segment : segments) {
    const int32_t begin = *end++;
    *end = begin + static_cast<int32_t>(segment.count);
  }
  if (left > 0) *++end = static_cast<int32_t>(layout.length);
}

// The length of the sequences of a row. InvalidArgument: they differ.
absl::StatusOr<int64_t> LengthOf(const Batch& batch, size_t row, const PackLayout& layout,
                                 const RunContext& context) {
  const auto length_of = [&](size_t column) {
    const int64_t* const splits = batch.columns[column].splits;
    return splits[row + 1] - splits[row];
  };
  const int64_t length = length_of(layout.columns[0]);
  for (size_t c = 1; c < layout.columns.size(); ++c) {
    const int64_t other = length_of(layout.columns[c]);
    if (other == length) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}pack: '{}' has {}, but '{}' has {}", context.Prefix(batch, row), (*layout.spec)[0].name,
        CountText(length, "element"), (*layout.spec)[c].name, other));
  }
  return length;
}

// The length with the separator, which an empty sequence does not have.
int64_t SequenceOf(int64_t length, const PackLayout& layout) {
  return length + (length > 0 && !layout.separator.empty());
}

class PackStage : public Stage {
 public:
  PackStage(std::unique_ptr<Stage> input, PackLayout layout, size_t open, bool truncate,
            std::shared_ptr<RunContext> context)
      : rows_(std::move(input)),
        layout_(std::move(layout)),
        open_(open),
        truncate_(truncate),
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
      absl::StatusOr<int64_t> of_row = LengthOf(row.batch, 0, layout_, *context_);
      if (!of_row.ok()) return of_row.status();
      int64_t length = SequenceOf(*of_row, layout_);
      if (length > layout_.length) {
        if (!truncate_) {
          return absl::InvalidArgumentError(fmt::format(
              "{}pack: column '{}': a sequence of {} elements{} does not fit into a row of {}; "
              "raise the length or set truncate",
              context_->Prefix(row.batch, 0), (*layout_.spec)[0].name, *of_row,
              layout_.separator.empty() ? "" : " and a separator", layout_.length));
        }
        length = layout_.length;
      }
      if (length == 0) {
        context_->dropped_damaged += row.batch.damaged.size();
        rows_.Done(row.number);
        continue;
      }
      auto bin = std::find_if(bins_.begin(), bins_.end(),
                              [&](const Bin& b) { return b.used + length <= layout_.length; });
      if (bin == bins_.end()) {
        bins_.emplace_back();
        bin = bins_.end() - 1;
      }
      bin->used += length;
      bin->rows.push_back(std::move(row));
      // The oldest bin is emitted to make room; a full one is emitted at once.
      if (bin->used == layout_.length) {
        Emit(bin, out);
        return absl::OkStatus();
      }
      if (bins_.size() > open_) {
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
    std::vector<Segment> segments;
    for (const PendingRow& row : bin->rows) {
      const int64_t* const splits = row.batch.columns[layout_.columns[0]].splits;
      const int64_t length = SequenceOf(splits[1] - splits[0], layout_);
      segments.push_back({&row.batch, 0, 0, std::min(length, layout_.length)});
      rows_.Done(row.number);
    }
    MakeRow(segments, layout_, out);
    out->origins = bin->rows[0].batch.origins;
    rows_.TellHeld({bin->rows.data(), 1}, out);
    bins_.erase(bin);
  }

  PendingRows rows_;
  const PackLayout layout_;
  const size_t open_;
  const bool truncate_;
  const std::shared_ptr<RunContext> context_;
  std::deque<Bin> bins_;
  bool ended_ = false;
};

// Makes the rows of a plan, whose records `input` delivers row by row.
class PlannedStage : public Stage {
 public:
  PlannedStage(std::unique_ptr<Stage> input, std::shared_ptr<const PackPlan> plan,
               std::shared_ptr<RunContext> context)
      : queue_(std::move(input)), plan_(std::move(plan)), context_(std::move(context)) {}

  absl::Status Next(Batch* out) final {
    *out = Batch();
    absl::Status status = queue_.Fill();
    if (!status.ok() || queue_.ended()) return status;
    Row row;
    status = Find(&row);
    size_t taken = 0;
    while (status.ok() && taken < row.parts.size()) {
      status = queue_.Take(row.parts.size() - taken, &row.batches.emplace_back());
      if (status.ok() && row.batches.back().empty()) return NotInRows();
      taken += row.batches.back().rows;
    }
    return status.ok() ? Make(row, out) : status;
  }
  void Save(StateWords* words) const final { queue_.Save(words); }
  absl::Status Load(StateReader* words) final { return queue_.Load(words); }

 protected:
  struct Row {
    RowOrigin origin;  // origin of its first record
    absl::Span<const PackedPart> parts;
    std::deque<Batch> batches;  // one row for each part
  };

  // Fills `*out`, which is empty, with a row.
  virtual absl::Status Make(const Row& row, Batch* out) = 0;

  // InvalidArgument: the record does not have the length on which the plan is based. `name` is that
  // of the column.
  absl::Status CheckLength(const Batch& batch, size_t row, int64_t length, const PackedPart& part,
                           std::string_view step, std::string_view name) const {
    const uint64_t planned = plan_->LengthOf(part.item);
    if (static_cast<uint64_t>(length) == planned) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "{}{}: '{}' has {}, but the index says {} of '{}': the preceding steps must not "
        "change that number; if the lengths are wrong, remove the shard's index and index the "
        "dataset with these lengths again",
        context_->Prefix(batch, row), step, name, CountText(length, "element"), planned,
        plan_->spec().lengths));
  }
  RunContext& context() const { return *context_; }

 private:
  // The row that begins with the queue's next record.
  absl::Status Find(Row* row) {
    if (!queue_.head().OriginOf(queue_.at(), &row->origin)) return NotInRows();
    row->origin.first = 0;
    const uint64_t part = PackPlan::PartOf(row->origin.position);
    absl::StatusOr<std::shared_ptr<const PackedWindow>> rows =
        plan_->Window(row->origin.epoch, row->origin.position);
    if (!rows.ok()) return rows.status();
    window_ = *std::move(rows);
    const std::vector<uint32_t>& begins = window_->begins;
    const auto begin = std::lower_bound(begins.begin(), begins.end(), part);
    if (begin == begins.end() || *begin != part || part == window_->parts.size()) {
      return NotInRows();
    }
    row->parts = window_->row(begin - begins.begin());
    return absl::OkStatus();
  }
  static absl::Status NotInRows() {
    return absl::InternalError("pack: the records do not come in the rows of the plan");
  }

  ElementQueue queue_;
  const std::shared_ptr<const PackPlan> plan_;
  const std::shared_ptr<RunContext> context_;
  std::shared_ptr<const PackedWindow> window_;  // window of the row that is being made
};

// A damaged record that is skipped has no elements, whatever its index says.
bool IsDamaged(const Batch& batch, size_t row) {
  return std::binary_search(batch.damaged.begin(), batch.damaged.end(), row);
}

class PlannedPackStage : public PlannedStage {
 public:
  PlannedPackStage(std::unique_ptr<Stage> input, PackLayout layout,
                   std::shared_ptr<const PackPlan> plan, std::shared_ptr<RunContext> context)
      : PlannedStage(std::move(input), std::move(plan), std::move(context)),
        layout_(std::move(layout)) {}

  absl::Status Make(const Row& row, Batch* out) override {
    std::vector<Segment> segments;
    auto part = row.parts.begin();
    for (const Batch& batch : row.batches) {
      for (size_t i = 0; i < batch.rows; ++i, ++part) {
        if (IsDamaged(batch, i)) {
          // The first part of a record counts it.
          if (part->begin == 0) ++context().dropped_damaged;
          continue;
        }
        const absl::StatusOr<int64_t> length = LengthOf(batch, i, layout_, context());
        if (!length.ok()) return length.status();
        absl::Status status =
            CheckLength(batch, i, *length, *part, "pack", (*layout_.spec)[0].name);
        if (!status.ok()) return status;
        segments.push_back(
            {&batch, i, static_cast<int64_t>(part->begin), static_cast<int64_t>(part->count)});
      }
    }
    MakeRow(segments, layout_, out);
    out->origins = {row.origin};
    return absl::OkStatus();
  }

 private:
  const PackLayout layout_;
};

class PlannedStepsStage : public PlannedStage {
 public:
  PlannedStepsStage(std::unique_ptr<Stage> input, StepsLayout layout,
                    std::shared_ptr<const PackPlan> plan, std::shared_ptr<RunContext> context)
      : PlannedStage(std::move(input), std::move(plan), std::move(context)),
        layout_(std::move(layout)) {}

  absl::Status Make(const Row& row, Batch* out) override {
    const Batch& episode = row.batches[0];
    const PackedPart& part = row.parts[0];
    out->rows = 1;
    out->spec = layout_.spec;
    out->origins = {row.origin};
    AllocateFixedColumns(out);
    if (IsDamaged(episode, 0)) {
      for (size_t c = 0; c < out->columns.size(); ++c) {
        std::memset(out->columns[c].data, 0, (*layout_.spec)[c].bytes());
      }
      out->damaged = {0};
      return absl::OkStatus();
    }
    const auto step = static_cast<int64_t>(part.begin);
    for (size_t i = 0; i < layout_.parts.size(); ++i) {
      const StepsLayout::Part& of = layout_.parts[i];
      const Column& from = episode.columns[of.column];
      const int64_t length = from.splits[1] - from.splits[0];
      absl::Status status =
          CheckLength(episode, 0, length, part, "steps", (*episode.spec)[of.column].name);
      if (!status.ok()) return status;
      const size_t bytes = (*episode.spec)[of.column].bytes();
      for (int64_t k = of.begin; k < of.end; ++k) {
        const int64_t at = std::clamp<int64_t>(step + k, 0, length - 1);
        std::memcpy(out->columns[i].data + (k - of.begin) * bytes,
                    from.data + (from.splits[0] + at) * bytes, bytes);
        if (of.mask >= 0) out->columns[of.mask].data[k - of.begin] = at == step + k;
      }
    }
    if (layout_.number >= 0) {
      *reinterpret_cast<int32_t*>(out->columns[layout_.number].data) = static_cast<int32_t>(step);
    }
    for (size_t k = 0; k < layout_.kept.size(); ++k) {
      const size_t to = out->columns.size() - layout_.kept.size() + k;
      std::memcpy(out->columns[to].data, episode.columns[layout_.kept[k]].data,
                  (*layout_.spec)[to].bytes());
    }
    // Values of bytes are views of the episode's memory.
    out->memory.insert(out->memory.end(), episode.memory.begin(), episode.memory.end());
    return absl::OkStatus();
  }

 private:
  const StepsLayout layout_;
};

class PlannedBatchStage : public PlannedStage {
 public:
  PlannedBatchStage(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> spec,
                    size_t column, std::shared_ptr<const PackPlan> plan,
                    std::shared_ptr<RunContext> context)
      : PlannedStage(std::move(input), std::move(plan), std::move(context)),
        spec_(std::move(spec)),
        column_(column) {}

  absl::Status Make(const Row& row, Batch* out) override {
    BatchBuilder builder(spec_);
    auto part = row.parts.begin();
    for (const Batch& batch : row.batches) {
      for (size_t i = 0; i < batch.rows; ++i, ++part) {
        if (IsDamaged(batch, i)) continue;
        absl::Status status = CheckLength(batch, i, RowLength(batch, column_, i), *part,
                                          "batch_by_length", (*spec_)[column_].name);
        if (!status.ok()) return status;
      }
      builder.Append(batch, 0, batch.rows);
    }
    *out = builder.Finish(/*batched=*/true);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const RowSpec> spec_;
  const size_t column_;
};

}  // namespace

std::unique_ptr<Stage> MakePackStage(std::unique_ptr<Stage> input, PackLayout layout, size_t open,
                                     bool truncate, std::shared_ptr<RunContext> context) {
  return std::make_unique<PackStage>(std::move(input), std::move(layout), open, truncate,
                                     std::move(context));
}

std::unique_ptr<Stage> MakePlannedPackStage(std::unique_ptr<Stage> input, PackLayout layout,
                                            std::shared_ptr<const PackPlan> plan,
                                            std::shared_ptr<RunContext> context) {
  return std::make_unique<PlannedPackStage>(std::move(input), std::move(layout), std::move(plan),
                                            std::move(context));
}

std::unique_ptr<Stage> MakePlannedStepsStage(std::unique_ptr<Stage> input, StepsLayout layout,
                                             std::shared_ptr<const PackPlan> plan,
                                             std::shared_ptr<RunContext> context) {
  return std::make_unique<PlannedStepsStage>(std::move(input), std::move(layout), std::move(plan),
                                             std::move(context));
}

std::unique_ptr<Stage> MakePlannedBatchStage(std::unique_ptr<Stage> input,
                                             std::shared_ptr<const RowSpec> spec, size_t column,
                                             std::shared_ptr<const PackPlan> plan,
                                             std::shared_ptr<RunContext> context) {
  return std::make_unique<PlannedBatchStage>(std::move(input), std::move(spec), column,
                                             std::move(plan), std::move(context));
}

}  // namespace shardfeed
