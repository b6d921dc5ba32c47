#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {
namespace {

// Delivers the elements rank, rank + world ... of those that the ranks have not divided yet. A
// state is the number of elements that all ranks together have delivered, so that any number of
// ranks may resume from it.
class ShardStage : public Stage {
 public:
  ShardStage(std::unique_ptr<Stage> input, uint64_t rank, uint64_t world)
      : queue_(std::move(input)), rank_(rank), world_(world) {}

  absl::Status Next(Batch* out) override {
    *out = Batch();
    before_.clear();
    while (true) {
      absl::Status status = queue_.Fill();
      if (!status.ok() || queue_.ended()) return status;
      if (Wait() < queue_.left()) break;
      // All of these belong to other ranks, which may not have delivered them yet.
      if (before_.empty()) SaveQueue(&before_);
      Pass(queue_.left());
    }
    before_.clear();
    Pass(Wait());
    if (queue_.head().batched) {
      Count();
      return queue_.Take(1, out);
    }
    // This rank's part of the batch.
    BatchBuilder builder(queue_.head().spec);
    builder.Append(queue_.head(), 0, 0);
    while (true) {
      builder.AppendMore(queue_.at(), 1);
      queue_.Advance(1);
      Count();
      if (Wait() >= queue_.left()) break;
      Pass(Wait());
    }
    *out = builder.Finish(false);
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override {
    words->push_back(delivered_);
    if (before_.empty()) {
      SaveQueue(words);
    } else {
      words->insert(words->end(), before_.begin(), before_.end());
    }
  }
  absl::Status Load(StateReader* words) override {
    before_.clear();
    delivered_ = words->Read();
    number_ = words->Read();
    if (number_ > delivered_) {
      return absl::InvalidArgumentError(
          "the state is damaged: shard: it skips elements that were not delivered");
    }
    return queue_.Load(words);
  }
  bool Advance(uint64_t elements, StateWords* state) const override {
    (*state)[0] += elements * world_;
    return true;
  }

 private:
  // How many elements precede this rank's next one.
  uint64_t Wait() const { return delivered_ + rank_ - number_; }
  void Pass(uint64_t elements) {
    queue_.Advance(elements);
    number_ += elements;
  }
  void Count() {
    ++number_;
    delivered_ += world_;
  }
  void SaveQueue(StateWords* words) const {
    words->push_back(number_);
    queue_.Save(words);
  }

  ElementQueue queue_;
  const uint64_t rank_;
  const uint64_t world_;
  uint64_t delivered_ = 0;  // elements by all ranks: those of this rank, times world_
  uint64_t number_ = 0;     // number of the queue's next element
  // The queue's state before it skipped elements that other ranks have not delivered yet.
  StateWords before_;
};

}  // namespace

Dataset Dataset::Shard(uint64_t rank, uint64_t world) const {
  if (!status_.ok()) return *this;
  if (world == 0 || rank >= world) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("shard: rank {} of {}: ranks are numbered from 0", rank, world)));
  }
  if (const ShardsWork* shards = step_->as<ShardsWork>()) {
    // The reader reads only the rank's records. A part of a rank's part is a part of these
    // positions.
    const uint64_t outer = shards->reader.world;
    if (outer > UINT32_MAX / world) {
      return Dataset(absl::InvalidArgumentError(
          fmt::format("shard: the ranks of two parts, {} times {}, must be at most {} together",
                      outer, world, UINT32_MAX)));
    }
    Step step = *step_;
    ReaderOptions& reader = std::get<ShardsWork>(step.work).reader;
    reader.rank += rank * outer;
    reader.world = outer * world;
    return Dataset(std::make_shared<const Step>(std::move(step)));
  }
  Step step = Like("shard");
  step.text = fmt::format("shard({}, {})", rank, world);
  step.rank = rank;
  step.world = world;
  step.sharing = Sharing::kTakesPart;
  step.length = [rank, world](const std::vector<Length>& inputs) {
    if (!inputs[0].known()) return inputs[0];
    return Length::Of((inputs[0].elements + world - 1 - rank) / world);
  };
  step.work = OnInput([rank, world](std::unique_ptr<Stage> input, uint64_t /*epoch*/) {
    return std::make_unique<ShardStage>(std::move(input), rank, world);
  });
  return Then(std::move(step));
}

Dataset Dataset::ShardSources(uint64_t rank, uint64_t world) const {
  if (!status_.ok()) return *this;
  const ShardsWork* const shards = step_->as<ShardsWork>();
  if (step_->sharing == Sharing::kTakesPart || (shards != nullptr && shards->reader.world > 1)) {
    return Dataset(absl::InvalidArgumentError(
        "shard: the chain already takes a rank's part; leave out its shard"));
  }
  if (step_->inputs.empty() || step_->counts) return Shard(rank, world);
  Step step = *step_;
  for (StepPtr& input : step.inputs) {
    Dataset part = Dataset(input).ShardSources(rank, world);
    if (!part.status_.ok()) return part;
    input = part.step_;
  }
  return Then(std::move(step));
}

}  // namespace shardfeed
