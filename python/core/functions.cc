#include "python/core/functions.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nanobind/stl/vector.h"
#include "pipeline/data/batch_builder.h"
#include "python/core/batches.h"
#include "python/core/errors.h"
#include "python/core/gil.h"
#include "python/core/shared_object.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

// Calls `work`, which calls `function`, with the GIL. An exception becomes an error that Raise
// turns back into the exception.
template <typename Work>
absl::Status WithPython(const std::shared_ptr<PyObject>& function, const Work& work) {
  nb::gil_scoped_acquire gil;
  const FunctionCall call;
  DropObjects();
  try {
    return work();
  } catch (nb::python_error& e) {
    return KeepException(std::move(e), function.get());
  } catch (nb::builtin_exception& e) {  // raised by the checks of this file
    return absl::InvalidArgumentError(e.what());
  }
}

// A row of a batch that has the In of RowContext.
struct BatchRow {
  template <typename T>
  absl::Span<const T> In(size_t column) const {
    return batch.Row<T>(column, row);
  }

  const Batch& batch;
  const size_t row;
};

template <typename T, typename Row>
std::pair<const char*, size_t> Values(const Row& row, size_t column) {
  const absl::Span<const T> values = row.template In<T>(column);
  return {reinterpret_cast<const char*>(values.data()), values.size()};
}

// Returns the values of a column of a row as bytes, and their number.
template <typename Row>
std::pair<const char*, size_t> ValuesOf(const Row& row, size_t column, DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return Values<uint8_t>(row, column);
    case DType::kInt8:
      return Values<int8_t>(row, column);
    case DType::kUInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return Values<uint16_t>(row, column);
    case DType::kInt16:
      return Values<int16_t>(row, column);
    case DType::kInt32:
      return Values<int32_t>(row, column);
    case DType::kInt64:
      return Values<int64_t>(row, column);
    case DType::kFloat32:
      return Values<float>(row, column);
    case DType::kFloat64:
      return Values<double>(row, column);
    case DType::kBytes:
      return Values<std::string_view>(row, column);
  }
  return {};
}

// Returns the memory of an output column. `row` is a RowContext or a RowEmitter.
template <typename Row>
char* Output(Row& row, size_t output, DType dtype, bool ragged, size_t elements) {
  const auto at = [&]<typename T>(T) {
    const absl::Span<T> values =
        ragged ? row.template Extend<T>(output, elements) : row.template Out<T>(output);
    return reinterpret_cast<char*>(values.data());
  };
  switch (dtype) {
    case DType::kUInt8:
      return at(uint8_t{});
    case DType::kInt8:
      return at(int8_t{});
    case DType::kUInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return at(uint16_t{});
    case DType::kInt16:
      return at(int16_t{});
    case DType::kInt32:
      return at(int32_t{});
    case DType::kInt64:
      return at(int64_t{});
    case DType::kFloat32:
      return at(float{});
    case DType::kFloat64:
      return at(double{});
    case DType::kBytes:
      return at(std::string_view{});
  }
  return nullptr;
}

// Returns copies, since the row may be in memory that is reused.
template <typename Row>
nb::dict RowToPython(const Row& row, const RowSpec& spec) {
  nb::dict columns;
  for (size_t c = 0; c < spec.size(); ++c) {
    const auto [data, values] = ValuesOf(row, c, spec[c].dtype);
    columns[nb::str(spec[c].name.data(), spec[c].name.size())] = ValueToPython(
        spec[c], data, static_cast<int64_t>(values / spec[c].num_values()), nb::handle(), true);
  }
  return columns;
}

template <typename Row>
void SetOutput(Row& row, size_t output, const ColumnSpec& spec, nb::handle value) {
  const auto check = [&](size_t size, size_t each) {
    if (spec.ragged ? size % each == 0 : size == each) return size / each;
    throw nb::value_error(
        fmt::format("column '{}': the size of the value differs from the declared one", spec.name)
            .c_str());
  };
  if (spec.dtype == DType::kBytes) {
    const nb::sequence strings = nb::borrow<nb::sequence>(value);
    const size_t n = nb::len(strings);
    auto* to = reinterpret_cast<std::string_view*>(
        Output(row, output, spec.dtype, spec.ragged, check(n, spec.num_values())));
    for (size_t i = 0; i < n; ++i) {
      const nb::bytes bytes = nb::cast<nb::bytes>(strings[i]);
      to[i] = row.Keep(std::string(bytes.c_str(), bytes.size()));
    }
    return;
  }
  const ContiguousBytes bytes(value);
  char* to = Output(row, output, spec.dtype, spec.ragged, check(bytes.size(), spec.bytes()));
  if (bytes.size() > 0) std::memcpy(to, bytes.bytes().data(), bytes.size());
}

