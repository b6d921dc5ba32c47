#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "reader/order.h"

namespace shardfeed {

Dataset Dataset::InterleaveShards(uint64_t cycle, uint64_t block) const {
  if (!status_.ok()) return *this;
  if (step_->as<ShardsWork>() == nullptr) {
    return Dataset(
        absl::InvalidArgumentError("interleave: only shards have an order of their own; use "
                                   "Interleave for other datasets"));
  }
  Step step = *step_;
  OrderSpec& order = std::get<ShardsWork>(step.work).reader.order;
  order = OrderSpec();
  order.kind = OrderSpec::Kind::kInterleave;
  order.cycle_length = cycle;
  order.block_length = block;
  step.text += fmt::format(".interleave({}, {})", cycle, block);
  return Dataset(std::make_shared<const Step>(std::move(step)));
}

}  // namespace shardfeed
