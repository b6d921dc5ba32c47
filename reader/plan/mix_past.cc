#include "reader/plan/mix_past.h"

#include <algorithm>

#include "fmt/format.h"
#include "reader/order/permutation.h"

namespace shardfeed {

uint64_t MixPast::WindowsBefore(uint64_t place) {
  return PackPlan::WindowOf(place) + (PackPlan::PartOf(place) > 0 ? 1 : 0);
}

uint64_t MixPast::RecordsBefore(uint64_t place) const {
  if (plan_ == nullptr) return place;
  const uint64_t windows = WindowsBefore(place);
  if (windows >= plan_->num_windows()) return order_->size();
  return windows * plan_->window_records();
}

bool MixPast::Has(uint64_t place) const {
  if (plan_ == nullptr) return place <= order_->size();
  const uint64_t window = PackPlan::WindowOf(place);
  return window < plan_->num_windows() ||
         (window == plan_->num_windows() && PackPlan::PartOf(place) == 0);
}

std::string MixPast::Describe(uint64_t epoch, uint64_t place) const {
  const uint64_t records = RecordsBefore(place);
  std::string text = order_->DescribeBefore(epoch, records);
  // The end of the epoch cuts a window.
  if (plan_ != nullptr) {
    text += fmt::format(" in windows of {}, {} records", plan_->window_records(), records);
  }
  return text;
}

uint64_t MixPast::Data(uint64_t epoch, uint64_t place) const {
  return order_->DataBefore(epoch, RecordsBefore(place));
}

uint64_t MixPast::Key(uint64_t epoch, uint64_t place) const {
  return DeriveKey(Data(epoch, place), Describe(epoch, place));
}

absl::Status MixPast::Differs(uint64_t epoch, uint64_t place) const {
  if (plan_ == nullptr) {
    return absl::FailedPreconditionError(fmt::format(
        "the state belongs to another mixture: sources, their records, their weights or the seed "
        "of their draws differ before position {} of epoch {}; weights may change only after what "
        "was delivered, and sources that had none yet may be added at the end",
        place, epoch));
  }
  // An epoch that ends within the windows cuts the last one, so that its rows are others.
  return absl::FailedPreconditionError(fmt::format(
      "the state belongs to another mixture: sources, their records, their weights, the seed of "
      "their draws or the length of its epochs differ before position {} of epoch {}; weights and "
      "the length may change only after what was delivered, in whole windows of {} records, and "
      "sources that had none yet may be added at the end",
      WindowsBefore(place) * plan_->window_records(), epoch, plan_->window_records()));
}

}  // namespace shardfeed
