#include "pipeline/data/batch.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "fmt/format.h"
#include "io/buffer.h"

namespace shardfeed {
namespace {

constexpr size_t kColumnAlignment = 64;

size_t RoundUp(size_t n) {
  return (n + kColumnAlignment - 1) / kColumnAlignment * kColumnAlignment;
}

// Batches come and go in like sizes: their memory is used again, so that the kernel need not clear
// pages for each.
BufferPool& Pool() {
  static const std::shared_ptr<BufferPool>* pool = nullptr;
  static const auto make = [] {
    pool = new std::shared_ptr<BufferPool>(BufferPool::Create(64 << 20));
    return 0;
  };
  // A forked child has one of its own: another thread may have been inside the parent's.
  static const int registered = make() + ::pthread_atfork(nullptr, nullptr, [] { make(); });
  (void)registered;
  return **pool;
}

}  // namespace

size_t ColumnSpec::num_values() const {
  size_t n = 1;
  for (int64_t size : shape) n *= static_cast<size_t>(size);
  return n;
}

int FindColumn(const RowSpec& spec, std::string_view name) {
  for (size_t i = 0; i < spec.size(); ++i) {
    if (spec[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::string RowSpecText(const RowSpec& spec) {
  std::string text;
  for (const ColumnSpec& column : spec) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{}: {}", column.name, DTypeName(column.dtype));
    if (column.ragged) text += " ragged";
    if (!column.shape.empty()) text += fmt::format(" [{}]", fmt::join(column.shape, ", "));
  }
  return text;
}

void Batch::CheckType(size_t column, DType asked) const {
  const ColumnSpec& s = (*spec)[column];
  const bool same =
      s.dtype == asked ||
      (asked == DType::kUInt16 && (s.dtype == DType::kFloat16 || s.dtype == DType::kBFloat16));
  if (!same) {
    throw std::invalid_argument(
        fmt::format("column '{}' holds {}, not {}", s.name, DTypeName(s.dtype), DTypeName(asked)));
  }
}

uint64_t Batch::bytes() const {
  uint64_t total = 0;
  for (size_t c = 0; c < columns.size(); ++c) {
    const ColumnSpec& s = (*spec)[c];
    const int64_t* splits = columns[c].splits;
    const size_t begin = splits ? splits[0] : 0;
    const size_t end = splits ? splits[rows] : rows;
    total += (end - begin) * s.bytes() + (splits ? (rows + 1) * sizeof(int64_t) : 0);
    if (s.dtype != DType::kBytes) continue;
    const auto* strings = reinterpret_cast<const std::string_view*>(columns[c].data);
    for (size_t i = begin * s.num_values(); i < end * s.num_values(); ++i) {
      total += strings[i].size();
    }
  }
  return total;
}

Batch Batch::Slice(size_t begin, size_t count) const {
  Batch slice = *this;
  if (begin == 0 && count == rows) return slice;
  slice.rows = count;
  slice.padded = begin + count > rows - padded ? begin + count - (rows - padded) : 0;
  slice.padded = std::min(slice.padded, count);
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].splits != nullptr) {
      slice.columns[c].splits += begin;
    } else if (columns[c].data != nullptr) {
      slice.columns[c].data += begin * (*spec)[c].bytes();
    }
  }
  slice.origins.clear();
  slice.reordered.clear();
  CopyOrigins(begin, count, 0, &slice);
  slice.damaged.clear();
  CopyDamaged(begin, count, 0, &slice.damaged);
  return slice;
}

void Batch::CopyOrigins(size_t begin, size_t count, size_t row, Batch* out) const {
  auto it = std::upper_bound(origins.begin(), origins.end(), begin,
                             [](size_t r, const RowOrigin& o) { return r < o.first; });
  if (it != origins.begin()) --it;
  for (; it != origins.end() && it->first < begin + count; ++it) {
    RowOrigin origin = *it;
    if (origin.first < begin) {
      origin.position += (begin - origin.first) * origin.stride;
      if (origin.stride == 0) origin.part += begin - origin.first;
      origin.first = begin;
    }
    origin.first += row - begin;
    if (!out->origins.empty()) {
      const RowOrigin& last = out->origins.back();
      if (last.source == origin.source && last.epoch == origin.epoch &&
          last.stride == origin.stride && last.later == origin.later &&
          last.position + (origin.first - last.first) * last.stride == origin.position &&
          last.part + (last.stride == 0 ? origin.first - last.first : 0) == origin.part) {
        continue;
      }
    }
    out->origins.push_back(origin);
  }
  if (reordered.empty()) return;
  auto at = std::upper_bound(reordered.begin(), reordered.end(), begin,
                             [](size_t r, const Reordered& o) { return r < o.first; });
  if (at != reordered.begin()) --at;
  for (; at != reordered.end() && at->first < begin + count; ++at) {
    Reordered piece = *at;
    if (piece.first < begin) {
      piece.at += (begin - piece.first) * piece.stride;
      piece.first = begin;
    }
    piece.first += row - begin;
    out->reordered.push_back(std::move(piece));
  }
}

void Batch::CopyDamaged(size_t begin, size_t count, size_t row, std::vector<uint32_t>* out) const {
  for (auto it = std::lower_bound(damaged.begin(), damaged.end(), begin);
       it != damaged.end() && *it < begin + count; ++it) {
    out->push_back(static_cast<uint32_t>(row + *it - begin));
  }
}

bool Batch::OriginOf(size_t row, RowOrigin* origin) const {
  auto after = std::upper_bound(origins.begin(), origins.end(), row,
                                [](size_t r, const RowOrigin& o) { return r < o.first; });
  if (after == origins.begin()) return false;
  *origin = *--after;
  origin->position += (row - origin->first) * origin->stride;
  if (origin->stride == 0) origin->part += row - origin->first;
  origin->first = row;
  return true;
}

Reordered Batch::ReorderedOf(size_t row) const {
  auto after = std::upper_bound(reordered.begin(), reordered.end(), row,
                                [](size_t r, const Reordered& o) { return r < o.first; });
  if (after == reordered.begin()) return {};
  Reordered of = *--after;
  of.at += (row - of.first) * of.stride;
  of.first = row;
  return of;
}

std::shared_ptr<char> AllocateValues(size_t size, const HostAllocator& allocator) {
  if (allocator) return allocator(size);
  std::shared_ptr<Buffer> buffer = Pool().Allocate(size);
  char* data = buffer->data();
  return {std::move(buffer), data};
}

void AllocateFixedColumns(Batch* batch, const HostAllocator& allocator) {
  size_t size = 0;
  for (const ColumnSpec& s : *batch->spec) {
    if (!s.ragged) size += RoundUp(s.bytes() * batch->rows);
  }
  batch->columns.resize(batch->spec->size());
  if (size == 0) return;
  std::shared_ptr<char> memory = AllocateValues(size, allocator);
  char* at = memory.get();
  for (size_t c = 0; c < batch->columns.size(); ++c) {
    const ColumnSpec& s = (*batch->spec)[c];
    if (s.ragged) continue;
    batch->columns[c].data = at;
    at += RoundUp(s.bytes() * batch->rows);
  }
  batch->memory.push_back(std::move(memory));
}

BatchBuilder::BatchBuilder(std::shared_ptr<const RowSpec> spec, HostAllocator allocator)
    : spec_(std::move(spec)), allocator_(std::move(allocator)) {}

void BatchBuilder::Append(const Batch& batch, size_t begin, size_t count) {
  AppendOf(Add(batch), begin, count);
}

size_t BatchBuilder::Add(const Batch& batch) {
  batches_.push_back(batch);
  return batches_.size() - 1;
}

void BatchBuilder::AppendOf(size_t batch, size_t begin, size_t count) {
  if (count == 0) return;
  rows_ += count;
  if (!pieces_.empty()) {
    Piece& last = pieces_.back();
    if (last.batch == batch && last.begin + last.count == begin) {
      last.count += count;
      return;
    }
  }
  pieces_.push_back({batch, begin, count});
}

Batch BatchBuilder::Finish(bool batched) {
  Batch out;
  const std::vector<Batch> batches = std::exchange(batches_, {});
  const std::vector<Piece> pieces = std::exchange(pieces_, {});
  const size_t rows = std::exchange(rows_, 0);
  if (pieces.size() == 1) {
    // Nothing to put together.
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
    const size_t splits_bytes = RoundUp((out.rows + 1) * sizeof(int64_t));
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
    batch.CopyOrigins(piece.begin, piece.count, row, &out);
    batch.CopyDamaged(piece.begin, piece.count, row, &out.damaged);
    const size_t real = batch.rows - batch.padded;
    const size_t end = piece.begin + piece.count;
    if (end > real) out.padded += std::min(piece.count, end - real);
    row += piece.count;
  }
  return out;
}

}  // namespace shardfeed
