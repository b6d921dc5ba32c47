#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {
namespace {

class WindowStage : public Stage {
 public:
  // `input_spec` is the spec of the rows, `spec` that of the windows.
  WindowStage(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> input_spec,
              std::shared_ptr<const RowSpec> spec, uint64_t size, uint64_t shift, uint64_t stride,
              bool drop_remainder)
      : queue_(std::move(input)),
        input_spec_(std::move(input_spec)),
        spec_(std::move(spec)),
        shift_(shift),
        stride_(stride),
        span_((size - 1) * stride + 1),
        drop_remainder_(drop_remainder) {}

  absl::Status Next(Batch* out) override {
    *out = Batch();
    BatchBuilder builder(input_spec_);
    std::map<uint64_t, size_t> added;  // pieces by the number of their first row
    std::vector<int64_t> splits = {0};
    // Makes several windows, as long as the input has rows ready.
    do {
      absl::Status status = Fill();
      if (!status.ok()) return status;
      if (held_ == 0 || (drop_remainder_ && held_ < span_)) break;
      for (uint64_t row = 0; row < std::min(held_, span_); row += stride_) {
        const Piece& piece = PieceOf(begin_ + row);
        const auto [at, is_new] = added.try_emplace(piece.first, 0);
        if (is_new) at->second = builder.Add(piece.rows);
        // Rows that later windows share are copied, because the consumer may write to its own; as
        // one piece, they would not be copied.
        const bool first = builder.rows() == 0 && shift_ < span_;
        builder.AppendOf(first ? builder.Add(piece.rows) : at->second, begin_ + row - piece.first,
                         1);
      }
      splits.push_back(static_cast<int64_t>(builder.rows()));
      Pass(shift_);
    } while (builder.rows() < kMostRows && held_ + queue_.left() >= skip_ + span_);
    if (splits.size() > 1) *out = Windows(builder.Finish(/*batched=*/false), splits);
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override {
    if (held_ == 0) {
      words->push_back(skip_);
      queue_.Save(words);
      return;
    }
    const Piece& piece = PieceOf(begin_);
    words->push_back(begin_ - piece.first);
    words->insert(words->end(), piece.before.begin(), piece.before.end());
  }
  absl::Status Load(StateReader* words) override {
    pieces_.clear();
    begin_ = held_ = 0;
    skip_ = words->Read();
    return queue_.Load(words);
  }

 private:
  // Rows of one batch of the input.
  struct Piece {
    uint64_t first;     // number of the first one
    StateWords before;  // the queue's state before it
    Batch rows;
  };

  // The number of rows to gather into windows before these are delivered.
  static constexpr size_t kMostRows = 1024;

  // Takes rows until a window is complete or the input ends.
  absl::Status Fill() {
    while (held_ < span_) {
      absl::Status status = queue_.Fill();
      if (!status.ok()) return status;
      if (queue_.ended()) return absl::OkStatus();
      if (skip_ > 0) {
        const uint64_t rows = std::min<uint64_t>(skip_, queue_.left());
        queue_.Advance(rows);
        skip_ -= rows;
        continue;
      }
      if (pieces_.empty()) begin_ = 0;
      Piece piece;
      piece.first = begin_ + held_;
      queue_.Save(&piece.before);
      status = queue_.Take(SIZE_MAX, &piece.rows);
      if (!status.ok()) return status;
      held_ += piece.rows.rows;
      pieces_.push_back(std::move(piece));
    }
    return absl::OkStatus();
  }
  const Piece& PieceOf(uint64_t row) const {
    const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), row,
                                        [](uint64_t r, const Piece& p) { return r < p.first; });
    return *std::prev(after);
  }
  // Drops this many rows, of which some may not have been taken yet.
  void Pass(uint64_t rows) {
    const uint64_t here = std::min(rows, held_);
    begin_ += here;
    held_ -= here;
    skip_ = rows - here;
    while (!pieces_.empty() && pieces_.front().first + pieces_.front().rows.rows <= begin_) {
      pieces_.pop_front();
    }
  }

