#include "pipeline/combining.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "pipeline/random.h"

namespace shardfeed {
namespace {

// Elements that are gathered from inputs in turn before they are handed on.
constexpr size_t kGathered = 256;

class ConcatenateStage : public Stage {
 public:
  ConcatenateStage(std::vector<StageFactory> inputs, uint64_t epoch)
      : inputs_(std::move(inputs)), epoch_(epoch) {}

  absl::Status Open(size_t number) {
    number_ = number;
    input_ = nullptr;
    if (number == inputs_.size()) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<Stage>> input = inputs_[number](epoch_);
    if (!input.ok()) return input.status();
    input_ = *std::move(input);
    return absl::OkStatus();
  }

  absl::Status Next(Batch* out) override {
    *out = Batch();
    while (input_ != nullptr) {
      absl::Status status = input_->Next(out);
      if (!status.ok() || !out->empty()) return status;
      if (status = Open(number_ + 1); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override {
    words->push_back(number_);
    if (input_ != nullptr) input_->Save(words);
  }
  absl::Status Load(StateReader* words) override {
    absl::Status status = Open(std::min<uint64_t>(words->Read(), inputs_.size()));
    if (!status.ok() || input_ == nullptr) return status;
    return input_->Load(words);
  }

 private:
  const std::vector<StageFactory> inputs_;
  const uint64_t epoch_;
  size_t number_ = 0;
  std::unique_ptr<Stage> input_;
};

class ZipStage : public Stage {
 public:
  ZipStage(std::vector<std::unique_ptr<Stage>> inputs, std::shared_ptr<const RowSpec> spec)
      : spec_(std::move(spec)) {
    for (auto& input : inputs) queues_.emplace_back(std::move(input));
  }

  absl::Status Next(Batch* out) override {
    *out = Batch();
    size_t n = SIZE_MAX;
    for (ElementQueue& queue : queues_) {
      absl::Status status = queue.Fill();
      if (!status.ok()) return status;
      if (queue.ended()) return absl::OkStatus();
      n = std::min(n, queue.left());
    }
    for (size_t i = 0; i < queues_.size(); ++i) {
      Batch part;
      absl::Status status = queues_[i].Take(n, &part);
      if (!status.ok()) return status;
      if (i == 0) {
        *out = std::move(part);
        continue;
      }
      if (part.rows != out->rows) {
        return absl::InvalidArgumentError(
            "zip: batches of different sizes cannot stand side by side");
      }
      out->columns.insert(out->columns.end(), part.columns.begin(), part.columns.end());
      out->memory.insert(out->memory.end(), part.memory.begin(), part.memory.end());
      out->padded = std::max(out->padded, part.padded);
      std::vector<uint32_t> damaged;
      std::set_union(out->damaged.begin(), out->damaged.end(), part.damaged.begin(),
                     part.damaged.end(), std::back_inserter(damaged));
      out->damaged = std::move(damaged);
    }
    out->spec = spec_;
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override {
    for (const ElementQueue& queue : queues_) queue.Save(words);
  }
  absl::Status Load(StateReader* words) override {
    for (ElementQueue& queue : queues_) {
      absl::Status status = queue.Load(words);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const RowSpec> spec_;
  std::vector<ElementQueue> queues_;
};

// Appends the queue's next element to what is gathered. Batches are handed on one by one.
class Gatherer {
 public:
  explicit Gatherer(std::shared_ptr<const RowSpec> spec) : builder_(std::move(spec)) {}

  void Add(ElementQueue& queue) {
    batched_ = queue.head().batched;
    if (batched_) {
      builder_.Append(queue.head(), 0, queue.head().rows);
    } else {
      builder_.Append(queue.head(), queue.at(), 1);
    }
    queue.Advance(1);
  }
  bool full() const { return batched_ ? builder_.rows() > 0 : builder_.rows() >= kGathered; }
  Batch Finish() { return builder_.Finish(batched_); }

 private:
  BatchBuilder builder_;
  bool batched_ = false;
};

class MixStage : public Stage {
 public:
  MixStage(std::vector<StageFactory> inputs, std::vector<double> weights,
           std::vector<Exhausted> exhausted, std::shared_ptr<const RowSpec> spec, uint64_t seed,
           uint64_t epoch)
      : factories_(std::move(inputs)),
        weights_(std::move(weights)),
        exhausted_(std::move(exhausted)),
        spec_(std::move(spec)),
        seed_(seed),
        epoch_(epoch),
        inputs_(factories_.size()) {}

  absl::Status Open(size_t i, uint64_t round) {
    inputs_[i].round = round;
    absl::StatusOr<std::unique_ptr<Stage>> stage = factories_[i](epoch_ + round);
    if (!stage.ok()) return stage.status();
    inputs_[i].queue.emplace(*std::move(stage));
    return absl::OkStatus();
  }
  absl::Status OpenAll() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (absl::Status status = Open(i, 0); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Next(Batch* out) override {
    Gatherer gathered(spec_);
    while (!stopped_ && !gathered.full()) {
      const int i = Draw();
      if (i < 0) break;
      Input& input = inputs_[i];
      absl::Status status = input.queue->Fill();
      if (!status.ok()) return status;
      if (!input.queue->ended()) {
        gathered.Add(*input.queue);
        input.any = true;
        ++drawn_;
        continue;
      }
      if (exhausted_[i] == Exhausted::kStop) {
        stopped_ = true;
      } else if (exhausted_[i] == Exhausted::kRepeat && input.any) {
        if (status = Open(i, input.round + 1); !status.ok()) return status;
        input.any = false;
      } else {
        // What is empty cannot be repeated.
        input.gone = true;
      }
    }
    *out = gathered.Finish();
    return absl::OkStatus();
  }

  void Save(StateWords* words) const override {
    words->push_back(drawn_);
    words->push_back(stopped_);
    for (const Input& input : inputs_) {
      words->push_back(input.round);
      words->push_back(input.any);
      words->push_back(input.gone);
      if (!input.gone) input.queue->Save(words);
    }
  }
  absl::Status Load(StateReader* words) override {
    drawn_ = words->Read();
    stopped_ = words->Read() != 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      absl::Status status = Open(i, words->Read());
      if (!status.ok()) return status;
      inputs_[i].any = words->Read() != 0;
      inputs_[i].gone = words->Read() != 0;
      if (inputs_[i].gone) continue;
      if (status = inputs_[i].queue->Load(words); !status.ok()) return status;
    }
    return words->status();
  }

 private:
  struct Input {
    std::optional<ElementQueue> queue;
    uint64_t round = 0;  // its epoch, counted from epoch_
    bool any = false;    // it has given an element in this round
    bool gone = false;
  };

  // The input of the next element; -1 when all are gone.
  int Draw() const {
    double total = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) total += inputs_[i].gone ? 0 : weights_[i];
    if (total <= 0) return -1;
    double at = Random(seed_, epoch_, drawn_).Uniform() * total;
    int last = -1;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].gone || weights_[i] <= 0) continue;
      last = static_cast<int>(i);
      if (at < weights_[i]) break;
      at -= weights_[i];
    }
    return last;
  }

  const std::vector<StageFactory> factories_;
  const std::vector<double> weights_;
  const std::vector<Exhausted> exhausted_;
  const std::shared_ptr<const RowSpec> spec_;
  const uint64_t seed_;
  const uint64_t epoch_;
  std::vector<Input> inputs_;
  uint64_t drawn_ = 0;
  bool stopped_ = false;
};

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
          Advance();
        }
        continue;
      }
      absl::Status status = slot.queue->Take(block_ - taken_, out);
      if (!status.ok()) return status;
      if (out->empty()) {
        slot.queue.reset();
        Advance();
        continue;
      }
      taken_ += out->num_elements();
      if (taken_ == block_) Advance();
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
    next_ = words->Read();
    at_ = words->Read() % slots_.size();
    taken_ = words->Read();
    for (Slot& slot : slots_) {
      slot.queue.reset();
      const uint64_t number = words->Read();
      if (number == 0) continue;
      if (number > inputs_.size()) {
        return absl::InvalidArgumentError("interleave: the state has an input that is not there");
      }
      absl::Status status = Open(slot, number - 1);
      if (status.ok()) status = slot.queue->Load(words);
      if (!status.ok()) return status;
    }
    return words->status();
  }

