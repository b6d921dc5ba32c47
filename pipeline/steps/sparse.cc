#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/batching.h"

namespace shardfeed {

Dataset Dataset::Sparse(std::vector<std::string> columns) const {
  if (!status_.ok()) return *this;
  if (!batched()) {
    return Dataset(absl::InvalidArgumentError("sparse: the elements here are rows: batch first"));
  }
  RowSpec with = spec();
  for (const std::string& name : columns) {
    const int column = FindColumn(spec(), name);
    if (column < 0 || !spec()[column].ragged) {
      return Dataset(absl::InvalidArgumentError(fmt::format(
          "sparse: there is no ragged column '{}'; there are: {}", name, RowSpecText(spec()))));
    }
    with.push_back({IndicesName(name), DType::kInt64, {2}, true});
    if (FindColumn(with, with.back().name) + 1 < static_cast<int>(with.size())) {
      return Dataset(absl::InvalidArgumentError(
          fmt::format("sparse: column '{}' already exists", with.back().name)));
    }
  }
  Step step = Like("sparse");
  step.text = fmt::format("sparse({})", fmt::join(columns, ", "));
  step.identity.Add("columns", columns);
  step.spec = std::make_shared<const RowSpec>(std::move(with));
  step.work = BatchFnWork{MakeSparseFn(std::move(columns))};
  return Then(std::move(step));
}

}  // namespace shardfeed