// Makes a function that calls `fn` with a row. `convert`, which is called with the GIL, converts
// the result.
template <typename T, typename Convert>
auto MakeRowFunction(const RowSpec& input, nb::object fn, Convert convert) {
  return [input, convert, fn = ShareObject(std::move(fn))](RowContext& row) -> absl::StatusOr<T> {
    T value{};
    absl::Status status = WithPython(fn, [&] {
      value = convert(nb::borrow(fn.get())(RowToPython(row, input)));
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return value;
  };
}

}  // namespace

MapFn MakePythonMap(const RowSpec& input, const RowSpec& outputs, nb::object fn, bool by_place) {
  return [input, outputs, by_place, fn = ShareObject(std::move(fn))](RowContext& row) {
    return WithPython(fn, [&] {
      const nb::object function = nb::borrow(fn.get());
      nb::object result;
      if (by_place) {
        const uint64_t first = row.random()();
        const uint64_t second = row.random()();
        result = function(RowToPython(row, input), nb::make_tuple(row.position(), first, second));
      } else {
        result = function(RowToPython(row, input));
      }
      const nb::sequence values = nb::borrow<nb::sequence>(result);
      for (size_t i = 0; i < outputs.size(); ++i) SetOutput(row, i, outputs[i], values[i]);
      return absl::OkStatus();
    });
  };
}

FlatMapFn MakePythonFlatMap(const RowSpec& input, const RowSpec& outputs, nb::object fn) {
  return [input, outputs, fn = ShareObject(std::move(fn))](const Batch& in, size_t row,
                                                           RowEmitter& out) {
    return WithPython(fn, [&] {
      const nb::sequence rows =
          nb::borrow<nb::sequence>(nb::borrow(fn.get())(RowToPython(BatchRow{in, row}, input)));
      for (nb::handle one : rows) {
        const nb::sequence values = nb::borrow<nb::sequence>(one);
        out.Begin();
        for (size_t i = 0; i < outputs.size(); ++i) SetOutput(out, i, outputs[i], values[i]);
      }
      return absl::OkStatus();
    });
  };
}

std::function<FlatMapFn()> MakePythonScan(const RowSpec& input, const RowSpec& outputs,
                                          nb::object make) {
  return [input, outputs, make = ShareObject(std::move(make))]() -> FlatMapFn {
    auto made = std::make_shared<std::shared_ptr<PyObject>>();
    return [input, outputs, make, made](const Batch& in, size_t row, RowEmitter& out) {
      return WithPython(make, [&] {
        if (*made == nullptr) *made = ShareObject(nb::borrow(make.get())());
        const nb::sequence values = nb::borrow<nb::sequence>(
            nb::borrow(made->get())(RowToPython(BatchRow{in, row}, input)));
        out.Begin();
        for (size_t i = 0; i < outputs.size(); ++i) SetOutput(out, i, outputs[i], values[i]);
        return absl::OkStatus();
      });
    };
  };
}

FilterFn MakePythonFilter(const RowSpec& input, nb::object fn) {
  auto keep = MakeRowFunction<bool>(input, std::move(fn), [](const nb::object& result) {
    return nb::cast<bool>(nb::bool_(result));
  });
  return [keep = std::move(keep)](RowContext& row) {
    const absl::StatusOr<bool> kept = keep(row);
    if (!kept.ok()) throw std::runtime_error(std::string(kept.status().message()));
    return *kept;
  };
}

NumberFn MakePythonNumber(const RowSpec& input, nb::object fn) {
  return MakeRowFunction<int64_t>(
      input, std::move(fn), [](const nb::object& result) { return nb::cast<int64_t>(result); });
}

KeyFn MakePythonKey(const RowSpec& input, nb::object fn) {
  return MakeRowFunction<std::string>(input, std::move(fn), [](const nb::object& result) {
    const auto bytes = nb::cast<nb::bytes>(result);
    return std::string(bytes.c_str(), bytes.size());
  });
}

BatchFn MakePythonBatchMap(const RowSpec& outputs, nb::object fn, bool writable) {
  auto spec = std::make_shared<const RowSpec>(outputs);
  return [spec, writable, fn = ShareObject(std::move(fn))](Batch& batch) {
    return WithPython(fn, [&] {
      const nb::tuple result = nb::borrow<nb::tuple>(
          nb::borrow(fn.get())(BatchToPython(batch, /*bare=*/false, writable)));
      std::shared_ptr<RowSpec> own;
      for (size_t i = 0; i < spec->size(); ++i) {
        const nb::object shape = result[1][i];
        if (shape.is_none()) continue;
        if (own == nullptr) own = std::make_shared<RowSpec>(*spec);
        (*own)[i].shape = nb::cast<std::vector<int64_t>>(shape);
      }
      Batch out = BatchFromPython(own != nullptr ? own : spec, result[0]);
      if (out.rows == batch.rows) {
        out.origins = std::move(batch.origins);
        out.reordered = std::move(batch.reordered);
        out.padded = batch.padded;
        out.damaged = std::move(batch.damaged);
      }
      batch = std::move(out);
      return absl::OkStatus();
    });
  };
}

BatchFn MakePythonBatchFilter(nb::object fn) {
  return [fn = ShareObject(std::move(fn))](Batch& batch) {
    return WithPython(fn, [&] {
      const nb::object mask = nb::borrow(fn.get())(BatchToPython(batch, /*bare=*/false, false));
      const ContiguousBytes keep(mask);
      if (keep.size() != batch.rows) {
        return absl::InvalidArgumentError(
            fmt::format("filter: expected a mask of {1} rows, got {0}", keep.size(), batch.rows));
      }
      BatchBuilder builder(batch.spec);
      builder.Append(batch, 0, 0);
      for (size_t row = 0; row < batch.rows; ++row) {
        if (keep.bytes()[row] != 0) builder.AppendMore(row, 1);
      }
      if (builder.rows() == 0) {
        batch.rows = 0;
      } else {
        batch = builder.Finish(/*batched=*/true);
      }
      return absl::OkStatus();
    });
  };
}

}  // namespace shardfeed::python
