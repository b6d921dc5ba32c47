#include "python/core/generator.h"

#include <memory>
#include <utility>

#include "python/core/batches.h"
#include "python/core/errors.h"
#include "python/core/gil.h"
#include "python/core/shared_object.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

nb::object Call(PyObject* function) {
  PyObject* result = CallOrStay(function);
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

}  // namespace

std::function<Generator()> MakePythonGenerator(const RowSpec& spec, nb::object make) {
  auto shared = std::make_shared<const RowSpec>(spec);
  return [shared, make = ShareObject(std::move(make))]() -> Generator {
    return [shared, make, next = std::shared_ptr<PyObject>()]() mutable -> absl::StatusOr<Batch> {
      Batch batch;
      absl::Status status;
      const bool called = WithGil([&] {
        DropObjects();
        try {
          if (next == nullptr) next = ShareObject(Call(make.get()));
          const nb::object columns = Call(next.get());
          if (columns.is_none()) return;
          batch = BatchFromPython(shared, nb::borrow<nb::sequence>(columns));
          batch.batched = false;
        } catch (nb::python_error& e) {
          status = KeepException(std::move(e), make.get());
        } catch (nb::builtin_exception& e) {  // raised by the checks of BatchFromPython
          status = absl::InvalidArgumentError(e.what());
        }
      });
      if (!called) return absl::CancelledError("the interpreter is ending");
      if (!status.ok()) return status;
      return batch;
    };
  };
}

}  // namespace shardfeed::python
