#include "reader/order/mix_order.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>
#include <utility>

#include "base/count_text.h"
#include "base/rounding.h"
#include "fmt/format.h"
#include "reader/order/permutation.h"
#include "reader/order/shuffle_order.h"

namespace shardfeed {
namespace {

constexpr uint64_t kWindowBytes = 256 << 20;
constexpr uint64_t kChunkBytes = 1 << 20;
// Total size of the chunks of sources that are read in order.
constexpr uint64_t kSequentialBytes = 64 << 20;
// A source has fewer lanes if its stretches of the window, or its lanes, would be shorter than
// this: its reads would be too small, and its lanes would end at very different times.
constexpr uint64_t kLeastStretch = 16;
constexpr uint64_t kLeastLane = 1024;
constexpr uint64_t kMostLanes = 1 << 16;
constexpr size_t kKeptEpochs = 4;
// Sources have chunks of different sizes. Units are looked up by numbers of this many items, so
// that a unit has few numbers and a number few units.
constexpr uint64_t kChunkParts = 16;

uint64_t NextNumber() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

// Weights as whole numbers, so that all machines round alike.
std::vector<uint64_t> WholeWeights(const std::vector<double>& weights) {
  const double most = *std::max_element(weights.begin(), weights.end());
  std::vector<uint64_t> whole;
  for (double weight : weights) {
    const auto rounded = static_cast<uint64_t>(std::llround(std::ldexp(weight / most, 30)));
    whole.push_back(weight > 0 ? std::max<uint64_t>(1, rounded) : 0);
  }
  return whole;
}

uint64_t Sum(const std::vector<uint64_t>& numbers) {
  uint64_t sum = 0;
  for (uint64_t number : numbers) sum += number;
  return sum;
}

// amount * part / whole.
uint64_t Share(uint64_t amount, uint64_t part, uint64_t whole) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(amount) * part / whole);
}

// A source's weight in the first segment in which it has one, and the sum of the weights there:
// later segments must not change what precedes them.
std::pair<uint64_t, uint64_t> FirstShare(const std::vector<std::vector<uint64_t>>& weights,
                                         size_t source) {
  for (const std::vector<uint64_t>& segment : weights) {
    if (segment[source] > 0) return {segment[source], Sum(segment)};
  }
  return {0, 1};
}

// Segments without weights get the numbers of records.
Mixture WithWeights(Mixture mixture, const std::vector<MixPart>& parts) {
  for (MixSegment& segment : mixture.schedule) {
    if (!segment.weights.empty()) continue;
    for (const MixPart& part : parts) segment.weights.push_back(static_cast<double>(part.items));
  }
  return mixture;
}

absl::Status Check(const OrderSpec& spec, const Mixture& mixture,
                   const std::vector<std::string>& names, const std::vector<MixPart>& parts) {
  if (spec.kind == OrderSpec::Kind::kInterleave) {
    return absl::InvalidArgumentError(
        "mix: the sources of a mixture are read in order or shuffled; their shards cannot be "
        "interleaved");
  }
  if (spec.lanes == 0 || spec.lanes > kMostLanes) {
    return absl::InvalidArgumentError(
        fmt::format("lanes must be from 1 to {}, got {}", kMostLanes, spec.lanes));
  }
  const std::vector<MixSegment>& schedule = mixture.schedule;
  if (absl::Status status = MixSchedule::Check(names, schedule, spec.lanes); !status.ok()) {
    return status;
  }
  std::set<std::string> seen;
  for (size_t s = 0; s < names.size(); ++s) {
    if (!seen.insert(names[s]).second) {
      return absl::InvalidArgumentError(fmt::format("mix: two sources are named '{}'", names[s]));
    }
    if (parts[s].items > 0) continue;
    for (const MixSegment& segment : schedule) {
      if (segment.weights[s] > 0) {
        return absl::InvalidArgumentError(fmt::format(
            "mix: '{}' has no records; leave it out, or set its weight to 0", names[s]));
      }
    }
  }
  return absl::OkStatus();
}

// The order of one source.
struct OwnOrder {
  OrderSpec spec;
  std::shared_ptr<const Order> order;
  const WindowedOrder* windowed = nullptr;  // `order`, if it has a window
};

