#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "reader/order/order.h"

namespace shardfeed {
namespace {

class InterleaveStage : public Stage {
 public:
  InterleaveStage(std::vector<StageFactory> inputs, uint64_t cycle, uint64_t block, uint64_t epoch)
      : inputs_(std::move(inputs)),
        block_(block),
        epoch_(epoch),
        slots_(std::min<uint64_t>(cycle, std::max<size_t>(inputs_.size(), 1))) {}

  absl::Status Next(Batch* out) override {
    *out = Batch();
    while (true) {
      Slot& slot = slots_[at_];
      if (!slot.queue) {
        if (next_ < inputs_.size()) {
          absl::Status status = Open(slot, next_++);
          if (!status.ok()) return status;
        } else if (std::none_of(slots_.begin(), slots_.end(),
                                [](const Slot& s) { return s.queue.has_value(); })) {
          return absl::OkStatus();
        } else {
          EndTurn();
        }
        continue;
      }
      absl::Status status = slot.queue->Take(block_ - taken_, out);
      if (!status.ok()) return status;
      if (out->empty()) {
        slot.queue.reset();
        EndTurn();
        continue;
      }
      taken_ += out->num_elements();
      if (taken_ == block_) EndTurn();
      return absl::OkStatus();
    }
  }
  void Save(StateWords* words) const override {
    words->push_back(next_);
    words->push_back(at_);
    words->push_back(taken_);
    for (const Slot& slot : slots_) {
      words->push_back(slot.queue ? slot.number + 1 : 0);
      if (slot.queue) slot.queue->Save(words);
    }
  }
  absl::Status Load(StateReader* words) override {
    next_ = words->ReadUpTo(inputs_.size());
    at_ = words->ReadUpTo(slots_.size() - 1);
    taken_ = words->ReadUpTo(block_ - 1);
    for (Slot& slot : slots_) {
      slot.queue.reset();
      const uint64_t number = words->ReadUpTo(inputs_.size());
      if (number == 0) continue;
      absl::Status status = Open(slot, number - 1);
      if (status.ok()) status = slot.queue->Load(words);
      if (!status.ok()) return status;
    }
    return words->status();
  }

 private:
  struct Slot {
    std::optional<ElementQueue> queue;
    uint64_t number = 0;  // number of the input
  };

  absl::Status Open(Slot& slot, uint64_t number) {
    absl::StatusOr<std::unique_ptr<Stage>> stage = inputs_[number](epoch_);
    if (!stage.ok()) return stage.status();
    slot.queue.emplace(*std::move(stage));
    slot.number = number;
    return absl::OkStatus();
  }
  void EndTurn() {
    at_ = at_ + 1 == slots_.size() ? 0 : at_ + 1;
    taken_ = 0;
  }

  const std::vector<StageFactory> inputs_;
  const uint64_t block_;
  const uint64_t epoch_;
  std::vector<Slot> slots_;
  uint64_t next_ = 0;   // number of the input to open next
  size_t at_ = 0;       // slot whose turn it is
  uint64_t taken_ = 0;  // elements of this turn
};

}  // namespace

Dataset Dataset::Interleave(uint64_t cycle, uint64_t block) const {
  if (!status_.ok()) return *this;
  if (step_->as<ShardsWork>() == nullptr) {
    return Dataset(
        absl::InvalidArgumentError("interleave: only shards can be interleaved by themselves; pass "
                                   "other datasets to Interleave as a list"));
  }
  Step step = *step_;
  OrderSpec& order = std::get<ShardsWork>(step.work).reader.order;
  if (order.mixture != nullptr) {
    return Dataset(
        absl::InvalidArgumentError("interleave: the sources of a mixture are read in order or "
                                   "shuffled; their shards cannot be interleaved"));
  }
  order = OrderSpec();
  order.kind = OrderSpec::Kind::kInterleave;
  order.cycle = cycle;
  order.block = block;
  step.text += fmt::format(".interleave({}, {})", cycle, block);
  return Dataset(std::make_shared<const Step>(std::move(step)));
}

Dataset Dataset::Interleave(std::vector<Dataset> datasets, uint64_t cycle, uint64_t block) {
  if (absl::Status status = CheckAlike("interleave", datasets); !status.ok()) {
    return Dataset(std::move(status));
  }
  if (cycle == 0 || block == 0) {
    return Dataset(absl::InvalidArgumentError("interleave: cycle and block must be at least 1"));
  }
  Step step = datasets[0].Like("interleave");
  step.text = fmt::format("interleave(cycle={}, block={})", cycle, block);
  step.identity.Add("cycle", cycle).Add("block", block);
  step.inputs = StepsOf(datasets);
  step.length = SumOfLengths;
  step.sharing = Sharing::kUneven;  // the inputs' parts may have different lengths
  step.work = StageWork{
      [cycle, block](const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<Stage>> {
        return std::make_unique<InterleaveStage>(inputs.factories, cycle, block, inputs.epoch);
      }};
  return datasets[0].Then(std::move(step));
}

}  // namespace shardfeed
