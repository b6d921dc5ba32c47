#include "cuda/host_columns.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "io/buffer.h"

namespace shardfeed {
namespace {

// Copies row splits, rebased to 0, to memory that `out` keeps.
const int64_t* CopySplits(const int64_t* from, size_t rows, Batch* out) {
  auto splits = std::make_shared<std::vector<int64_t>>(from, from + rows + 1);
  for (int64_t& split : *splits) split -= from[0];
  const int64_t* data = splits->data();
  out->memory.push_back(std::move(splits));
  return data;
}

char* CopyBytes(const std::string_view* from, size_t count, Batch* out) {
  size_t size = 0;
  for (size_t i = 0; i < count; ++i) size += from[i].size();
  const size_t views_size = count * sizeof(std::string_view);
  std::shared_ptr<Buffer> memory = Buffer::Allocate(views_size + size);
  char* const views = memory->data();
  char* bytes = views + views_size;
  for (size_t i = 0; i < count; ++i) {
    if (!from[i].empty()) std::memcpy(bytes, from[i].data(), from[i].size());
    new (views + i * sizeof(std::string_view)) std::string_view(bytes, from[i].size());
    bytes += from[i].size();
  }
  out->memory.push_back(std::move(memory));
  return views;
}

}  // namespace

Batch CopyHostColumns(const Batch& from, const std::vector<size_t>& columns,
                      std::shared_ptr<const RowSpec> spec) {
  Batch out;
  out.rows = from.rows;
  out.batched = from.batched;
  out.padded = from.padded;
  out.origins = from.origins;
  out.damaged = from.damaged;
  out.spec = std::move(spec);
  for (size_t c : columns) {
    const Column& column = from.columns[c];
    const size_t values = (*from.spec)[c].num_values();
    const auto* views = reinterpret_cast<const std::string_view*>(column.data);
    size_t elements = from.rows;
    Column& copy = out.columns.emplace_back();
    if (column.splits != nullptr) {
      views += column.splits[0] * values;
      elements = column.splits[from.rows] - column.splits[0];
      copy.splits = CopySplits(column.splits, from.rows, &out);
    }
    copy.data = CopyBytes(views, elements * values, &out);
  }
  return out;
}

}  // namespace shardfeed
