#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {

Dataset Dataset::Prefetch(size_t count) const {
  if (!status_.ok()) return *this;
  Step step = Like("prefetch");
  step.text = fmt::format("prefetch({})", count);
  step.work = PrefetchWork{std::max<size_t>(count, 1)};
  return Then(std::move(step));
}

}  // namespace shardfeed
