#include "pipeline/data/batch_builder.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace shardfeed {

BatchBuilder::BatchBuilder(std::shared_ptr<const RowSpec> spec, HostAllocator allocator)
    : spec_(std::move(spec)), allocator_(std::move(allocator)) {}

void BatchBuilder::Append(const Batch& batch, size_t begin, size_t count) {
  AppendOf(Add(batch), begin, count);
}

size_t BatchBuilder::Add(const Batch& batch) {
  batches_.push_back(batch);
  return batches_.size() - 1;
}

void BatchBuilder::AppendPiece(const Piece& piece) {
  if (piece.count == 0) return;
  rows_ += piece.count;
  if (!pieces_.empty()) {
    Piece& last = pieces_.back();
    if (last.batch == piece.batch && last.begin + last.count == piece.begin &&
        last.place + last.count == piece.place) {
      last.count += piece.count;
      return;
    }
  }
  pieces_.push_back(piece);
}

Batch BatchBuilder::Finish(bool batched) {
  Batch out;
  const std::vector<Batch> batches = std::exchange(batches_, {});
  const std::vector<Piece> pieces = std::exchange(pieces_, {});
  const size_t rows = std::exchange(rows_, 0);
  if (pieces.size() == 1 && pieces[0].place == pieces[0].begin) {
    // A single piece needs no copy.
    out = batches[pieces[0].batch].Slice(pieces[0].begin, pieces[0].count);
    out.batched = batched;
    return out;
  }
  out.rows = rows;
  out.batched = batched;
  out.spec = spec_;
  if (out.rows == 0) return out;
  AllocateFixedColumns(&out, allocator_);
  for (size_t c = 0; c < spec_->size(); ++c) {
    const ColumnSpec& s = (*spec_)[c];
    Column& column = out.columns[c];
    const size_t bytes = s.bytes();
    if (!s.ragged) {
      char* at = column.data;
      for (const Piece& piece : pieces) {
        const size_t n = piece.count * bytes;
        if (n > 0) std::memcpy(at, batches[piece.batch].columns[c].data + piece.begin * bytes, n);
        at += n;
      }
      continue;
    }
    size_t elements = 0;
    for (const Piece& piece : pieces) {
      const int64_t* splits = batches[piece.batch].columns[c].splits + piece.begin;
      elements += splits[piece.count] - splits[0];
    }
    const size_t splits_bytes = AlignedColumnBytes((out.rows + 1) * sizeof(int64_t));
    std::shared_ptr<char> memory = AllocateValues(splits_bytes + elements * bytes + 1, allocator_);
    int64_t* splits = reinterpret_cast<int64_t*>(memory.get());
    column.splits = splits;
    column.data = memory.get() + splits_bytes;
    char* at = column.data;
    *splits = 0;
    for (const Piece& piece : pieces) {
      const Column& from = batches[piece.batch].columns[c];
      const int64_t* theirs = from.splits + piece.begin;
      const size_t n = (theirs[piece.count] - theirs[0]) * bytes;
      if (n > 0) std::memcpy(at, from.data + theirs[0] * bytes, n);
      at += n;
      const int64_t shift = *splits - theirs[0];
      for (size_t i = 1; i <= piece.count; ++i) *++splits = theirs[i] + shift;
    }
    out.memory.push_back(std::move(memory));
  }
  const bool shares = std::any_of(spec_->begin(), spec_->end(),
                                  [](const ColumnSpec& s) { return s.dtype == DType::kBytes; });
  if (shares) {
    for (const Batch& batch : batches) {
      out.memory.insert(out.memory.end(), batch.memory.begin(), batch.memory.end());
    }
    std::sort(out.memory.begin(), out.memory.end());
    out.memory.erase(std::unique(out.memory.begin(), out.memory.end()), out.memory.end());
  }
  size_t row = 0;
  for (const Piece& piece : pieces) {
    const Batch& batch = batches[piece.batch];
    batch.CopyOrigins(piece.place, piece.count, row, &out);
    batch.CopyDamaged(piece.place, piece.count, row, &out.damaged);
    const size_t real = batch.rows - batch.padded;
    const size_t end = piece.place + piece.count;
    if (end > real) out.padded += std::min(piece.count, end - real);
    row += piece.count;
  }
  return out;
}

}  // namespace shardfeed
