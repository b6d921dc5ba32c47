// The types of the features of one dataset: declared, or learned from the records that are written.
// All records must agree, since a record keeps neither shapes nor types narrower than its lists.
// Rows of Python, columns, tables of Arrow and finished records are all checked here.

#ifndef SHARDFEED_PYTHON_CORE_RECORD_TYPES_H_
#define SHARDFEED_PYTHON_CORE_RECORD_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "decode/features/example_columns.h"
#include "nanobind/nanobind.h"
#include "python/core/example_values.h"
#include "python/core/number_rule.h"
#include "shard/schema/schema.h"
#include "shardfeed/schema.h"
#include "tfrecord/example_reader.h"

namespace shardfeed::python {

// A column whose rows become records, and the shape of a row: -1 in front is any length.
struct TypedColumn {
  ExampleColumn column;
  std::string dtype;
  std::vector<int64_t> shape;
  bool checked = false;  // whether each row was given to RecordTypes::Check
};

// What is wrong with what was given. `text` is empty if nothing is.
struct Wrong {
  std::string text;
  bool of_type = false;  // a TypeError; otherwise a ValueError

  explicit operator bool() const { return !text.empty(); }
};
// Raises it. With the GIL.
[[noreturn]] void Raise(const Wrong& wrong);

class RecordTypes {
 public:
  // `features`: (name, dtype, shape, ragged, default or None, raw) of each, as Feature.core() of
  // features.py. If there are none, types are learned; with `keeps_shapes` also shapes, which
  // Types() then has. With the GIL.
  RecordTypes(nanobind::sequence features, bool keeps_shapes);

  // A record or a batch is checked between Begin and Learn, or Undo if it is not written. `record`:
  // the number of the first one.
  void Begin(uint64_t record);
  void Learn();
  void Undo();

  // The value of a feature in a record: converts numbers to what is stored. Raises TypeError, or
  // ValueError for what is out of range; the message names the feature. With the GIL.
  void Check(std::string_view name, Values* values);
  // The same for a row of a column, which CheckColumn is given later.
  void CheckRow(std::string_view name, uint64_t row, Values* values);
  // Raises ValueError if a feature without a value is not declared. With the GIL.
  void CheckName(std::string_view name) const;
  // Whether features that are declared and required lack.
  Wrong CheckComplete() const;

  // All rows of a column. Converts integers to declared floats.
  Wrong CheckColumn(TypedColumn* column, uint64_t rows);
  // A record that was made elsewhere: that each feature is of the kind, and has the number of
  // values, that it has in others. A record that is no Example is an error only if features are
  // declared.
  Wrong CheckRecord(std::string_view record);

  // What was declared or learned.
  FeatureTypes Types() const;
  // A line for each feature of which values lost more than is usual.
  std::vector<std::string> Losses() const;

 private:
  struct Declared {
    char kind = 0;
    DType dtype = DType::kBytes;
    std::vector<int64_t> shape;  // -1 in front: any length
    bool required = false;
    size_t raw_bytes = 0;  // bytes of a row or an element; 0: not raw
  };
  struct Learned {
    char kind = 0;
    std::string dtype;
    std::vector<int64_t> shape;
    bool any_length = false;  // whether records differ in shape, which is then empty
    uint64_t record = 0;      // the first one
  };
  struct Given {
    char kind = 0;
    std::string_view dtype;
    const std::vector<int64_t>& shape;
  };
  struct Loss {
    uint64_t values = 0;
    uint64_t record = 0;  // number of the first record with a loss
    double from = 0;
    double to = 0;
  };

  // The rule for the numbers of a feature of which `kind` is given.
  NumberRule RuleOf(std::string_view name, char kind) const;
  // Kind, type and shape, of one row or of all that have them in common.
  Wrong WrongType(std::string_view name, const Given& given);
  Wrong WrongDeclared(const Declared& declared, const Given& given) const;
  Wrong WrongLearned(std::string_view name, const Given& given);
  static std::string WrongShape(const Declared& declared, const std::vector<int64_t>& shape);
  void CheckValues(std::string_view name, Values* values);
  Wrong WrongRows(std::string_view name, TypedColumn* column, uint64_t rows);
  Wrong WrongNumbers(std::string_view name, ExampleColumn* column, uint64_t rows);
  void Lose(std::string_view name, uint64_t record, double from, double to);
  Learned& Change(std::string_view name);
  const Declared* Find(std::string_view name) const;

  std::map<std::string, Declared, std::less<>> declared_;
  size_t num_required_ = 0;
  const bool keeps_shapes_;
  std::map<std::string, Learned, std::less<>> learned_;
  // The types of columns in which no row had a value, and those of the rows that are being checked.
  FeatureTypes empty_;
  FeatureTypes new_empty_;
  std::map<std::string, Loss, std::less<>> losses_;
  // State of the record or the batch that is being checked.
  uint64_t record_ = 0;
  std::vector<std::string_view> required_found_;
  std::vector<std::pair<std::string, std::optional<Learned>>> undo_;
  std::vector<std::pair<std::string, Loss>> new_losses_;
  std::vector<FeatureSummary> summaries_;
  std::unordered_set<std::string_view> names_;
};

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_RECORD_TYPES_H_
