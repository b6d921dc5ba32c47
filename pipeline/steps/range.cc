#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {

Dataset Dataset::Range(int64_t start, int64_t stop, int64_t step, std::string name) {
  if (step == 0) return Dataset(absl::InvalidArgumentError("range: the step must not be 0"));
  Step range;
  range.name = "range";
  range.text = fmt::format("range({}, {}, {})", start, stop, step);
  range.identity.Add("start", start).Add("stop", stop).Add("step", step);
  range.spec =
      std::make_shared<const RowSpec>(RowSpec{{std::move(name), DType::kInt64, {}, false}});
  range.length = [elements = RangeSize(start, stop, step)](const std::vector<Length>&) {
    return Length::Of(elements);
  };
  range.work = SourceWork{[start, stop, step, spec = range.spec](uint64_t epoch, uint32_t source) {
                            return MakeRangeStage(start, stop, step, spec, epoch, source);
                          },
                          nullptr};
  return Dataset(std::make_shared<const Step>(std::move(range)));
}

}  // namespace shardfeed
