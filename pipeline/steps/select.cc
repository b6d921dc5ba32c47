#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {

Dataset Dataset::Select(std::vector<std::string> names) const {
  if (!status_.ok()) return *this;
  RowSpec kept;
  std::vector<size_t> numbers;
  for (const std::string& name : names) {
    const absl::StatusOr<size_t> column = NamedColumn("select", spec(), name);
    if (!column.ok()) return Dataset(column.status());
    numbers.push_back(*column);
    kept.push_back(spec()[*column]);
  }
  Step step = Like("select");
  step.text = fmt::format("select({})", NamesText(kept));
  step.spec = std::make_shared<const RowSpec>(std::move(kept));
  BatchFn select = [numbers, spec = step.spec](shardfeed::Batch& batch) {
    std::vector<Column> columns;
    auto actual = std::make_shared<RowSpec>();  // padded columns have a shape of their own
    for (size_t n : numbers) {
      columns.push_back(batch.columns[n]);
      actual->push_back((*batch.spec)[n]);
    }
    batch.columns = std::move(columns);
    batch.spec = *actual == *spec ? spec : std::shared_ptr<const RowSpec>(std::move(actual));
    return absl::OkStatus();
  };
  step.work = BatchFnWork{std::move(select)};
  return Then(std::move(step));
}

}  // namespace shardfeed
