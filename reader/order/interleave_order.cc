#include "reader/order/interleave_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

namespace shardfeed {
namespace {

// tf.data's interleave cycles through `cycle` slots and takes up to `block` elements
// at each visit. When a slot's shard ends (which is noticed when one more element is requested),
// the visit ends, and the slot opens the next unopened shard at its next visit. So a shard of n
// records occupies its slot for n / block + 1 visits, and between the rounds in which shards
// begin or end all rounds are alike: these stretches of equal rounds are the table from which
// everything is computed. Source: the documentation of tf.data.Dataset.interleave, and its
// behavior.
class InterleaveOrder : public Order {
 public:
  InterleaveOrder(OrderSpec spec, std::vector<uint64_t> shard_begin)
      : Order(std::move(spec), shard_begin.back()), shard_begin_(std::move(shard_begin)) {
    const size_t shards = shard_begin_.size() - 1;
    start_.resize(shards);
    // (round, slot) of the next visit at which a slot opens a shard.
    using Visit = std::pair<uint64_t, uint64_t>;
    std::priority_queue<Visit, std::vector<Visit>, std::greater<Visit>> open;
    for (uint64_t slot = 0; slot < std::min<uint64_t>(spec_.cycle, shards); ++slot) {
      open.emplace(0, slot);
    }
    std::vector<std::tuple<uint64_t, bool, uint64_t, uint32_t>>
        changes;  // round, start, slot, shard
    for (size_t shard = 0; shard < shards; ++shard) {
      const auto [round, slot] = open.top();
      open.pop();
      start_[shard] = round;
      const uint64_t full = Records(shard) / spec_.block;
      if (Records(shard) > 0) {
        // A last visit with fewer elements makes its round differ from the others.
        changes.emplace_back(round, true, slot, shard);
        if (Records(shard) % spec_.block != 0) {
          changes.emplace_back(round + full, true, slot, shard);
          changes.emplace_back(round + full + 1, false, slot, shard);
        } else {
          changes.emplace_back(round + full, false, slot, shard);
        }
      }
      open.emplace(round + full + 1, slot);
    }
    std::sort(changes.begin(), changes.end());
    std::vector<std::pair<uint64_t, uint32_t>> active;  // slot, shard
    uint64_t items = 0;
    for (size_t i = 0; i < changes.size();) {
      const uint64_t round = std::get<0>(changes[i]);
      if (!stretches_.empty()) {
        Stretch& last = stretches_.back();
        items += (round - last.round) * last.per_round;
      }
      for (; i < changes.size() && std::get<0>(changes[i]) == round; ++i) {
        const auto [unused, starts, slot, shard] = changes[i];
        const auto at =
            std::lower_bound(active.begin(), active.end(), std::pair<uint64_t, uint32_t>(slot, 0));
        const bool there = at != active.end() && at->first == slot;
        if (there && !starts && at->second == shard) {
          active.erase(at);
        } else if (starts && there) {
          at->second = shard;
        } else if (starts) {
          active.emplace(at, slot, shard);
        }
      }
      // Rounds in which every slot only notices the end of its shard have no elements; the stretch
      // after them starts at the same position.
      Stretch stretch{round, items, 0, actives_.size(), true};
      for (const auto& [slot, shard] : active) {
        actives_.push_back(shard);
        const uint64_t n = Visited(shard, round);
        stretch.per_round += n;
        if (n != spec_.block) stretch.equal = false;
      }
      stretches_.push_back(stretch);
    }
  }

  uint64_t ItemAt(uint64_t, uint64_t position) const override {
    const Stretch& stretch =
        *(std::upper_bound(stretches_.begin(), stretches_.end(), position,
                           [](uint64_t p, const Stretch& s) { return p < s.position; }) -
          1);
    const uint64_t round = stretch.round + (position - stretch.position) / stretch.per_round;
    uint64_t rest = (position - stretch.position) % stretch.per_round;
    size_t k = 0;
    if (stretch.equal) {
      k = rest / spec_.block;
      rest %= spec_.block;
    } else {
      for (uint64_t n; rest >= (n = Visited(actives_[stretch.active + k], round)); ++k) rest -= n;
    }
    const uint32_t shard = actives_[stretch.active + k];
    return shard_begin_[shard] + (round - start_[shard]) * spec_.block + rest;
  }