// Makes the order of source number `source` of a mixture with `spec`, whose window is the source's
// share, weight / total, of `window`.
absl::StatusOr<OwnOrder> MakeOwnOrder(const OrderSpec& spec, uint64_t window, size_t source,
                                      const MixPart& part, uint64_t weight, uint64_t total) {
  const uint64_t bytes = std::max<uint64_t>(1, part.mean_bytes);
  const uint64_t items = std::max<uint64_t>(1, part.items);
  OwnOrder made;
  OrderSpec& own = made.spec;
  own.kind = spec.kind;
  own.seed = DeriveKey(spec.seed, source);
  if (spec.kind != OrderSpec::Kind::kShuffle) {
    const uint64_t most = Share(kSequentialBytes, weight, total);
    own.chunk = spec.chunk > 0 ? spec.chunk : std::min(kChunkBytes, most) / bytes;
    own.chunk = std::clamp<uint64_t>(own.chunk, 1, items);
    absl::StatusOr<std::shared_ptr<const Order>> order = Order::Make(own, {0, part.items}, bytes);
    if (!order.ok()) return order.status();
    made.order = *std::move(order);
  } else if (spec.window == OrderSpec::kAll) {
    own.window = OrderSpec::kAll;
    own.chunk = 1;
    made.order = MakeExactShuffleOrder(own, part.items);
  } else {
    own.window = std::clamp<uint64_t>(Share(window, weight, total), 1, items);
    own.lanes = spec.lanes;
    while (own.lanes % 2 == 0 &&
           (own.window / own.lanes < kLeastStretch || part.items / own.lanes < kLeastLane)) {
      own.lanes /= 2;
    }
    const uint64_t stretch = std::max<uint64_t>(1, own.window / own.lanes);
    own.chunk = spec.chunk > 0 ? spec.chunk : std::max<uint64_t>(1, kChunkBytes / bytes);
    own.chunk = std::min(own.chunk, stretch);
    own.window = stretch / own.chunk * own.chunk * own.lanes;
    std::shared_ptr<const WindowedOrder> order = MakeShuffleOrder(own, part.items);
    made.windowed = order.get();
    made.order = std::move(order);
  }
  return made;
}