 private:
  struct Slot {
    std::optional<ElementQueue> queue;
    uint64_t number = 0;  // of the input
  };

  absl::Status Open(Slot& slot, uint64_t number) {
    absl::StatusOr<std::unique_ptr<Stage>> stage = inputs_[number](epoch_);
    if (!stage.ok()) return stage.status();
    slot.queue.emplace(*std::move(stage));
    slot.number = number;
    return absl::OkStatus();
  }
  void Advance() {
    at_ = at_ + 1 == slots_.size() ? 0 : at_ + 1;
    taken_ = 0;
  }

  const std::vector<StageFactory> inputs_;
  const uint64_t block_;
  const uint64_t epoch_;
  std::vector<Slot> slots_;
  uint64_t next_ = 0;   // input to open next
  size_t at_ = 0;       // slot whose turn it is
  uint64_t taken_ = 0;  // elements of this turn
};

class RepeatStage : public Stage {
 public:
  RepeatStage(StageFactory input, uint64_t epochs, uint64_t epoch)
      : factory_(std::move(input)), epochs_(epochs), first_(epoch) {}

  absl::Status Open(uint64_t round) {
    round_ = round;
    any_ = false;
    input_ = nullptr;
    if (epochs_ > 0 && round >= epochs_) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<Stage>> input = factory_(first_ + round);
    if (!input.ok()) return input.status();
    input_ = *std::move(input);
    return absl::OkStatus();
  }

