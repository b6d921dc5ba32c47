#include "reader/order/shuffle_order.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "reader/order/divider.h"
#include "reader/order/permutation.h"

namespace shardfeed {
namespace {

// Separates keys that are derived for different purposes.
enum KeyDomain : uint64_t {
  kChunkKeys = 1,
  kStretchKeys = 2,
  kShortChunkKey = 3,
  kRotationKey = 4
};

uint64_t SeedKey(uint64_t seed) { return DeriveKey(0x7368617264666565, seed); }

// 0. Items are rotated by an offset of the epoch, so that chunk boundaries differ from epoch to
//    epoch, and every item is equally likely at every position.
// 1. They are cut into chunks of `chunk`, and chunks are permuted by the epoch's key: the epoch's
//    sequence. (The last chunk may be short, wherever it lands.)
// 2. Lane l is the slice [l * N / L, (l + 1) * N / L) of the sequence. Position p is element p / L
//    of lane p mod L; the N mod L elements left over come last.
// 3. In each lane, stretches of window / L elements are permuted by keys of their own. Their
//    beginnings are staggered over the lanes, so that reading is spread evenly, and coincide with
//    beginnings of chunks.
class ShuffleOrder : public WindowedOrder {
 public:
  ShuffleOrder(OrderSpec spec, uint64_t size)
      : WindowedOrder(std::move(spec), size),
        lanes_(spec_.lanes),
        chunk_(spec_.chunk),
        lane_divider_(spec_.lanes),
        chunk_divider_(spec_.chunk),
        stretch_divider_(spec_.window / spec_.lanes),
        rows_(size / spec_.lanes),
        extra_(size % spec_.lanes),
        stretch_(spec_.window / spec_.lanes),
        last_chunk_(size % spec_.chunk),
        full_chunks_(size / spec_.chunk),
        full_stretch_(stretch_) {
    for (uint64_t lane = 0; lane < lanes_; ++lane) {
      Lane& known = lane_table_.emplace_back();
      known.begin = lane * rows_ + lane * extra_ / lanes_;
      known.size = (lane + 1) * rows_ + (lane + 1) * extra_ / lanes_ - known.begin;
      for (const bool behind_short : {false, true}) {
        const uint64_t phase = lane * stretch_ / lanes_;
        const uint64_t off = (known.begin + phase + (behind_short ? Shift() : 0)) % chunk_;
        Shape& shape = known.shape[behind_short];
        shape.phase = phase >= off ? phase - off : phase + chunk_ - off;
        shape.first = Permutation(shape.phase);
        const uint64_t last =
            known.size <= shape.phase ? known.size : (known.size - shape.phase - 1) % stretch_ + 1;
        shape.last = Permutation(last);
      }
    }
  }

  uint64_t ItemAt(uint64_t epoch, uint64_t position) const override {
    return ItemIn(EpochKeys(epoch), position);
  }

  uint64_t PositionOf(uint64_t epoch, uint64_t item) const override {
    const Epoch keys = EpochKeys(epoch);
    const uint64_t at = SequenceOf(keys, item);
    const uint64_t lane = LaneOf(at);
    const uint64_t begin = LaneBegin(lane);
    const Span stretch = StretchAt(keys, lane, begin, at - begin);
    const uint64_t i =
        stretch.begin + stretch.permutation->Invert(stretch.key, at - begin - stretch.begin);
    if (i < rows_) return i * lanes_ + lane;
    // One of the remaining elements: count the preceding lanes that have one.
    return rows_ * lanes_ + lane * extra_ / lanes_;
  }

