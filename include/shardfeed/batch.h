// A batch in memory: named columns with one entry per row.

#ifndef SHARDFEED_BATCH_H_
#define SHARDFEED_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"
#include "shardfeed/schema.h"

namespace shardfeed {

// Allocates memory for the values of batches: `size` uninitialized bytes aligned to 64, which live
// as long as the pointer is held. Must be thread-safe, and may throw std::bad_alloc. An empty
// function stands for ordinary memory.
using HostAllocator = std::function<std::shared_ptr<char>(size_t size)>;

// The name, type and shape of a column.
struct ColumnSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  // Shape of a row, {} for a scalar; in a ragged column, shape of an element of a row.
  std::vector<int64_t> shape;
  // Whether rows have any number of elements.
  bool ragged = false;

  // Number of values in a row (ragged: in an element), and their size in bytes.
  size_t num_values() const;
  size_t bytes() const { return num_values() * DTypeSize(dtype); }

  friend bool operator==(const ColumnSpec&, const ColumnSpec&) = default;
};

using RowSpec = std::vector<ColumnSpec>;

// Number of the column `name`, or -1.
int FindColumn(const RowSpec& spec, std::string_view name);
// "x: float32 [50], tokens: int64 ragged"
std::string RowSpecText(const RowSpec& spec);

// The data of a column. Values of DType::kBytes are std::string_views.
struct Column {
  // Row r begins at data + r * spec.bytes(). Ragged: the concatenated elements of all rows.
  char* data = nullptr;
  // Ragged: row r has the elements [splits[r], splits[r + 1]). splits[0] need not be 0.
  const int64_t* splits = nullptr;
};

// Where consecutive rows come from: row first + i has the position + i * stride in the epoch.
struct RowOrigin {
  size_t first = 0;
  uint32_t source = 0;  // number of the source in the chain
  uint64_t epoch = 0;
  uint64_t position = 0;
  uint64_t stride = 1;
  // Rows from a cache: the number of epochs since the one in which they were computed.
  uint64_t later = 0;
  // If flat_map made several rows of one (stride 0): the number of the first of these rows among
  // all of them. Rows from a cache lack it.
  uint64_t part = 0;
};

struct ReorderedRows;  // internal

// Consecutive rows that a stage delivers in its own order: row first + i is row at + i * stride of
// `rows`.
struct Reordered {
  size_t first = 0;
  std::shared_ptr<const ReorderedRows> rows;
  uint64_t at = 0;
  uint64_t stride = 1;  // 1, or 0 if all are the same row of `rows`
};

// Rows stored in columns. Moving and slicing a batch does not copy its values, and every copy keeps
// their memory alive. A batch that was delivered is read-only, except for its sole holder.
class Batch {
 public:
  size_t rows = 0;
  // Whether all rows together are one element of the stream. Otherwise each row is an element.
  bool batched = false;
  std::shared_ptr<const RowSpec> spec;
  std::vector<Column> columns;
  std::vector<std::shared_ptr<const void>> memory;  // memory that the columns point to
  // Sorted by `first`. Empty if rows do not come from a source.
  std::vector<RowOrigin> origins;
  // Sorted by `first`. Empty if rows are in the order of their source.
  std::vector<Reordered> reordered;
  // Number of rows at the end that are padding, which gives all ranks the same number of rows.
  size_t padded = 0;
  // Rows whose record was damaged and skipped, in ascending order. They keep their place, so that
  // all ranks have the same number of batches, but have no values: fixed columns are zero, ragged
  // ones and bytes are empty.
  std::vector<uint32_t> damaged;

  bool empty() const { return rows == 0; }
  size_t num_elements() const { return batched ? (rows > 0 ? 1 : 0) : rows; }
  // The column `name`, or -1.
  int Find(std::string_view name) const { return spec ? FindColumn(*spec, name) : -1; }

  // The values of row `row`: num_values() of them or, if ragged, as many for each element. Throws
  // std::invalid_argument if the column is not of type T.
  template <typename T>
  absl::Span<const T> Row(size_t column, size_t row) const {
    CheckType(column, DTypeOf<T>());
    const ColumnSpec& s = (*spec)[column];
    const size_t values = s.num_values();
    const T* data = reinterpret_cast<const T*>(columns[column].data);
    const int64_t* splits = columns[column].splits;
    if (splits == nullptr) return {data + row * values, values};
    return {data + splits[row] * values, (splits[row + 1] - splits[row]) * values};
  }
  // The values of all rows, as Row returns them.
  template <typename T>
  absl::Span<const T> Values(size_t column) const {
    CheckType(column, DTypeOf<T>());
    const size_t values = (*spec)[column].num_values();
    const T* data = reinterpret_cast<const T*>(columns[column].data);
    const int64_t* splits = columns[column].splits;
    if (splits == nullptr) return {data, rows * values};
    return {data + splits[0] * values, (splits[rows] - splits[0]) * values};
  }

  // Size of the values and splits, including the payloads of bytes columns.
  uint64_t bytes() const;
  // Rows [begin, begin + count) of a batch that is not `batched`; begin + count must be at most
  // `rows`. The memory is shared.
  Batch Slice(size_t begin, size_t count) const;
  // Appends the origins of rows [begin, begin + count), and how they were reordered, to `out`,
  // where they are the rows from `row` on.
  void CopyOrigins(size_t begin, size_t count, size_t row, Batch* out) const;
  // The same for the damaged rows.
  void CopyDamaged(size_t begin, size_t count, size_t row, std::vector<uint32_t>* out) const;
  // Sets `*origin` to the origin of row `row`. Returns false if it is not known.
  bool OriginOf(size_t row, RowOrigin* origin) const;
  // The number of the row among reordered ones; without `rows` if it is in the order of its source.
  Reordered ReorderedOf(size_t row) const;

  template <typename T>
  static constexpr DType DTypeOf();

 private:
  void CheckType(size_t column, DType asked) const;
};

template <typename T>
constexpr DType Batch::DTypeOf() {
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kUInt8;
  if constexpr (std::is_same_v<T, int8_t>) return DType::kInt8;
  if constexpr (std::is_same_v<T, int16_t>) return DType::kInt16;
  // float16 and bfloat16 are returned as their bits.
  if constexpr (std::is_same_v<T, uint16_t>) return DType::kUInt16;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kInt32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kInt64;
  if constexpr (std::is_same_v<T, float>) return DType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return DType::kFloat64;
  if constexpr (std::is_same_v<T, std::string_view>) return DType::kBytes;
}

// Allocates memory for the `rows` rows of all columns of fixed size, each aligned to 64 bytes,
// appends its owner to `batch->memory` and sets the data of these columns. Ragged columns are not
// changed.
void AllocateFixedColumns(Batch* batch, const HostAllocator& allocator = {});

}  // namespace shardfeed

#endif  // SHARDFEED_BATCH_H_