  uint64_t PositionOf(uint64_t, uint64_t item) const override {
    const uint32_t shard = ShardOf(item);
    const uint64_t record = item - shard_begin_[shard];
    const uint64_t round = start_[shard] + record / spec_.block;
    const Stretch& stretch =
        *(std::upper_bound(stretches_.begin(), stretches_.end(), round,
                           [](uint64_t r, const Stretch& s) { return r < s.round; }) -
          1);
    uint64_t position = stretch.position + (round - stretch.round) * stretch.per_round;
    for (size_t k = 0; actives_[stretch.active + k] != shard; ++k) {
      position += Visited(actives_[stretch.active + k], round);
    }
    return position + record % spec_.block;
  }

  void Fill(uint64_t epoch, uint64_t position, uint64_t stride,
            absl::Span<uint64_t> items) const override {
    if (items.empty()) return;  // also at the end, where no stretch has elements
    if (stride != 1) {
      for (uint64_t& item : items) {
        item = ItemAt(epoch, position);
        position += stride;
      }
      return;
    }
    // Goes from visit to visit in the order of the slots.
    auto stretch = StretchOf(position);
    uint64_t round = stretch->round + (position - stretch->position) / stretch->per_round;
    uint64_t rest = (position - stretch->position) % stretch->per_round;
    size_t k = 0;
    for (uint64_t n; rest >= (n = Visited(actives_[stretch->active + k], round)); ++k) rest -= n;
    for (size_t filled = 0; filled < items.size();) {
      const uint32_t shard = actives_[stretch->active + k];
      uint64_t item = shard_begin_[shard] + (round - start_[shard]) * spec_.block + rest;
      const uint64_t left = std::min<uint64_t>(Visited(shard, round) - rest, items.size() - filled);
      for (uint64_t i = 0; i < left; ++i) items[filled++] = item++;
      rest = 0;
      const size_t active =
          (stretch + 1 == stretches_.end() ? actives_.size() : stretch[1].active) - stretch->active;
      if (++k < active) continue;
      k = 0;
      ++round;
      // Skip stretches without a shard.
      while (stretch + 1 != stretches_.end() &&
             (round >= stretch[1].round || stretch->per_round == 0)) {
        ++stretch;
        round = stretch->round;
      }
    }
  }

  OrderPiece PieceOf(uint64_t epoch, uint64_t item) const override {
    const uint32_t shard = ShardOf(item);
    const uint64_t record = item - shard_begin_[shard];
    const uint64_t begin = item - record % spec_.chunk;
    const uint64_t end = std::min(begin + spec_.chunk, shard_begin_[shard + 1]);
    return {begin, end, PositionOf(epoch, begin), PositionOf(epoch, end - 1)};
  }

  uint64_t span() const override {
    return spec_.chunk * std::min<uint64_t>(spec_.cycle, shard_begin_.size() - 1);
  }

 private:
  // A range of rounds that are all alike.
  struct Stretch {
    uint64_t round;      // the first round
    uint64_t position;   // position of its first element
    uint64_t per_round;  // elements per round
    size_t active;       // index in actives_ of its shards, in the order of their slots
    bool equal;          // whether every shard has block elements in each round
  };

  // The stretch that `position` lies in.
  std::vector<Stretch>::const_iterator StretchOf(uint64_t position) const {
    return std::upper_bound(stretches_.begin(), stretches_.end(), position,
                            [](uint64_t p, const Stretch& s) { return p < s.position; }) -
           1;
  }

  uint64_t Records(size_t shard) const { return shard_begin_[shard + 1] - shard_begin_[shard]; }
  // The number of elements of `shard` in `round`.
  uint64_t Visited(uint32_t shard, uint64_t round) const {
    return std::min(spec_.block, Records(shard) - (round - start_[shard]) * spec_.block);
  }
  uint32_t ShardOf(uint64_t item) const {
    return std::upper_bound(shard_begin_.begin(), shard_begin_.end(), item) - shard_begin_.begin() -
           1;
  }

  std::vector<uint64_t> shard_begin_;
  std::vector<uint64_t> start_;  // round in which each shard is opened
  std::vector<Stretch> stretches_;
  std::vector<uint32_t> actives_;
};

}  // namespace

std::shared_ptr<const Order> MakeInterleaveOrder(OrderSpec spec,
                                                 std::vector<uint64_t> shard_begin) {
  return std::make_shared<InterleaveOrder>(std::move(spec), std::move(shard_begin));
}

}  // namespace shardfeed