  void Fill(uint64_t epoch, uint64_t position, uint64_t stride,
            absl::Span<uint64_t> items) const override {
    const Epoch keys = EpochKeys(epoch);
    if (items.size() < 4 * lanes_) {
      for (uint64_t& item : items) item = ItemIn(keys, std::exchange(position, position + stride));
      return;
    }
    // Consecutive elements of a lane mostly share a stretch, and those of a stretch a chunk.
    std::vector<Span> stretches(lanes_, Span{0, 0, 0, nullptr});
    constexpr size_t kPlaces = 1024;
    std::vector<std::pair<uint64_t, uint64_t>> chunk_at(kPlaces, {UINT64_MAX, 0});
    uint64_t lane_number = position % lanes_;
    uint64_t row = position / lanes_;
    const uint64_t lane_step = stride % lanes_;
    const uint64_t row_step = stride / lanes_;
    for (uint64_t& item : items) {
      if (row == rows_) {
        item = ItemIn(keys, position);
      } else {
        Span& stretch = stretches[lane_number];
        const uint64_t lane_begin = LaneBegin(lane_number);
        if (row < stretch.begin || row >= stretch.end) {
          stretch = StretchAt(keys, lane_number, lane_begin, row);
        }
        const uint64_t at = lane_begin + stretch.begin +
                            stretch.permutation->Apply(stretch.key, row - stretch.begin);
        item = ItemOf(keys, at, [&](uint64_t place) {
          auto& [known_place, chunk] = chunk_at[place % kPlaces];
          if (known_place != place) {
            known_place = place;
            chunk = ChunkAt(keys, place);
          }
          return chunk;
        });
      }
      position += stride;
      row += row_step;
      lane_number += lane_step;
      if (lane_number >= lanes_) {
        lane_number -= lanes_;
        ++row;
      }
    }
  }

  void GetStretch(uint64_t epoch, uint64_t position, OrderStretch* out) const override {
    const Epoch keys = EpochKeys(epoch);
    const auto [row, lane] = lane_divider_.Divide(position);
    if (row == rows_) {
      out->first = position;
      out->items.assign(1, ItemIn(keys, position));
      return;
    }
    const uint64_t lane_begin = LaneBegin(lane);
    const Span stretch = StretchAt(keys, lane, lane_begin, row);
    out->first = stretch.begin * lanes_ + lane;
    out->items.resize(std::min(stretch.end, rows_) - stretch.begin);
    uint64_t known_place = UINT64_MAX;
    uint64_t chunk = 0;
    for (size_t i = 0; i < out->items.size(); ++i) {
      const uint64_t at = lane_begin + stretch.begin + stretch.permutation->Apply(stretch.key, i);
      out->items[i] = ItemOf(keys, at, [&](uint64_t place) {
        if (place != known_place) {
          known_place = place;
          chunk = ChunkAt(keys, place);
        }
        return chunk;
      });
    }
  }

  OrderPiece PieceOf(uint64_t epoch, uint64_t item) const override {
    const Epoch keys = EpochKeys(epoch);
    const uint64_t at = SequenceOf(keys, item);
    const uint64_t lane = LaneOf(at);
    const uint64_t lane_begin = LaneBegin(lane);
    const Span stretch = StretchAt(keys, lane, lane_begin, at - lane_begin);
    // The intersection of chunk and stretch in the sequence.
    const uint64_t rotated = Rotate(keys, item);
    const uint64_t chunk_first = rotated / chunk_ * chunk_;
    const uint64_t chunk_at = at - (rotated - chunk_first);
    const uint64_t chunk_size = std::min(chunk_, size_ - chunk_first);
    const uint64_t begin = std::max(chunk_at, lane_begin + stretch.begin);
    const uint64_t end = std::min(chunk_at + chunk_size, lane_begin + stretch.end);
    const uint64_t last = stretch.end - 1;
    // From the first to the last item of the piece; a piece ends where items wrap around.
    uint64_t first_item = Unrotate(keys, chunk_first + (begin - chunk_at));
    uint64_t end_item = Unrotate(keys, chunk_first + (end - 1 - chunk_at)) + 1;
    if (first_item >= end_item)
      (item >= first_item ? end_item : first_item) = item >= first_item ? size_ : 0;
    return {first_item, end_item,
            std::min(stretch.begin, rows_) * lanes_ + (stretch.begin < rows_ ? lane : 0),
            last < rows_ ? last * lanes_ + lane : size_ - 1, last < rows_ ? lanes_ : 1};
  }

  uint64_t span() const override { return std::min(spec_.window, size_); }

 private:
  static uint64_t NextNumber() {
    static std::atomic<uint64_t> last = 0;
    return ++last;
  }

