#include "shardfeed/batch.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "fmt/format.h"
#include "io/buffer.h"
#include "pipeline/data/batch_builder.h"

namespace shardfeed {
namespace {

// Batches have similar sizes, so their memory is reused, which saves the kernel clearing new pages.
BufferPool& Pool() {
  static const std::shared_ptr<BufferPool>* pool = nullptr;
  static const auto make = [] {
    pool = new std::shared_ptr<BufferPool>(BufferPool::Create(64 << 20));
    return 0;
  };
  // A forked child gets a pool of its own, because another thread may have held the lock of the
  // parent's.
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
    throw std::invalid_argument(fmt::format("column '{}' holds {}, but was read as {}", s.name,
                                            DTypeName(s.dtype), DTypeName(asked)));
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
    if (!s.ragged) size += AlignedColumnBytes(s.bytes() * batch->rows);
  }
  batch->columns.resize(batch->spec->size());
  if (size == 0) return;
  std::shared_ptr<char> memory = AllocateValues(size, allocator);
  char* at = memory.get();
  for (size_t c = 0; c < batch->columns.size(); ++c) {
    const ColumnSpec& s = (*batch->spec)[c];
    if (s.ragged) continue;
    batch->columns[c].data = at;
    at += AlignedColumnBytes(s.bytes() * batch->rows);
  }
  batch->memory.push_back(std::move(memory));
}

}  // namespace shardfeed