  // Window i is rows [splits[i], splits[i + 1]).
  Batch Windows(Batch rows, const std::vector<int64_t>& splits) const {
    Batch out;
    out.rows = splits.size() - 1;
    out.spec = spec_;
    out.columns = std::move(rows.columns);
    out.memory = std::move(rows.memory);
    if (!drop_remainder_) {
      auto ends = std::make_shared<const std::vector<int64_t>>(splits);
      for (Column& column : out.columns) column.splits = ends->data();
      out.memory.push_back(std::move(ends));
    }
    for (size_t i = 0; i < out.rows; ++i) {
      RowOrigin origin;
      if (rows.OriginOf(splits[i], &origin)) {
        origin.first = i;
        out.origins.push_back(origin);
      }
      // One of its records was damaged.
      const auto first = std::lower_bound(rows.damaged.begin(), rows.damaged.end(), splits[i]);
      if (first != rows.damaged.end() && *first < splits[i + 1]) {
        out.damaged.push_back(static_cast<uint32_t>(i));
      }
    }
    return out;
  }

  ElementQueue queue_;
  const std::shared_ptr<const RowSpec> input_spec_;
  const std::shared_ptr<const RowSpec> spec_;
  const uint64_t shift_;
  const uint64_t stride_;
  const uint64_t span_;  // rows from a window's first to its last
  const bool drop_remainder_;
  std::deque<Piece> pieces_;
  uint64_t begin_ = 0;  // number of the next window's first row
  uint64_t held_ = 0;   // number of rows held from there on
  uint64_t skip_ = 0;   // rows to drop before that row, if none are held
};

}  // namespace

Dataset Dataset::Window(uint64_t size, uint64_t shift, uint64_t stride, bool drop_remainder) const {
  if (!status_.ok()) return *this;
  if (batched()) {
    return Dataset(absl::InvalidArgumentError(
        "window: expected rows, but the elements here are batches: put it before batch, or unbatch "
        "first"));
  }
  if (shift == 0) shift = size;
  if (size == 0 || size > kMaxRows || shift > kMaxRows || stride == 0 || stride > kMaxRows) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("window: the size {}, the shift {} and the stride {} must lie between 1 and {}",
                    size, shift, stride, kMaxRows)));
  }
  RowSpec windows = spec();
  for (ColumnSpec& s : windows) {
    if (s.ragged) {
      return Dataset(
          absl::InvalidArgumentError(fmt::format("window: column '{}' is ragged, so its rows do "
                                                 "not fit an array; give them one length, or drop "
                                                 "the column with select",
                                                 s.name)));
    }
    if (!drop_remainder) {
      s.ragged = true;
      continue;
    }
    if (s.bytes() > 0 && size > static_cast<uint64_t>(INT64_MAX) / s.bytes()) {
      return Dataset(absl::InvalidArgumentError(
          fmt::format("window: {} rows of column '{}', which have {} bytes each, are too large",
                      size, s.name, s.bytes())));
    }
    s.shape.insert(s.shape.begin(), static_cast<int64_t>(size));
  }
  Step step = Like("window");
  step.text = fmt::format("window({}, shift={}, stride={}{})", size, shift, stride,
                          drop_remainder ? ", drop_remainder" : "");
  step.identity.Add("size", size)
      .Add("shift", shift)
      .Add("stride", stride)
      .Add("drop_remainder", drop_remainder);
  step.length = [=](const std::vector<Length>& inputs) {
    if (!inputs[0].known()) return inputs[0];
    const uint64_t rows = inputs[0].elements;
    const uint64_t span = (size - 1) * stride + 1;
    if (!drop_remainder) return Length::Of(rows / shift + (rows % shift > 0));
    return Length::Of(rows < span ? 0 : (rows - span) / shift + 1);
  };
  step.counts = true;
  step.sharing = Sharing::kUneven;  // the step counts the elements of the rank
  step.spec = std::make_shared<const RowSpec>(std::move(windows));
  step.work = OnInput(
      [=, rows = step_->spec, spec = step.spec](std::unique_ptr<Stage> input, uint64_t /*epoch*/) {
        return std::make_unique<WindowStage>(std::move(input), rows, spec, size, shift, stride,
                                             drop_remainder);
      });
  return Then(std::move(step));
}

}  // namespace shardfeed