// InvalidArgument: the numbers of items of an epoch of `size` records would overflow. `items` is
// the number of items of all parts.
absl::Status CheckSize(uint64_t size, uint64_t items, const std::vector<std::string>& names,
                       const std::vector<MixPart>& parts) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  if (size > kMost || items > kMost) {
    return absl::InvalidArgumentError(
        fmt::format("mix: an epoch of {} of {} records is too long: each must be at most {}", size,
                    items, kMost));
  }
  for (size_t s = 0; s < parts.size(); ++s) {
    if (parts[s].items == 0) continue;
    const uint64_t passes = size / parts[s].items + 2;
    if (passes > (uint64_t{1} << 62) / items) {
      return absl::InvalidArgumentError(
          fmt::format("mix: the {} of '{}' may be repeated {} times in an epoch of {}; make "
                      "the epoch shorter",
                      CountText(parts[s].items, "record"), names[s], passes, size));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MixOrder>> MixOrder::Make(OrderSpec spec,
                                                               std::vector<MixPart> parts) {
  const Mixture mixture = WithWeights(*spec.mixture, parts);
  std::vector<std::string> names;
  for (const MixSource& source : mixture.sources) names.push_back(source.name);
  const bool exact = spec.kind == OrderSpec::Kind::kShuffle && spec.window == OrderSpec::kAll;
  const bool windowed = spec.kind == OrderSpec::Kind::kShuffle && !exact;
  if (!windowed) spec.lanes = 1;
  if (absl::Status status = Check(spec, mixture, names, parts); !status.ok()) return status;

  std::vector<std::vector<uint64_t>> weights;
  for (const MixSegment& segment : mixture.schedule) {
    weights.push_back(WholeWeights(segment.weights));
  }
  uint64_t mean = 0;
  for (size_t s = 0; s < parts.size(); ++s) {
    mean += Share(parts[s].mean_bytes, weights[0][s], Sum(weights[0]));
  }
  const uint64_t window =
      spec.window > 0 ? spec.window : std::max<uint64_t>(1, kWindowBytes / std::max(mean, 1ul));
  std::vector<Source> sources;
  std::vector<uint64_t> source_lanes;
  uint64_t items = 0;
  uint64_t least_chunk = UINT64_MAX;
  uint64_t greatest_chunk = 1;
  for (size_t s = 0; s < parts.size(); ++s) {
    const MixPart& part = parts[s];
    const auto [weight, total] = FirstShare(weights, s);
    absl::StatusOr<OwnOrder> made = MakeOwnOrder(spec, window, s, part, weight, total);
    if (!made.ok()) return made.status();
    const OrderSpec& own = made->spec;
    Source source = {.begin = items, .items = part.items, .mean_bytes = part.mean_bytes};
    source.order = std::move(made->order);
    source.windowed = made->windowed;
    if (windowed) source.lanes = Divider(own.lanes);
    if (weight > 0) {
      source.span = source.order->span();
      least_chunk = std::min(least_chunk, own.chunk);
      greatest_chunk = std::max(greatest_chunk, own.chunk);
    }
    source.divider = Divider(std::max<uint64_t>(1, part.items));
    for (uint64_t number : {part.fingerprint, part.items, own.window, own.chunk, own.lanes}) {
      source.identity = DeriveKey(source.identity, number);
    }
    items += part.items;
    source_lanes.push_back(source.lanes.divisor());
    sources.push_back(std::move(source));
  }
  absl::StatusOr<MixSchedule> schedule =
      MixSchedule::Make(names, mixture.schedule, spec.lanes, source_lanes, mixture.seed);
  if (!schedule.ok()) return schedule.status();
  uint64_t size = mixture.length;
  if (size == 0) {
    size = UINT64_MAX;
    for (uint32_t s = 0; s < sources.size(); ++s) {
      if (FirstShare(weights, s).first == 0) continue;
      size = std::min(size, schedule->FirstFrom(s, sources[s].items));
    }
  }
  if (absl::Status status = CheckSize(size, items, names, parts); !status.ok()) return status;
  spec.kind = OrderSpec::Kind::kShuffle;
  spec.window = exact ? OrderSpec::kAll : window;
  spec.chunk = std::max(std::min(least_chunk, greatest_chunk), greatest_chunk / kChunkParts);
  return std::shared_ptr<const MixOrder>(
      new MixOrder(std::move(spec), size, *std::move(schedule), std::move(sources)));
}

MixOrder::MixOrder(OrderSpec spec, uint64_t size, MixSchedule schedule, std::vector<Source> sources)
    : Order(std::move(spec), size),
      schedule_(std::move(schedule)),
      sources_(std::move(sources)),
      pasts_(MakePasts()),
      items_(sources_.back().begin + sources_.back().items),
      item_divider_(std::max<uint64_t>(1, items_)),
      number_(NextNumber()) {}

std::string MixOrder::Describe() const { return DescribeBefore(0, kWholeMix); }

size_t MixOrder::SegmentsBefore(uint64_t position) const {
  return position == 0 ? 1 : schedule_.SegmentOf(position - 1) + 1;
}

std::vector<MixOrder::Past> MixOrder::MakePasts() const {
  std::vector<Past> pasts;
  uint64_t weights = 0;
  const auto add = [&](uint64_t number) { weights = DeriveKey(weights, number); };
  std::vector<bool> drawn(sources_.size());
  for (size_t i = 0; i < schedule_.num_segments(); ++i) {
    add(schedule_.SegmentBegin(i));
    add(schedule_.PeriodOf(i));
    const std::vector<uint64_t>& shares = schedule_.SharesOf(i);
    uint64_t data = 0;
    for (size_t s = 0; s < shares.size(); ++s) {
      if (shares[s] > 0) {
        add(s);
        add(shares[s]);
        drawn[s] = true;
      }
      if (drawn[s]) data = DeriveKey(DeriveKey(data, s), sources_[s].identity);
    }
    pasts.push_back({weights, data});
  }
  return pasts;
}

std::string MixOrder::DescribeBefore(uint64_t epoch, uint64_t position) const {
  uint64_t key = pasts_[SegmentsBefore(epoch * size_ + position) - 1].weights;
  // The length of epochs tells where an epoch begins.
  if (epoch > 0 || position >= kWholeMix) key = DeriveKey(key, size_);
  const std::optional<uint64_t>& draws = spec_.mixture->seed;
  return fmt::format("mix(seed={}, {}window={}, lanes={}, weights={:016x})", spec_.seed,
                     draws ? fmt::format("drawn with seed={}, ", *draws) : "",
                     spec_.window == OrderSpec::kAll ? "all" : fmt::to_string(spec_.window),
                     spec_.lanes, key);
}

uint64_t MixOrder::DataBefore(uint64_t epoch, uint64_t position) const {
  return pasts_[SegmentsBefore(epoch * size_ + position) - 1].data;
}

std::shared_ptr<const MixOrder::Epoch> MixOrder::FindEpoch(uint64_t epoch) const {
  MutexLock lock(mutex_);
  for (const std::shared_ptr<const Epoch>& known : epochs_) {
    if (known->epoch == epoch) return known;
  }
  auto made = std::make_shared<Epoch>();
  made->epoch = epoch;
  for (uint32_t s = 0; s < sources_.size(); ++s) {
    const uint64_t number = schedule_.LeastLeft(s, epoch * size_);
    made->first_pass.push_back(sources_[s].divider.Divide(number).quotient);
  }
  epochs_.push_back(made);
  if (epochs_.size() > kKeptEpochs) epochs_.pop_front();
  return made;
}

// The latest is kept for each thread, because one epoch is requested many times.
const MixOrder::Epoch& MixOrder::EpochOf(uint64_t epoch) const {
  struct Kept {
    uint64_t order = 0;
    std::shared_ptr<const Epoch> epoch;
  };
  thread_local Kept kept;
  if (kept.order != number_ || kept.epoch->epoch != epoch) kept = {number_, FindEpoch(epoch)};
  return *kept.epoch;
}

MixOrder::Turn MixOrder::TurnOf(const MixSchedule::Draw& draw) const {
  const auto [pass, position] = sources_[draw.source].divider.Divide(draw.number);
  return {draw.source, pass, position};
}

uint64_t MixOrder::OwnItem(const Turn& turn) const {
  return sources_[turn.source].order->ItemAt(turn.pass, turn.position);
}

uint64_t MixOrder::NumberOf(const Epoch& epoch, const Turn& turn, uint64_t item) const {
  return (turn.pass - epoch.first_pass[turn.source]) * items_ + sources_[turn.source].begin + item;
}

uint64_t MixOrder::ItemIn(const Epoch& epoch, uint64_t position) const {
  const Turn turn = TurnOf(schedule_.At(epoch.epoch * size_ + position));
  return NumberOf(epoch, turn, OwnItem(turn));
}

uint64_t MixOrder::ItemAt(uint64_t epoch, uint64_t position) const {
  return ItemIn(EpochOf(epoch), position);
}

void MixOrder::Fill(uint64_t epoch, uint64_t position, uint64_t stride,
                    absl::Span<uint64_t> items) const {
  const Epoch& of_epoch = EpochOf(epoch);
  for (uint64_t& item : items) {
    item = ItemIn(of_epoch, position);
    position += stride;
  }
}

// Keeps the stretch of each lane of each source, which its later positions need.
class MixOrder::Cursor : public OrderCursor {
 public:
  explicit Cursor(const MixOrder& order)
      : OrderCursor(order), order_(order), walk_(order.schedule_) {
    size_t lanes = 0;
    for (const Source& source : order.sources_) {
      first_lane_.push_back(lanes);
      lanes += source.lanes.divisor();
    }
    lanes_.resize(lanes);
    GoTo(0, 1);
  }

  void Fill(uint64_t epoch, uint64_t position, uint64_t stride,
            absl::Span<uint64_t> items) override {
    const Epoch& of_epoch = order_.EpochOf(epoch);
    position += epoch * order_.size_;
    if (walk_.position() != position || walk_.stride() != stride) GoTo(position, stride);
    for (uint64_t& item : items) {
      const Turn turn = order_.TurnOf(walk_.Next());
      item = order_.NumberOf(of_epoch, turn,
                             kept_[turn.source] ? ItemOfLane(turn) : order_.OwnItem(turn));
    }
  }

 private:
  struct Lane {
    uint64_t pass = 0;
    OrderStretch stretch;
  };

  void GoTo(uint64_t position, uint64_t stride) {
    const bool known = !kept_.empty() && walk_.stride() == stride;
    walk_.GoTo(position, stride);
    if (known) return;
    kept_.clear();
    for (const Source& source : order_.sources_) {
      // If other ranks take records of the lane, too, most of the stretch would be for them.
      kept_.push_back(source.windowed != nullptr && source.lanes.divisor() % stride == 0);
    }
  }

  uint64_t ItemOfLane(const Turn& turn) {
    const auto& [number, pass, position] = turn;
    const Source& source = order_.sources_[number];
    Lane& lane = lanes_[first_lane_[number] + source.lanes.Divide(position).remainder];
    OrderStretch& stretch = lane.stretch;
    uint64_t i = source.lanes.Divide(position - stretch.first).quotient;
    if (lane.pass != pass || position < stretch.first || i >= stretch.items.size()) {
      source.windowed->GetStretch(pass, position, &stretch);
      lane.pass = pass;
      i = source.lanes.Divide(position - stretch.first).quotient;
    }
    return stretch.items[i];
  }

  const MixOrder& order_;
  MixSchedule::Walk walk_;
  std::vector<char> kept_;          // whether stretches of a source's lanes are kept
  std::vector<size_t> first_lane_;  // number of each source's first lane in lanes_
  std::vector<Lane> lanes_;
};

std::unique_ptr<OrderCursor> MixOrder::MakeCursor() const {
  return std::make_unique<Cursor>(*this);
}

uint32_t MixOrder::SourceAt(uint64_t epoch, uint64_t position) const {
  return schedule_.At(epoch * size_ + position).source;
}

MixOrder::Place MixOrder::PlaceOf(const Epoch& epoch, uint64_t item) const {
  const auto [pass, at] = item_divider_.Divide(item);
  const auto source = std::upper_bound(sources_.begin(), sources_.end(), at,
                                       [](uint64_t i, const Source& s) { return i < s.begin; }) -
                      1;
  const auto number = static_cast<uint32_t>(source - sources_.begin());
  return {number, epoch.first_pass[number] + pass, at - source->begin};
}

uint64_t MixOrder::PositionOf(uint64_t epoch, uint64_t item) const {
  const Place place = PlaceOf(EpochOf(epoch), item);
  const Source& source = sources_[place.source];
  const uint64_t number =
      place.pass * source.items + source.order->PositionOf(place.pass, place.item);
  const uint64_t position = schedule_.PositionOf(place.source, number);
  const uint64_t begin = epoch * size_;
  return position >= begin && position - begin < size_ ? position - begin : kNowhere;
}

std::vector<uint64_t> MixOrder::ItemsOf(uint64_t epoch, uint64_t item) const {
  std::vector<uint64_t> items;
  const Place place = PlaceOf(EpochOf(epoch), item);
  const uint64_t end = (epoch + 1) * size_;
  uint64_t first = place.pass * sources_[place.source].items;  // number of the pass
  while (schedule_.FirstFrom(place.source, first) < end) {
    if (PositionOf(epoch, item) != kNowhere) items.push_back(item);
    item += items_;
    first += sources_[place.source].items;
  }
  return items;
}

std::pair<uint64_t, uint64_t> MixOrder::ReachOf(const Place& place, const OrderPiece& own) const {
  const Source& source = sources_[place.source];
  const uint64_t least = place.pass * source.items + own.min_position;
  const uint64_t greatest = place.pass * source.items + own.max_position;
  // Within a lane, later numbers are in the same row or a later one. If the piece is not in one
  // lane of the source, look at the first and the last number that each lane may have.
  const uint64_t lanes = own.lanes == source.lanes.divisor() ? 1 : source.lanes.divisor();
  uint64_t first = UINT64_MAX;
  uint64_t last = 0;
  for (uint64_t i = 0; i < lanes; ++i) {
    first = std::min(first, schedule_.PositionOf(place.source, least + i));
    last = std::max(last, schedule_.PositionOf(place.source, greatest - std::min(i, greatest)));
  }
  first -= first % spec_.lanes;
  last = last == MixSchedule::kNever ? last : last - last % spec_.lanes + spec_.lanes - 1;
  return {first, last};
}

OrderPiece MixOrder::PieceOf(uint64_t epoch, uint64_t item) const {
  const Place place = PlaceOf(EpochOf(epoch), item);
  const OrderPiece own = sources_[place.source].order->PieceOf(place.pass, place.item);
  const auto [first, last] = ReachOf(place, own);
  const uint64_t begin = epoch * size_;
  const uint64_t end = begin + size_;
  const uint64_t shift = item - place.item;
  return {.begin = own.begin + shift,
          .end = own.end + shift,
          .min_position = std::max(first, begin) - begin,
          .max_position = std::min(last, end - 1) - begin,
          .lanes = own.lanes,
          .whole = first >= begin && last < end};
}

uint64_t MixOrder::ItemInNext(uint64_t epoch, uint64_t item) const {
  const Place place = PlaceOf(EpochOf(epoch), item);
  const uint64_t now = EpochOf(epoch).first_pass[place.source];
  const uint64_t next = EpochOf(epoch + 1).first_pass[place.source];
  const OrderPiece own = sources_[place.source].order->PieceOf(place.pass, place.item);
  const bool goes_on = place.pass >= next && ReachOf(place, own).second >= (epoch + 1) * size_;
  return goes_on ? item - (next - now) * items_ : kNowhere;
}

uint64_t MixOrder::span() const {
  uint64_t span = 0;
  for (const Source& source : sources_) span += source.span;
  return span;
}

uint64_t MixOrder::HeldBytes(uint64_t world, uint64_t) const {
  uint64_t bytes = 0;
  for (const Source& source : sources_) {
    const bool divided = source.lanes.divisor() % world == 0 || source.mean_bytes > kMergeGapBytes;
    bytes += (divided ? CeilDivide(source.span, world) : source.span) * source.mean_bytes;
  }
  return bytes;
}

}  // namespace shardfeed
