#include "pipeline/limiting.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "pipeline/random.h"

namespace shardfeed {
namespace {

class TakeStage : public Stage {
 public:
  TakeStage(std::unique_ptr<Stage> input, uint64_t count)
      : queue_(std::move(input)), count_(count) {}

  absl::Status Next(Batch* out) override {
    *out = Batch();
    if (taken_ == count_) return absl::OkStatus();
    absl::Status status = queue_.Take(count_ - taken_, out);
    taken_ += out->num_elements();
    return status;
  }
  std::optional<bool> Await(std::chrono::nanoseconds most) override {
    return taken_ == count_ ? true : queue_.Await(most);
  }
  void Save(StateWords* words) const override {
    words->push_back(taken_);
    queue_.Save(words);
  }
  absl::Status Load(StateReader* words) override {
    taken_ = std::min(words->Read(), count_);
    return queue_.Load(words);
  }

 private:
  ElementQueue queue_;
  const uint64_t count_;
  uint64_t taken_ = 0;
};

class SkipStage : public Stage {
 public:
  SkipStage(std::unique_ptr<Stage> input, uint64_t count)
      : queue_(std::move(input)), left_(count) {}

  absl::Status Next(Batch* out) override {
    while (left_ > 0) {
      absl::Status status = queue_.Fill();
      if (!status.ok()) return status;
      if (queue_.ended()) break;
      const uint64_t n = std::min<uint64_t>(left_, queue_.left());
      queue_.Advance(n);
      left_ -= n;
    }
    return queue_.Take(SIZE_MAX, out);
  }
  std::optional<bool> Await(std::chrono::nanoseconds most) override {
    return left_ > 0 ? std::nullopt : queue_.Await(most);
  }
  void Save(StateWords* words) const override {
    words->push_back(left_);
    queue_.Save(words);
  }
  absl::Status Load(StateReader* words) override {
    left_ = words->Read();
    return queue_.Load(words);
  }

 private:
  ElementQueue queue_;
  uint64_t left_;
};

class ShardStage : public Stage {
 public:
  ShardStage(std::unique_ptr<Stage> input, uint64_t rank, uint64_t world)
      : queue_(std::move(input)), rank_(rank), world_(world) {}

  absl::Status Next(Batch* out) override {
    *out = Batch();
    while (out->empty()) {
      absl::Status status = queue_.Fill();
      if (!status.ok() || queue_.ended()) return status;
      const uint64_t wait = (rank_ + world_ - number_ % world_) % world_;
      if (wait >= queue_.left()) {
        number_ += queue_.left();
        queue_.Advance(queue_.left());
        continue;
      }
      queue_.Advance(wait);
      number_ += wait;
      if (queue_.head().batched) {
        ++number_;
        return queue_.Take(1, out);
      }
      // What is this rank's of the batch.
      BatchBuilder builder(queue_.head().spec);
      builder.Append(queue_.head(), 0, 0);
      while (queue_.left() > 0) {
        builder.AppendMore(queue_.at(), 1);
        const uint64_t n = std::min<uint64_t>(world_, queue_.left());
        queue_.Advance(n);
        number_ += n;
      }
      *out = builder.Finish(false);
    }
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override {
    words->push_back(number_);
    queue_.Save(words);
  }
  absl::Status Load(StateReader* words) override {
    number_ = words->Read();
    return queue_.Load(words);
  }

 private:
  ElementQueue queue_;
  const uint64_t rank_;
  const uint64_t world_;
  uint64_t number_ = 0;  // of the queue's next element
};

class EnumerateStage : public Stage {
 public:
  EnumerateStage(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> spec, int64_t start)
      : input_(std::move(input)), spec_(std::move(spec)), start_(start) {}

  absl::Status Next(Batch* out) override {
    absl::Status status = input_->Next(out);
    if (!status.ok() || out->empty()) return status;
    Batch numbers;
    numbers.rows = out->rows;
    numbers.spec = std::make_shared<const RowSpec>(RowSpec{spec_->back()});
    AllocateFixedColumns(&numbers);
    auto* values = reinterpret_cast<int64_t*>(numbers.columns[0].data);
    std::iota(values, values + out->rows, start_ + static_cast<int64_t>(number_));
    number_ += out->rows;
    out->columns.push_back(numbers.columns[0]);
    out->memory.push_back(std::move(numbers.memory[0]));
    out->spec = spec_;
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override {
    words->push_back(number_);
    input_->Save(words);
  }
  absl::Status Load(StateReader* words) override {
    number_ = words->Read();
    return input_->Load(words);
  }

 private:
  const std::unique_ptr<Stage> input_;
  const std::shared_ptr<const RowSpec> spec_;
  const int64_t start_;
  uint64_t number_ = 0;
};

class ShuffleStage : public Stage {
 public:
  ShuffleStage(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> spec, uint64_t window,
               uint64_t seed, uint64_t epoch)
      : queue_(std::move(input)),
        spec_(std::move(spec)),
        window_(window),
        seed_(seed),
        epoch_(epoch) {
    queue_.Save(&before_);
  }

