#include <algorithm>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "pipeline/data/random_stream.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/reordered_rows.h"
#include "reader/order/order.h"
#include "shardfeed/functions.h"

namespace shardfeed {
namespace {

// Permutes each stretch of `window` elements, by a key made from the seed, the epoch and the
// stretch's number. Holds one stretch in memory.
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
      *out = held_[order_[at_].first];
      out->reordered = {{0, told_, begins_[at_++], 1}};
      return absl::OkStatus();
    }
    const size_t first = at_;
    BatchBuilder builder(spec_);
    for (const Batch& batch : held_) builder.Add(batch);
    for (size_t n = 0; n < kRows && at_ < order_.size(); ++n, ++at_) {
      builder.AppendOf(order_[at_].first, order_[at_].second, 1);
    }
    *out = builder.Finish(false);
    out->reordered = {{0, told_, first, 1}};
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
    const uint64_t at = words->ReadUpTo(window_ - 1);
    order_.clear();
    held_.clear();
    at_ = 0;
    absl::Status status = queue_.Load(words);
    if (!status.ok() || at == 0 || !words->ok()) return status;
    status = Fill(at);
    return status.ok() ? CheckNothingToSkip(at - at_) : status;
  }

 private:
  static constexpr size_t kRows = 256;

  // Takes the next stretch and positions at its element `at`.
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
    ShuffleBy(Random(StreamSeed(RandomStream::kShuffleWindow, seed_), epoch_, stretch_++), &order_);
    at_ = std::min<uint64_t>(at, order_.size());
    TellOrder();
    return absl::OkStatus();
  }

  void TellOrder() {
    auto told = std::make_shared<ReorderedRows>();
    begins_.clear();
    for (const auto& [number, element] : order_) {
      const Batch& batch = held_[number];
      begins_.push_back(told->rows.size());
      const size_t begin = batch.batched ? 0 : element;
      const size_t end = batch.batched ? batch.rows : element + 1;
      for (size_t row = begin; row < end; ++row) told->Append(DeliveredRow::Of(batch, row));
    }
    if (!held_.empty()) {
      const LastRow last(held_.back(), held_.back().rows - 1);
      told->last = last.from;
      told->before = last.number;
    }
    told_ = std::move(told);
  }

  ElementQueue queue_;
  const std::shared_ptr<const RowSpec> spec_;
  const uint64_t window_;
  const uint64_t seed_;
  const uint64_t epoch_;
  uint64_t stretch_ = 0;  // number of the next stretch
  StateWords before_;     // the queue's state before the stretch that is held
  std::vector<Batch> held_;
  std::vector<std::pair<size_t, size_t>> order_;  // batch of held_, element of it
  size_t at_ = 0;
  std::shared_ptr<const ReorderedRows> told_;  // the rows in that order
  std::vector<uint64_t> begins_;               // the first row of each element among them
};

}  // namespace

Dataset Dataset::Shuffle(uint64_t seed, uint64_t window, uint64_t chunk, uint64_t lanes) const {
  if (!status_.ok()) return *this;
  const bool ordinary = chunk == 0 && lanes == OrderSpec().lanes;
  if (step_->as<ShardsWork>() != nullptr) {
    Step step = *step_;
    OrderSpec& order = std::get<ShardsWork>(step.work).reader.order;
    order = OrderSpec{.mixture = order.mixture};
    order.kind = OrderSpec::Kind::kShuffle;
    order.seed = seed;
    order.window = window;
    order.chunk = chunk;
    order.lanes = lanes;
    step.text += fmt::format(".shuffle(seed={}, window={}{})", seed, window,
                             ordinary ? "" : fmt::format(", chunk={}, lanes={}", chunk, lanes));
    return Dataset(std::make_shared<const Step>(std::move(step)));
  }
  if (window == 0 || window == OrderSpec::kAll) {
    return Dataset(absl::InvalidArgumentError(
        "shuffle: it needs a window, in elements; only directly after read() does it shuffle "
        "everything without one"));
  }
  if (!ordinary) {
    return Dataset(
        absl::InvalidArgumentError("shuffle: chunk and lanes affect how shards are read, and have "
                                   "no meaning after other steps; "
                                   "leave them out, or put shuffle first"));
  }
  Step step = Like("shuffle");
  step.text = fmt::format("shuffle(seed={}, window={})", seed, window);
  step.identity.Add("seed", StreamSeed(RandomStream::kShuffleWindow, seed)).Add("window", window);
  step.sharing = Sharing::kUneven;  // the step holds elements that the rank has read
  step.tells_held = true;
  step.work =
      OnInput([seed, window, spec = step.spec](std::unique_ptr<Stage> input, uint64_t epoch) {
        return std::make_unique<ShuffleStage>(std::move(input), spec, window, seed, epoch);
      });
  return Then(std::move(step));
}

}  // namespace shardfeed
