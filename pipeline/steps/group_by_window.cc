#include <algorithm>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/pending_rows.h"
#include "pipeline/steps/hidden.h"
#include "pipeline/steps/keys.h"

namespace shardfeed {
namespace {

class GroupStage : public Stage {
 public:
  // `input_spec` is the spec of the input rows, `spec` that of the output. If they differ, the last
  // column of the input is the key, which is dropped.
  GroupStage(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> input_spec,
             std::shared_ptr<const RowSpec> spec, size_t column, uint64_t size, bool drop_remainder,
             std::shared_ptr<RunContext> context)
      : rows_(std::move(input)),
        input_spec_(std::move(input_spec)),
        spec_(std::move(spec)),
        keys_((*input_spec_)[column], column),
        size_(size),
        drop_remainder_(drop_remainder),
        context_(std::move(context)) {}

  absl::Status Next(Batch* out) override {
    *out = Batch();
    while (!ended_) {
      PendingRow row;
      absl::Status status = rows_.Next(&row);
      if (!status.ok()) return status;
      if (row.batch.empty()) {
        ended_ = true;
        if (!drop_remainder_) OrderLeft();
        break;
      }
      if (!row.batch.damaged.empty()) {  // the row has no key
        ++context_->dropped_damaged;
        rows_.Done(row.number);
        continue;
      }
      const std::string_view key = keys_.Read(row.batch, 0);
      auto at = groups_.find(key);
      if (at == groups_.end()) at = groups_.try_emplace(std::string(key)).first;
      at->second.push_back(std::move(row));
      if (at->second.size() < size_) continue;
      const Group group = std::move(at->second);
      groups_.erase(at);
      Emit(group, out);
      return absl::OkStatus();
    }
    if (left_.empty()) return absl::OkStatus();
    Emit(left_.back(), out);
    left_.pop_back();
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override { rows_.Save(words); }
  absl::Status Load(StateReader* words) override {
    groups_.clear();
    left_.clear();
    ended_ = false;
    return rows_.Load(words);
  }

 private:
  using Group = std::vector<PendingRow>;

  // Collects the remaining groups, with the one whose first row came first at the end.
  void OrderLeft() {
    for (auto& [key, group] : groups_) left_.push_back(std::move(group));
    groups_.clear();
    std::sort(left_.begin(), left_.end(),
              [](const Group& a, const Group& b) { return a.front().number > b.front().number; });
  }
  void Emit(const Group& group, Batch* out) {
    BatchBuilder builder(input_spec_);
    for (const PendingRow& row : group) {
      builder.Append(row.batch, 0, 1);
      rows_.Done(row.number);
    }
    *out = builder.Finish(/*batched=*/true);
    rows_.TellHeld(group, out);
    if (input_spec_->size() > spec_->size()) DropLastColumn(spec_, out);
  }

  PendingRows rows_;
  const std::shared_ptr<const RowSpec> input_spec_;
  const std::shared_ptr<const RowSpec> spec_;
  KeyReader keys_;
  const uint64_t size_;
  const bool drop_remainder_;
  const std::shared_ptr<RunContext> context_;
  std::unordered_map<std::string, Group, KeyHash, std::equal_to<>> groups_;
  bool ended_ = false;
  std::vector<Group> left_;
};

}  // namespace

Dataset Dataset::GroupBy(size_t column, std::shared_ptr<const RowSpec> spec, const std::string& key,
                         uint64_t size, bool drop_remainder) const {
  if (!status_.ok()) return *this;
  if (size == 0 || size > kMaxRows) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "group_by_window: the window's size must lie between 1 and {}, got {}", kMaxRows, size)));
  }
  Step step = Like("group_by_window");
  step.text = fmt::format("group_by_window({}{}{}{})", key, key.empty() ? "" : ", ", size,
                          drop_remainder ? ", drop_remainder" : "");
  step.identity.Add("column", key).Add("size", size).Add("drop_remainder", drop_remainder);
  step.batched = true;
  step.length = [](const std::vector<Length>&) {
    return Length::Unknown("group_by_window makes batches by the rows' keys");
  };
  step.sharing = Sharing::kUneven;
  step.tells_held = true;
  step.work = StageWork{
      [=, rows = step_->spec](const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<Stage>> {
        absl::StatusOr<std::unique_ptr<Stage>> input = inputs.factories[0](inputs.epoch);
        if (!input.ok()) return input.status();
        return std::make_unique<GroupStage>(*std::move(input), rows, spec, column, size,
                                            drop_remainder, inputs.context);
      }};
  step.spec = std::move(spec);
  return Then(std::move(step));
}

Dataset Dataset::GroupByWindow(std::string column, uint64_t window_size,
                               bool drop_remainder) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = KeyColumn("group_by_window", spec(), column, batched());
  if (!number.ok()) return Dataset(number.status());
  return GroupBy(*number, step_->spec, column, window_size, drop_remainder);
}

Dataset Dataset::GroupByWindow(KeyFn key, uint64_t window_size, bool drop_remainder,
                               std::string version) const {
  if (!status_.ok()) return *this;
  MapFn keys = [key = std::move(key)](RowContext& row) -> absl::Status {
    absl::StatusOr<std::string> made = key(row);
    if (!made.ok()) return made.status();
    row.Out<std::string_view>(0)[0] = row.Keep(*std::move(made));
    return absl::OkStatus();
  };
  return WithHidden("group_by_window", DType::kBytes, std::move(keys), std::move(version))
      .GroupBy(spec().size(), step_->spec, "", window_size, drop_remainder);
}

}  // namespace shardfeed