  struct Epoch {
    uint64_t chunk_key;
    uint64_t stretch_key;
    uint64_t rotation;
    uint64_t
        short_at;  // place of the short chunk in the permutation; past the end if there is none
  };
  // Elements [begin, end) of a lane.
  struct Span {
    uint64_t begin;
    uint64_t end;
    uint64_t key;
    const Permutation* permutation;
  };

  // The latest are cached, because one epoch is requested many times.
  Epoch EpochKeys(uint64_t epoch) const {
    struct Kept {
      uint64_t order = 0;
      uint64_t epoch = 0;
      Epoch keys;
    };
    thread_local Kept kept;
    if (kept.order != number_ || kept.epoch != epoch) kept = {number_, epoch, MakeEpoch(epoch)};
    return kept.keys;
  }

  Epoch MakeEpoch(uint64_t epoch) const {
    const uint64_t key = DeriveKey(seed_key_, epoch);
    uint64_t short_at = full_chunks_.size();
    if (last_chunk_ > 0) {
      const unsigned __int128 places = full_chunks_.size() + 1;
      short_at = static_cast<uint64_t>((DeriveKey(key, kShortChunkKey) * places) >> 64);
    }
    const uint64_t rotation = static_cast<uint64_t>(
        (static_cast<unsigned __int128>(DeriveKey(key, kRotationKey)) * size_) >> 64);
    return {DeriveKey(key, kChunkKeys), DeriveKey(key, kStretchKeys), rotation, short_at};
  }

  uint64_t Rotate(const Epoch& keys, uint64_t item) const {
    return item < size_ - keys.rotation ? item + keys.rotation : item - (size_ - keys.rotation);
  }
  uint64_t Unrotate(const Epoch& keys, uint64_t item) const {
    return item >= keys.rotation ? item - keys.rotation : item + (size_ - keys.rotation);
  }

  // How far chunks after the short one begin before multiples of `chunk`.
  uint64_t Shift() const { return last_chunk_ > 0 ? chunk_ - last_chunk_ : 0; }

  uint64_t ItemIn(const Epoch& keys, uint64_t position) const {
    auto [i, lane] = lane_divider_.Divide(position);
    if (i == rows_) {
      // Element rows_ of the lanes that have one: those in which l * extra / lanes steps up.
      lane = ((lane + 1) * lanes_ + extra_ - 1) / extra_ - 1;
    }
    const uint64_t begin = LaneBegin(lane);
    const Span stretch = StretchAt(keys, lane, begin, i);
    i = stretch.begin + stretch.permutation->Apply(stretch.key, i - stretch.begin);
    return ItemOf(keys, begin + i, [&](uint64_t place) { return ChunkAt(keys, place); });
  }

  // The item of element `at` of the sequence; `chunk_of` gives the chunk at a place.
  template <typename ChunkOf>
  uint64_t ItemOf(const Epoch& keys, uint64_t at, const ChunkOf& chunk_of) const {
    if (last_chunk_ > 0 && at >= keys.short_at * chunk_ + last_chunk_) at += Shift();
    const auto [place, offset] = chunk_divider_.Divide(at);
    return Unrotate(keys, chunk_of(place) * chunk_ + offset);
  }

  // The chunk at a place of the sequence.
  uint64_t ChunkAt(const Epoch& keys, uint64_t place) const {
    if (place == keys.short_at) return full_chunks_.size();
    return full_chunks_.Apply(keys.chunk_key, place - (place > keys.short_at));
  }

  uint64_t SequenceOf(const Epoch& keys, uint64_t item) const {
    const auto [chunk, offset] = chunk_divider_.Divide(Rotate(keys, item));
    uint64_t place = keys.short_at;
    if (chunk < full_chunks_.size()) {
      place = full_chunks_.Invert(keys.chunk_key, chunk);
      if (place >= keys.short_at) ++place;
    }
    return place * chunk_ + offset - (place > keys.short_at ? Shift() : 0);
  }