  absl::Status Next(Batch* out) override {
    *out = Batch();
    if (at_ == order_.size()) {
      absl::Status status = Fill(0);
      if (!status.ok()) return status;
    }
    if (at_ == order_.size()) return absl::OkStatus();
    if (held_[order_[at_].first].batched) {
      *out = held_[order_[at_++].first];
      return absl::OkStatus();
    }
    BatchBuilder builder(spec_);
    for (const Batch& batch : held_) builder.Add(batch);
    for (size_t n = 0; n < kRows && at_ < order_.size(); ++n, ++at_) {
      builder.AppendOf(order_[at_].first, order_[at_].second, 1);
    }
    *out = builder.Finish(false);
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override {
    if (at_ == order_.size()) {
      words->push_back(stretch_);
      words->push_back(0);
      queue_.Save(words);
      return;
    }
    words->push_back(stretch_ - 1);
    words->push_back(at_);
    words->insert(words->end(), before_.begin(), before_.end());
  }
  absl::Status Load(StateReader* words) override {
    stretch_ = words->Read();
    const uint64_t at = words->Read();
    order_.clear();
    held_.clear();
    at_ = 0;
    absl::Status status = queue_.Load(words);
    if (!status.ok() || at == 0) return status;
    return Fill(at);
  }

 private:
  static constexpr size_t kRows = 256;

  // Takes the next stretch and goes to its element `at`.
  absl::Status Fill(uint64_t at) {
    held_.clear();
    order_.clear();
    before_.clear();
    queue_.Save(&before_);
    while (order_.size() < window_) {
      Batch batch;
      absl::Status status = queue_.Take(window_ - order_.size(), &batch);
      if (!status.ok()) return status;
      if (batch.empty()) break;
      for (size_t i = 0; i < batch.num_elements(); ++i) order_.emplace_back(held_.size(), i);
      held_.push_back(std::move(batch));
    }
    // Fisher and Yates.
    Random random(seed_, epoch_, stretch_++);
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.Below(i)]);
    at_ = std::min<uint64_t>(at, order_.size());
    return absl::OkStatus();
  }

  ElementQueue queue_;
  const std::shared_ptr<const RowSpec> spec_;
  const uint64_t window_;
  const uint64_t seed_;
  const uint64_t epoch_;
  uint64_t stretch_ = 0;  // number of the next one
  StateWords before_;     // the queue's, before the stretch that is held
  std::vector<Batch> held_;
  std::vector<std::pair<size_t, size_t>> order_;  // batch of held_, element of it
  size_t at_ = 0;
};

}  // namespace

std::unique_ptr<Stage> MakeTakeStage(std::unique_ptr<Stage> input, uint64_t count) {
  return std::make_unique<TakeStage>(std::move(input), count);
}
std::unique_ptr<Stage> MakeSkipStage(std::unique_ptr<Stage> input, uint64_t count) {
  return std::make_unique<SkipStage>(std::move(input), count);
}
std::unique_ptr<Stage> MakeShardStage(std::unique_ptr<Stage> input, uint64_t rank, uint64_t world) {
  return std::make_unique<ShardStage>(std::move(input), rank, world);
}
std::unique_ptr<Stage> MakeEnumerateStage(std::unique_ptr<Stage> input,
                                          std::shared_ptr<const RowSpec> spec, int64_t start) {
  return std::make_unique<EnumerateStage>(std::move(input), std::move(spec), start);
}
std::unique_ptr<Stage> MakeShuffleStage(std::unique_ptr<Stage> input,
                                        std::shared_ptr<const RowSpec> spec, uint64_t window,
                                        uint64_t seed, uint64_t epoch) {
  return std::make_unique<ShuffleStage>(std::move(input), std::move(spec), window, seed, epoch);
}
}  // namespace shardfeed
