// What the rows of a mixture that were delivered depend on, so that a state is resumed only by a
// mixture that would have delivered the same.

#ifndef SHARDFEED_READER_PLAN_MIX_PAST_H_
#define SHARDFEED_READER_PLAN_MIX_PAST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "reader/order/mix_order.h"
#include "reader/plan/pack_plan.h"

namespace shardfeed {

// Immutable and thread-safe.
class MixPast {
 public:
  // Without `plan`, a place is a position of the order; otherwise it is one of the plan.
  MixPast(std::shared_ptr<const MixOrder> order, std::shared_ptr<const PackPlan> plan)
      : order_(std::move(order)), plan_(std::move(plan)) {}

  bool is_planned() const { return plan_ != nullptr; }
  // How many records of an epoch the rows before a place depend on: with a plan, those of whole
  // windows, any of which a row may have.
  uint64_t RecordsBefore(uint64_t place) const;
  // Whether the epochs of this mixture have the place.
  bool Has(uint64_t place) const;
  // A text and a number of the data, on which the rows before a place depend.
  std::string Describe(uint64_t epoch, uint64_t place) const;
  uint64_t Data(uint64_t epoch, uint64_t place) const;
  // Both as one number.
  uint64_t Key(uint64_t epoch, uint64_t place) const;

  // FailedPrecondition: the state was saved by a mixture whose rows before the place differ.
  absl::Status Differs(uint64_t epoch, uint64_t place) const;

 private:
  // With a plan: how many windows the rows before a place may have records of.
  static uint64_t WindowsBefore(uint64_t place);

  const std::shared_ptr<const MixOrder> order_;
  const std::shared_ptr<const PackPlan> plan_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_PLAN_MIX_PAST_H_
