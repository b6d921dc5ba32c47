#include "reader/run/skip_count.h"

#include "base/count_text.h"
#include "fmt/format.h"
#include "io/remedy.h"
#include "reader/plan/unit.h"

namespace shardfeed {

SkipCount::SkipCount(const ReaderOptions& options, uint64_t epoch_records)
    : may_skip_(options.skip_damaged),
      max_skipped_(options.max_skipped.Of(epoch_records)),
      epoch_records_(epoch_records),
      on_skip_(options.on_skip) {}

absl::Status SkipCount::Add(uint64_t epoch, const DamagedRecord& damaged) {
  if (epoch != epoch_) {
    epoch_ = epoch;
    in_epoch_.clear();
  }
  if (!may_skip_) return absl::DataLossError(damaged.Message());
  if (!in_epoch_.insert(damaged.record).second) return absl::OkStatus();
  ++count_;
  if (in_epoch_.size() == 1) first_ = damaged.Message();
  if (in_epoch_.size() > max_skipped_) {
    return WithRemedy(absl::DataLossError(fmt::format(
                          "{} of {} {} damaged, which is more than allowed; the first is "
                          "{}; 'shardfeed repair' saves the intact ones",
                          in_epoch_.size(), CountText(epoch_records_, "record"),
                          in_epoch_.size() == 1 ? "is" : "are", first_)),
                      {"max_skipped", "N", "skip more"});
  }
  if (on_skip_) on_skip_(damaged);
  return absl::OkStatus();
}

}  // namespace shardfeed
