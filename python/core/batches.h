// Batches as NumPy arrays, and back.

#ifndef SHARDFEED_PYTHON_CORE_BATCHES_H_
#define SHARDFEED_PYTHON_CORE_BATCHES_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "nanobind/nanobind.h"
#include "shardfeed/batch.h"

namespace shardfeed::python {

// A column of bytes: a sequence of bytes objects, made as they are asked for.
class BytesArray {
 public:
  // `shape`: of the rows, for a column of several values each.
  BytesArray(std::shared_ptr<const void> owner, const std::string_view* data,
             std::vector<int64_t> shape)
      : owner_(std::move(owner)), data_(data), shape_(std::move(shape)) {}

  const std::vector<int64_t>& shape() const { return shape_; }
  const std::string_view* data() const { return data_; }
  // Strings, of all rows.
  size_t size() const;
  // Bytes of all strings.
  uint64_t num_bytes() const;

  nanobind::object Get(int64_t index) const;
  BytesArray Slice(nanobind::slice slice) const;
  nanobind::list ToList() const;
  // String `index` of all, as a read-only array of uint8 in place.
  nanobind::object View(int64_t index) const;
  // All strings end to end, as an array of uint8, and where each begins, with one more for the end.
  nanobind::tuple Joined() const;

 private:
  int64_t Row(int64_t index) const;
  size_t row_values() const;

  std::shared_ptr<const void> owner_;
  const std::string_view* data_;
  std::vector<int64_t> shape_;
};

// The columns of rows, made into Python once and looked at by row.
class RowViews {
 public:
  RowViews() = default;
  // `bare`: a row with one column is its value; else a dict by the columns' names.
  RowViews(std::shared_ptr<const Batch> batch, bool bare, bool writable);

  nanobind::object Row(size_t row) const;

 private:
  std::shared_ptr<const Batch> batch_;
  bool bare_ = false;
  bool writable_ = false;
  nanobind::object owner_;
  std::vector<nanobind::object> names_;
};

// All rows: a dict of arrays that are views of the batch; `bare`: the array alone. Columns are
// arrays [rows, shape...], BytesArrays, or Raggeds (of ragged.py).
nanobind::object BatchToPython(Batch batch, bool bare, bool writable);

// A Ragged (of ragged.py).
nanobind::object RaggedToPython(nanobind::object values, nanobind::object splits);

// A value of one row, `elements` (ragged) of it: a Python number, bytes, an array, a list of bytes.
// Arrays are views that hold `owner`, or copies where that is none.
nanobind::object ValueToPython(const ColumnSpec& spec, const char* data, int64_t elements,
                               nanobind::handle owner, bool writable);

// The bytes of an array in one piece, read while this lives.
class ContiguousBytes {
 public:
  // Raises where `object` has no buffer in one piece.
  explicit ContiguousBytes(nanobind::handle object);
  ~ContiguousBytes();
  ContiguousBytes(const ContiguousBytes&) = delete;
  ContiguousBytes& operator=(const ContiguousBytes&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(view_.buf), size()}; }
  size_t size() const { return static_cast<size_t>(view_.len); }

 private:
  Py_buffer view_;
};

// The batch of `columns`, one for each of `spec`: arrays in one piece and of the column's type,
// [rows, shape...]; (elements, row splits) of ragged columns; BytesArrays or lists of bytes for
// bytes. The batch holds the arrays. Raises ValueError where something does not fit.
Batch BatchFromPython(std::shared_ptr<const RowSpec> spec, nanobind::sequence columns);

// (name, dtype, shape, ragged) of each column.
nanobind::list SpecToPython(const RowSpec& spec);
RowSpec SpecFromPython(nanobind::sequence columns);
DType DTypeFromName(std::string_view name);

void BindBatches(nanobind::module_& m);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_BATCHES_H_