  uint64_t LaneBegin(uint64_t lane) const { return lane_table_[lane].begin; }
  uint64_t LaneOf(uint64_t at) const {
    // Off by at most one, because the sizes of lanes differ by at most one element.
    auto lane = static_cast<uint64_t>(static_cast<double>(at) * lanes_per_item_);
    lane = std::min(lane, lanes_ - 1);
    while (LaneBegin(lane) > at) --lane;
    while (lane + 1 < lanes_ && LaneBegin(lane + 1) <= at) ++lane;
    return lane;
  }

  // The stretch that holds element `i` of the lane.
  Span StretchAt(const Epoch& keys, uint64_t lane, uint64_t lane_begin, uint64_t i) const {
    const Lane& known = lane_table_[lane];
    const Shape& shape = known.shape[lane_begin > keys.short_at * chunk_];
    Span span{0, shape.phase, 0, &shape.first};
    uint64_t number = 0;
    if (i >= shape.phase) {
      const uint64_t n = stretch_divider_.Divide(i - shape.phase).quotient;
      span.begin = shape.phase + n * stretch_;
      span.end = span.begin + stretch_;
      span.permutation = &full_stretch_;
      number = n + 1;
    }
    if (span.end >= known.size) {
      span.end = known.size;
      span.permutation = &shape.last;
    }
    span.key = DeriveKey(keys.stretch_key, lane + lanes_ * number);
    return span;
  }

  // Where the stretches of a lane begin.
  struct Shape {
    uint64_t phase;     // end of the first stretch, which is short, at a chunk's beginning
    Permutation first;  // permutation of the first stretch
    Permutation last;   // permutation of the last stretch, which ends with the lane
  };
  struct Lane {
    uint64_t begin;
    uint64_t size;
    Shape shape[2];  // shapes before and after the short chunk
  };

  const uint64_t lanes_;
  const uint64_t chunk_;
  const Divider lane_divider_;
  const Divider chunk_divider_;
  const Divider stretch_divider_;
  const uint64_t rows_;   // elements that every lane has
  const uint64_t extra_;  // number of lanes that have one more
  const uint64_t stretch_;
  const uint64_t last_chunk_;  // size of the short chunk; 0 if there is none
  const Permutation full_chunks_;
  const Permutation full_stretch_;
  const uint64_t seed_key_ = SeedKey(spec_.seed);
  // Unlike an address, never reused for another order.
  const uint64_t number_ = NextNumber();
  const double lanes_per_item_ = static_cast<double>(lanes_) / static_cast<double>(size_);
  std::vector<Lane> lane_table_;
};

// An order in which any record may have any position.
class ExactShuffleOrder : public Order {
 public:
  ExactShuffleOrder(OrderSpec spec, uint64_t size)
      : Order(std::move(spec), size), permutation_(size) {}

  uint64_t ItemAt(uint64_t epoch, uint64_t position) const override {
    return permutation_.Apply(Key(epoch), position);
  }
  uint64_t PositionOf(uint64_t epoch, uint64_t item) const override {
    return permutation_.Invert(Key(epoch), item);
  }
  void Fill(uint64_t epoch, uint64_t position, uint64_t stride,
            absl::Span<uint64_t> items) const override {
    const uint64_t key = Key(epoch);
    for (uint64_t& item : items) {
      item = permutation_.Apply(key, position);
      position += stride;
    }
  }
  OrderPiece PieceOf(uint64_t epoch, uint64_t item) const override {
    const uint64_t position = PositionOf(epoch, item);
    return {item, item + 1, position, position};
  }
  uint64_t span() const override { return 1; }

 private:
  uint64_t Key(uint64_t epoch) const { return DeriveKey(DeriveKey(seed_key_, epoch), kChunkKeys); }
  const Permutation permutation_;
  const uint64_t seed_key_ = SeedKey(spec_.seed);
};

}  // namespace

std::shared_ptr<const WindowedOrder> MakeShuffleOrder(OrderSpec spec, uint64_t size) {
  return std::make_shared<ShuffleOrder>(std::move(spec), size);
}

std::shared_ptr<const Order> MakeExactShuffleOrder(OrderSpec spec, uint64_t size) {
  return std::make_shared<ExactShuffleOrder>(std::move(spec), size);
}

}  // namespace shardfeed
