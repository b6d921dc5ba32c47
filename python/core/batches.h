// Conversion of batches to NumPy arrays and back. Call everything here with the GIL.

#ifndef SHARDFEED_PYTHON_CORE_BATCHES_H_
#define SHARDFEED_PYTHON_CORE_BATCHES_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "nanobind/nanobind.h"
#include "shardfeed/batch.h"

namespace shardfeed::python {

// A column of bytes: a sequence of bytes objects, which are created on access.
class BytesArray {
 public:
  // `shape` begins with the number of rows; more sizes follow if a row has several values.
  BytesArray(std::shared_ptr<const void> owner, const std::string_view* data,
             std::vector<int64_t> shape)
      : owner_(std::move(owner)), data_(data), shape_(std::move(shape)) {}

  const std::vector<int64_t>& shape() const { return shape_; }
  const std::string_view* data() const { return data_; }
  // Number of strings in all rows.
  size_t size() const;
  // Total size of the strings in bytes.
  uint64_t num_bytes() const;

  nanobind::object Get(int64_t index) const;
  BytesArray Slice(nanobind::slice slice) const;
  nanobind::list ToList() const;
  // Returns string `index` of all strings as a read-only uint8 array that shares its memory.
  nanobind::object View(int64_t index) const;
  // Returns a copy of all strings end to end, as a uint8 array, and the offset of each string, plus
  // one for the end.
  nanobind::tuple Joined() const;
  // The reverse: strings that lie end to end in `joined`, without a copy. Raises ValueError if the
  // offsets are not within it.
  static BytesArray Split(nanobind::object joined, nanobind::handle offsets,
                          std::vector<int64_t> shape);

 private:
  int64_t Row(int64_t index) const;
  size_t row_values() const;

  std::shared_ptr<const void> owner_;
  const std::string_view* data_;
  std::vector<int64_t> shape_;
};

// Rows of a batch as Python values. The conversion of the columns is prepared once for all rows.
class RowViews {
 public:
  RowViews() = default;
  // If `bare`, a row is the value of its single column; otherwise a dict by column name.
  RowViews(std::shared_ptr<const Batch> batch, bool bare, bool writable);

  nanobind::object Row(size_t row) const;

 private:
  std::shared_ptr<const Batch> batch_;
  bool bare_ = false;
  bool writable_ = false;
  nanobind::object owner_;
  std::vector<nanobind::object> names_;
};

// Returns all rows as a dict of arrays that are views of the batch or, if `bare`, as the array
// alone. Columns are arrays [rows, shape...], BytesArrays, or Raggeds (of ragged.py).
nanobind::object BatchToPython(Batch batch, bool bare, bool writable);

// Returns a Ragged (of ragged.py).
nanobind::object RaggedToPython(nanobind::object values, nanobind::object splits);

// Returns a value of one row, which has `elements` elements if it is ragged: a Python number,
// bytes, an array, or a list of bytes. Arrays are views that hold `owner`, or copies if there is no
// owner.
nanobind::object ValueToPython(const ColumnSpec& spec, const char* data, int64_t elements,
                               nanobind::handle owner, bool writable);

// The bytes of a contiguous array, which may be read as long as this object lives.
class ContiguousBytes {
 public:
  // Raises if `object` has no contiguous buffer.
  explicit ContiguousBytes(nanobind::handle object);
  ~ContiguousBytes();
  ContiguousBytes(const ContiguousBytes&) = delete;
  ContiguousBytes& operator=(const ContiguousBytes&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(view_.buf), size()}; }
  size_t size() const { return static_cast<size_t>(view_.len); }

 private:
  Py_buffer view_;
};

// Makes a batch of `columns`, one for each of `spec`: contiguous arrays [rows, shape...] of the
// column's type; (elements, row splits) for ragged columns; BytesArrays or lists of bytes for
// bytes. The batch holds the arrays. Raises ValueError if sizes do not match.
Batch BatchFromPython(std::shared_ptr<const RowSpec> spec, nanobind::sequence columns);

// Returns (name, dtype, shape, ragged) for each column.
nanobind::list SpecToPython(const RowSpec& spec);
RowSpec SpecFromPython(nanobind::sequence columns);
DType DTypeFromName(std::string_view name);

void BindBatches(nanobind::module_& m);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_BATCHES_H_