  absl::Status Next(Batch* out) override {
    *out = Batch();
    while (input_ != nullptr) {
      absl::Status status = input_->Next(out);
      if (!status.ok()) return status;
      if (!out->empty()) {
        any_ = true;
        return absl::OkStatus();
      }
      // What is empty would be repeated for ever.
      if (!any_) break;
      if (status = Open(round_ + 1); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override {
    words->push_back(round_);
    words->push_back(any_);
    if (input_ != nullptr) input_->Save(words);
  }
  absl::Status Load(StateReader* words) override {
    absl::Status status = Open(words->Read());
    any_ = words->Read() != 0;
    if (!status.ok() || input_ == nullptr) return status;
    return input_->Load(words);
  }

 private:
  const StageFactory factory_;
  const uint64_t epochs_;
  const uint64_t first_;
  uint64_t round_ = 0;
  bool any_ = false;  // this round has given an element
  std::unique_ptr<Stage> input_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Stage>> MakeConcatenateStage(std::vector<StageFactory> inputs,
                                                            uint64_t epoch) {
  auto stage = std::make_unique<ConcatenateStage>(std::move(inputs), epoch);
  if (absl::Status status = stage->Open(0); !status.ok()) return status;
  return stage;
}

std::unique_ptr<Stage> MakeZipStage(std::vector<std::unique_ptr<Stage>> inputs,
                                    std::shared_ptr<const RowSpec> spec) {
  return std::make_unique<ZipStage>(std::move(inputs), std::move(spec));
}

absl::StatusOr<std::unique_ptr<Stage>> MakeMixStage(std::vector<StageFactory> inputs,
                                                    std::vector<double> weights,
                                                    std::vector<Exhausted> exhausted,
                                                    std::shared_ptr<const RowSpec> spec,
                                                    uint64_t seed, uint64_t epoch) {
  auto stage = std::make_unique<MixStage>(std::move(inputs), std::move(weights),
                                          std::move(exhausted), std::move(spec), seed, epoch);
  if (absl::Status status = stage->OpenAll(); !status.ok()) return status;
  return stage;
}

absl::StatusOr<std::unique_ptr<Stage>> MakeInterleaveStage(std::vector<StageFactory> inputs,
                                                           uint64_t cycle, uint64_t block,
                                                           uint64_t epoch) {
  return std::make_unique<InterleaveStage>(std::move(inputs), cycle, block, epoch);
}

absl::StatusOr<std::unique_ptr<Stage>> MakeRepeatStage(StageFactory input, uint64_t epochs,
                                                       uint64_t epoch) {
  auto stage = std::make_unique<RepeatStage>(std::move(input), epochs, epoch);
  if (absl::Status status = stage->Open(0); !status.ok()) return status;
  return stage;
}

}  // namespace shardfeed
