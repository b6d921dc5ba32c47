#include "pipeline/steps/hidden.h"

#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {

std::string HiddenName(const RowSpec& spec, std::string_view step) {
  std::string name = fmt::format("({})", step);
  while (FindColumn(spec, name) >= 0) name = fmt::format("({})", name);
  return name;
}

void DropLastColumn(std::shared_ptr<const RowSpec> spec, Batch* batch) {
  if (batch->columns.empty()) return;
  batch->columns.pop_back();
  batch->spec = std::move(spec);
}

Dataset Dataset::WithHidden(std::string step, DType dtype, MapFn fn, std::string version) const {
  if (!status_.ok()) return *this;
  Step made = Like(step);
  made.text.clear();
  made.identity.AddIf(!version.empty(), "version", version);
  RowSpec output = {{HiddenName(spec(), step), dtype, {}, false}};
  return ThenOnRows(std::move(made),
                    MakeMapStep(std::move(output), {}, std::move(fn), 0, std::move(step)));
}

}  // namespace shardfeed
