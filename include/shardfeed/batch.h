// A batch in memory: named columns, each with one entry a row.

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

// Gives the memory that values of batches are written to: `size` bytes, uninitialised, at a
// multiple of 64, for as long as anyone holds the pointer. Thread safe. An empty function stands
// for memory of the process. Throws std::bad_alloc.
using HostAllocator = std::function<std::shared_ptr<char>(size_t size)>;

// What the rows of one column are.
struct ColumnSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  // Of a row; {} is a scalar. Of a ragged column: of an element of a row.
  std::vector<int64_t> shape;
  // Rows of any number of elements.
  bool ragged = false;

  // Values in a row (ragged: in an element), and what they take.
  size_t num_values() const;
  size_t bytes() const { return num_values() * DTypeSize(dtype); }

  friend bool operator==(const ColumnSpec&, const ColumnSpec&) = default;
};

using RowSpec = std::vector<ColumnSpec>;

// Number of the column `name`, or -1.
int FindColumn(const RowSpec& spec, std::string_view name);
// "x: float32 [50], tokens: int64 ragged"
std::string RowSpecText(const RowSpec& spec);

// Where the rows of a column are. Values of DType::kBytes are std::string_views.
struct Column {
  // Row r is at data + r * spec.bytes(). Ragged: the elements of all rows, end to end.
  char* data = nullptr;
  // Ragged: row r is the elements [splits[r], splits[r + 1]). splits[0] need not be 0.
  const int64_t* splits = nullptr;
};

// Where consecutive rows came from: row first + i stands at position + i * stride of the epoch.
struct RowOrigin {
  size_t first = 0;
  uint32_t source = 0;  // number of the source in the chain
  uint64_t epoch = 0;
  uint64_t position = 0;
  uint64_t stride = 1;
  // Rows from a cache: so many epochs after the one that they were made in.
  uint64_t later = 0;
  // With a stride of 0, where flat_map made several rows of one: the first one's number among them.
  // Rows from a cache have none.
  uint64_t part = 0;
};

struct ReorderedRows;  // pipeline/stages/reordered_rows.h

// Consecutive rows that a stage hands out in an order of its own: row first + i is number
// at + i * stride of `rows`.
struct Reordered {
  size_t first = 0;
  std::shared_ptr<const ReorderedRows> rows;
  uint64_t at = 0;
  uint64_t stride = 1;  // 1, or 0 if all are the same row of `rows`
};

// Rows in columns. Moving and slicing a batch does not move its values; whoever holds a copy of it
// keeps their memory. One that was handed out is read only, but for its last holder.
class Batch {
 public:
  size_t rows = 0;
  // True: all rows together are one element of the stream. False: each row is one.
  bool batched = false;
  std::shared_ptr<const RowSpec> spec;
  std::vector<Column> columns;
  std::vector<std::shared_ptr<const void>> memory;  // memory that the columns point to
  // In the order of `first`. Empty where rows come from no source.
  std::vector<RowOrigin> origins;
  // In the order of `first`. Empty where rows come in the order of their source.
  std::vector<Reordered> reordered;
  // So many of the last rows are padding, delivered so that all ranks have as many.
  size_t padded = 0;
  // Rows whose record was damaged and skipped, rising. They keep their place, so that all ranks
  // have as many batches, but have no values: fixed columns are zero, ragged ones and bytes are
  // empty.
  std::vector<uint32_t> damaged;

  bool empty() const { return rows == 0; }
  size_t num_elements() const { return batched ? (rows > 0 ? 1 : 0) : rows; }
  // The column `name`, or -1.
  int Find(std::string_view name) const { return spec ? FindColumn(*spec, name) : -1; }

  // The values of row `row`: num_values() of them, ragged: as many for each element.
  // Throws std::invalid_argument when the column is not of type T.
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
  // The values of all rows. As Row.
  template <typename T>
  absl::Span<const T> Values(size_t column) const {
    CheckType(column, DTypeOf<T>());
    const size_t values = (*spec)[column].num_values();
    const T* data = reinterpret_cast<const T*>(columns[column].data);
    const int64_t* splits = columns[column].splits;
    if (splits == nullptr) return {data, rows * values};
    return {data + splits[0] * values, (splits[rows] - splits[0]) * values};
  }

  // What the values and splits take; of bytes, the payloads too.
  uint64_t bytes() const;
  // Rows [begin, begin + count) of a batch that is not `batched`, in the same memory.
  Batch Slice(size_t begin, size_t count) const;
  // Appends the origins of rows [begin, begin + count), and how they were reordered, to those of
  // `out`, whose rows from `row` on they are.
  void CopyOrigins(size_t begin, size_t count, size_t row, Batch* out) const;
  // The same of the damaged rows.
  void CopyDamaged(size_t begin, size_t count, size_t row, std::vector<uint32_t>* out) const;
  // Where row `row` came from: an origin with that one's position. False when it is not known.
  bool OriginOf(size_t row, RowOrigin* origin) const;
  // The number that the row has among reordered ones; none where it has its source's order.
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
  // float16 and bfloat16 are handed out as the bits they consist of.
  if constexpr (std::is_same_v<T, uint16_t>) return DType::kUInt16;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kInt32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kInt64;
  if constexpr (std::is_same_v<T, float>) return DType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return DType::kFloat64;
  if constexpr (std::is_same_v<T, std::string_view>) return DType::kBytes;
}

// Memory for `columns` of fixed size with `rows` rows, each column at a multiple of 64 bytes.
// Appends the owner to `batch->memory` and sets the columns' data; ragged columns are left alone.
void AllocateFixedColumns(Batch* batch, const HostAllocator& allocator = {});

}  // namespace shardfeed

#endif  // SHARDFEED_BATCH_H_
