// The types of the features of one dataset: declared, or learned from the records that are written.
// All records must agree, since a record keeps neither shapes nor types narrower than its lists.

#ifndef SHARDFEED_PYTHON_CORE_RECORD_TYPES_H_
#define SHARDFEED_PYTHON_CORE_RECORD_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "decode/features/example_columns.h"
#include "nanobind/nanobind.h"
#include "python/core/example_values.h"
#include "shard/schema.h"
#include "shardfeed/schema.h"

namespace shardfeed::python {

// A column whose rows become records, and the shape of a row: -1 in front is any length.
struct TypedColumn {
  ExampleColumn column;
  std::string dtype;
  std::vector<int64_t> shape;
};

class RecordTypes {
 public:
  // `features`: (name, dtype, shape, ragged, default or None, raw) of each, as Feature.core() of
  // features.py. If there are none, types are learned; with `keeps_shapes` also shapes, which
  // Types() then has. With the GIL.
  RecordTypes(nanobind::sequence features, bool keeps_shapes);

  // Each record: Begin, Check for each feature that has a value, End, and Learn once it is written.
  // Check converts integers to declared floats. All raise TypeError, or ValueError for what is out
  // of range; the message names the feature. With the GIL.
  void Begin();
  void Check(std::string_view name, Values* values);
  void End() const;
  void Learn(uint64_t record);

  // The same as Begin, Check and End for the rows of columns. Without the GIL.
  absl::Status CheckColumns(const std::vector<TypedColumn>& columns, uint64_t rows);

  // What was declared or learned.
  FeatureTypes Types() const;

 private:
  struct Declared {
    char kind = 0;
    DType dtype = DType::kBytes;
    std::vector<int64_t> shape;  // -1 in front: any length
    bool required = false;
    size_t raw_bytes = 0;  // of a row or an element; 0: not raw
  };
  struct Learned {
    char kind = 0;
    std::string dtype;
    std::vector<int64_t> shape;
    bool any_length = false;  // of records that differ in it; the shape is empty then
    uint64_t record = 0;      // the first one
  };
  struct Given {
    char kind = 0;
    std::string_view dtype;
    const std::vector<int64_t>& shape;
  };

  // What is wrong with values, or empty.
  std::string WrongShape(const Declared& declared, const std::vector<int64_t>& shape) const;
  std::string WrongLearned(std::string_view name, const Given& given);
  const Declared* Find(std::string_view name) const;
  std::string Missing() const;
  std::string WrongColumn(const Declared& declared, const TypedColumn& column, uint64_t rows) const;

  std::map<std::string, Declared, std::less<>> declared_;
  size_t num_required_ = 0;
  const bool keeps_shapes_;
  std::map<std::string, Learned, std::less<>> learned_;
  // Of the record that is being checked.
  std::vector<std::string_view> required_found_;
  std::vector<std::pair<std::string, Learned>> news_;
};

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_RECORD_TYPES_H_
