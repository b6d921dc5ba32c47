#include "reader/order/mix_schedule.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>
#include <utility>

#include "base/count_text.h"
#include "base/rounding.h"
#include "fmt/format.h"
#include "reader/order/permutation.h"

namespace shardfeed {
namespace {

constexpr uint64_t kRotationKey = 0x6d69785f726f7773;
constexpr uint64_t kDrawKey = 0x6d69785f64726177;
constexpr uint64_t kMostCells = 1 << 22;  // maximum number of sources times lanes
// Shares are made finer until the smallest has this number of entries in a period.
constexpr uint64_t kLeastEntries = 16;
// Weights as integers, so that all machines round alike.
constexpr int kWeightBits = 40;

// Returns counts in proportion to `weights`, the largest of which is below 2^41. Their sum is
// `period`, and the count of a weight above 0 is above 0.
std::vector<uint64_t> Quantize(const std::vector<uint64_t>& weights, uint64_t total,
                               uint64_t period) {
  std::vector<uint64_t> counts(weights.size());
  std::vector<std::pair<uint64_t, size_t>> rests;
  uint64_t left = period;
  for (size_t s = 0; s < weights.size(); ++s) {
    if (weights[s] == 0) continue;
    const unsigned __int128 product = static_cast<unsigned __int128>(weights[s]) * period;
    const auto whole = static_cast<uint64_t>(product / total);
    counts[s] = std::max<uint64_t>(1, whole);
    if (whole > 0) rests.emplace_back(static_cast<uint64_t>(product % total), s);
    left -= counts[s];  // may wrap around below 0, and back
  }
  // Round up the largest remainders.
  std::stable_sort(rests.begin(), rests.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; static_cast<int64_t>(left) > 0; i = (i + 1) % rests.size(), --left) {
    ++counts[rests[i].second];
  }
  for (; static_cast<int64_t>(left) < 0; ++left) {
    --*std::max_element(counts.begin(), counts.end());
  }
  return counts;
}

// Returns a sequence of counts[0] times 0, counts[1] times 1 ..., in every prefix of which the
// count of each number differs from its share by less than one. The i-th occurrence of a number
// with share w lies between (i - 1) / w and i / w; the one with the earliest deadline comes first
// (Tijdeman, "The chairman assignment problem", 1980).
std::vector<uint16_t> SmoothSequence(const std::vector<uint64_t>& counts, uint64_t length) {
  struct Next {
    uint64_t deadline;
    uint16_t source;
    uint64_t times;

    bool operator>(const Next& other) const {
      return std::tie(deadline, source) > std::tie(other.deadline, other.source);
    }
  };
  // Sources by the first place at which they may come next.
  std::vector<std::vector<Next>> released(length);
  const auto release = [&](uint16_t source, uint64_t times) {
    if (times == counts[source]) return;
    released[times * length / counts[source]].push_back(
        {CeilDivide((times + 1) * length, counts[source]), source, times});
  };
  for (size_t s = 0; s < counts.size(); ++s) release(static_cast<uint16_t>(s), 0);
  std::priority_queue<Next, std::vector<Next>, std::greater<>> waiting;
  std::vector<uint16_t> sequence(length);
  for (uint64_t at = 0; at < length; ++at) {
    for (const Next& next : std::exchange(released[at], {})) waiting.push(next);
    const Next next = waiting.top();
    waiting.pop();
    sequence[at] = next.source;
    // The next time may be released already at this place, but comes after it.
    if (next.times + 1 == counts[next.source]) continue;
    const uint64_t from = (next.times + 1) * length / counts[next.source];
    const Next after = {CeilDivide((next.times + 2) * length, counts[next.source]), next.source,
                        next.times + 1};
    if (from <= at) {
      waiting.push(after);
    } else {
      released[from].push_back(after);
    }
  }
  return sequence;
}

}  // namespace

absl::Status MixSchedule::Check(const std::vector<std::string>& names,
                                const std::vector<MixSegment>& segments, uint64_t lanes) {
  if (names.empty()) return absl::InvalidArgumentError("mix: there are no sources");
  if (names.size() > kMostSources) {
    return absl::InvalidArgumentError(fmt::format(
        "mix: expected at most {} sources, got {}; join some", kMostSources, names.size()));
  }
  if (names.size() * lanes > kMostCells) {
    return absl::InvalidArgumentError(
        fmt::format("mix: sources times lanes must be at most {}, got {} times {}; use fewer lanes",
                    kMostCells, names.size(), lanes));
  }
  if (segments.empty()) return absl::InvalidArgumentError("mix: there are no weights");
  if (segments.size() > kMostSegments) {
    return absl::InvalidArgumentError(
        fmt::format("mix: the schedule has {} changes of weights, and at most {} are possible",
                    segments.size() - 1, kMostSegments - 1));
  }
  if (segments[0].position != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "mix: the schedule begins at position {}, but must say the weights from position 0 on",
        segments[0].position));
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    const MixSegment& segment = segments[i];
    if (segment.position > (uint64_t{1} << 60)) {
      return absl::InvalidArgumentError(
          fmt::format("mix: position {} of the schedule is too large", segment.position));
    }
    if (i > 0 && RoundUp(segment.position, lanes) <= RoundUp(segments[i - 1].position, lanes)) {
      return absl::InvalidArgumentError(fmt::format(
          "mix: weights change at position {}, and again at {}: changes must be in "
          "ascending order{}",
          segments[i - 1].position, segment.position,
          lanes == 1 ? "" : fmt::format(", in different {} positions (the lanes)", lanes)));
    }
    if (segment.weights.size() != names.size()) {
      return absl::InvalidArgumentError(fmt::format("mix: got {} for {}",
                                                    CountText(segment.weights.size(), "weight"),
                                                    CountText(names.size(), "source")));
    }
    for (size_t s = 0; s < names.size(); ++s) {
      if (!(segment.weights[s] >= 0) || std::isinf(segment.weights[s])) {
        return absl::InvalidArgumentError(
            fmt::format("mix: the weight of '{}' must be a number of at least 0, got {}", names[s],
                        segment.weights[s]));
      }
    }
    if (*std::max_element(segment.weights.begin(), segment.weights.end()) <= 0) {
      return absl::InvalidArgumentError(
          segments.size() == 1
              ? "mix: all weights are 0"
              : fmt::format("mix: all weights from position {} on are 0", segment.position));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<MixSchedule> MixSchedule::Make(const std::vector<std::string>& names,
                                              const std::vector<MixSegment>& segments,
                                              uint64_t lanes,
                                              const std::vector<uint64_t>& source_lanes,
                                              std::optional<uint64_t> seed) {
  if (absl::Status status = Check(names, segments, lanes); !status.ok()) return status;
  MixSchedule schedule;
  schedule.lanes_ = lanes;
  schedule.lane_divider_ = Divider(lanes);
  uint64_t cells = 0;
  for (uint64_t of_source : source_lanes) {
    schedule.sources_.push_back({cells, Divider(of_source)});
    cells += of_source;
  }
  for (const MixSegment& given : segments) {
    const double most = *std::max_element(given.weights.begin(), given.weights.end());
    std::vector<uint64_t> weights;
    uint64_t total = 0;
    uint64_t least = UINT64_MAX;
    size_t scarcest = 0;
    for (size_t s = 0; s < names.size(); ++s) {
      weights.push_back(
          static_cast<uint64_t>(std::llround(std::ldexp(given.weights[s] / most, kWeightBits))));
      total += weights.back();
      if (given.weights[s] > 0 && weights.back() < least) {
        least = weights.back();
        scarcest = s;
      }
    }
    if (least < total >> kMostBits) {
      return absl::InvalidArgumentError(fmt::format(
          "mix: '{}' has less than 1/{} of the weights; make it larger or 0, or read its shards "
          "together with those of another source",
          names[scarcest], uint64_t{1} << kMostBits));
    }
    int bits = kLeastBits;
    while (bits < kMostBits && least < (total >> bits) * kLeastEntries) bits += 2;
    Segment& segment = schedule.segments_.emplace_back();
    segment.begin = RoundUp(given.position, lanes);
    segment.rows = CeilDivide(uint64_t{1} << bits, lanes);
    segment.row_divider = Divider(segment.rows);
    segment.counts = Quantize(weights, total, segment.rows * lanes);
    schedule.FillTable(&segment, seed);
    segment.taken.resize(cells);
    if (schedule.segments_.size() == 1) continue;
    const Segment& before = schedule.segments_[schedule.segments_.size() - 2];
    const uint64_t rows = (segment.begin - before.begin) / lanes;
    for (uint32_t s = 0; s < names.size(); ++s) {
      for (uint64_t lane = 0; lane < source_lanes[s]; ++lane) {
        const uint64_t cell = schedule.sources_[s].first_cell + lane;
        segment.taken[cell] = before.taken[cell] + schedule.Taken(before, s, lane, rows);
      }
    }
  }
  return schedule;
}

uint64_t MixSchedule::DrawnRows() const {
  return std::max(kDrawnRows, CeilDivide(kDrawnPositions, lanes_));
}

void MixSchedule::FillTable(Segment* segment, std::optional<uint64_t> seed) const {
  const uint64_t period = segment->rows * lanes_;
  const std::vector<uint16_t> sequence = SmoothSequence(segment->counts, period);
  std::vector<uint16_t> rotated(period);
  const Permutation rotations(lanes_);
  for (uint64_t row = 0; row < segment->rows; ++row) {
    const auto [turn, at] = lane_divider_.Divide(row);
    const auto begin = sequence.begin() + static_cast<int64_t>(row * lanes_);
    const uint64_t rotation = rotations.Apply(DeriveKey(kRotationKey, turn), at);
    std::rotate_copy(begin, begin + static_cast<int64_t>(rotation),
                     begin + static_cast<int64_t>(lanes_),
                     rotated.begin() + static_cast<int64_t>(row * lanes_));
  }
  segment->sources = rotated;
  if (seed) {
    const uint64_t key = DeriveKey(DeriveKey(kDrawKey, *seed), segment->begin);
    for (uint64_t first = 0; first < segment->rows; first += DrawnRows()) {
      const uint64_t rows = std::min(DrawnRows(), segment->rows - first);
      const Permutation draw(rows);
      for (uint64_t column = 0; column < lanes_; ++column) {
        const uint64_t of_column = DeriveKey(key, first * lanes_ + column);
        for (uint64_t row = 0; row < rows; ++row) {
          segment->sources[(first + row) * lanes_ + column] =
              rotated[(first + draw.Apply(of_column, row)) * lanes_ + column];
        }
      }
    }
  }
  segment->ranks.resize(period);
  segment->entries.resize(period);
  const Source& last = sources_.back();
  std::vector<uint32_t>& begins = segment->begins;
  begins.assign(last.first_cell + last.lanes.divisor() + 1, 0);
  const auto cell_of = [&](uint64_t source, uint64_t column) {
    return sources_[source].first_cell + sources_[source].lanes.Divide(column).remainder;
  };
  for (uint64_t entry = 0; entry < period; ++entry) {
    const uint64_t column = lane_divider_.Divide(entry).remainder;
    segment->ranks[entry] = begins[cell_of(segment->sources[entry], column) + 1]++;
  }
  for (size_t i = 1; i < begins.size(); ++i) begins[i] += begins[i - 1];
  for (uint64_t entry = 0; entry < period; ++entry) {
    const uint64_t column = lane_divider_.Divide(entry).remainder;
    segment->entries[begins[cell_of(segment->sources[entry], column)] + segment->ranks[entry]] =
        static_cast<uint32_t>(entry);
  }
}

uint64_t MixSchedule::InCells(const Segment& segment, const Source& source, uint64_t first,
                              uint64_t count) const {
  const uint32_t* const begins = segment.begins.data() + source.first_cell;
  const uint64_t lanes = source.lanes.divisor();
  const uint64_t end = first + count;
  if (end <= lanes) return begins[end] - begins[first];
  return begins[lanes] - begins[first] + (begins[end - lanes] - begins[0]);
}

uint64_t MixSchedule::Taken(const Segment& segment, uint32_t source, uint64_t lane,
                            uint64_t rows) const {
  const Source& of = sources_[source];
  const auto [period, row] = segment.row_divider.Divide(rows);
  const auto [rounds, cells] = of.lanes.Divide(period);
  const uint64_t cell = of.first_cell + of.lanes.Divide(lane + cells).remainder;
  const auto begin = segment.entries.begin() + segment.begins[cell];
  const auto end = segment.entries.begin() + segment.begins[cell + 1];
  return rounds * segment.counts[source] + InCells(segment, of, lane, cells) +
         (std::lower_bound(begin, end, row * lanes_) - begin);
}

size_t MixSchedule::SegmentOf(uint64_t position) const {
  size_t segment = segments_.size() - 1;
  while (segments_[segment].begin > position) --segment;
  return segment;
}

MixSchedule::Draw MixSchedule::At(uint64_t position) const {
  const Segment& segment = segments_[SegmentOf(position)];
  const auto [rows, lane] = lane_divider_.Divide(position - segment.begin);
  const auto [period, row] = segment.row_divider.Divide(rows);
  const uint64_t entry = row * lanes_ + lane_divider_.Divide(lane + period).remainder;
  const uint32_t source = segment.sources[entry];
  const Source& of = sources_[source];
  const uint64_t own_lane = of.lanes.Divide(lane).remainder;
  const uint64_t taken = TakenBefore(segment, source, own_lane, period) + segment.ranks[entry];
  return {source, taken * of.lanes.divisor() + own_lane};
}

uint64_t MixSchedule::TakenBefore(const Segment& segment, uint32_t source, uint64_t lane,
                                  uint64_t period) const {
  const Source& of = sources_[source];
  const auto [rounds, cells] = of.lanes.Divide(period);
  return segment.taken[of.first_cell + lane] + rounds * segment.counts[source] +
         InCells(segment, of, lane, cells);
}

MixSchedule::Walk::Walk(const MixSchedule& schedule)
    : schedule_(schedule),
      cells_(schedule.sources_.back().first_cell + schedule.sources_.back().lanes.divisor()) {
  GoTo(0, 1);
}

void MixSchedule::Walk::GoTo(uint64_t position, uint64_t stride) {
  position_ = position;
  stride_ = stride;
  const auto [rows, lanes] = schedule_.lane_divider_.Divide(stride);
  row_step_ = rows;
  lane_step_ = lanes;
  Locate();
}

void MixSchedule::Walk::Locate() {
  segment_ = schedule_.SegmentOf(position_);
  const Segment& segment = schedule_.segments_[segment_];
  end_ = segment_ + 1 < schedule_.segments_.size() ? schedule_.segments_[segment_ + 1].begin
                                                   : UINT64_MAX;
  const auto [rows, lane] = schedule_.lane_divider_.Divide(position_ - segment.begin);
  const auto [period, row] = segment.row_divider.Divide(rows);
  period_ = period;
  row_ = row;
  lane_ = lane;
  turned_ = schedule_.lane_divider_.Divide(period).remainder;
  ++periods_;
}

MixSchedule::Draw MixSchedule::Walk::Next() {
  const uint64_t lanes = schedule_.lanes_;
  const Segment& segment = schedule_.segments_[segment_];
  const uint64_t column = lane_ + turned_;
  const uint64_t entry = row_ * lanes + (column < lanes ? column : column - lanes);
  const uint32_t source = segment.sources[entry];
  const Source& of = schedule_.sources_[source];
  const uint64_t own_lane = of.lanes.Divide(lane_).remainder;
  Cell& cell = cells_[of.first_cell + own_lane];
  if (cell.period != periods_) {
    cell = {periods_, schedule_.TakenBefore(segment, source, own_lane, period_)};
  }
  const Draw draw = {source, (cell.taken + segment.ranks[entry]) * of.lanes.divisor() + own_lane};
  position_ += stride_;
  row_ += row_step_;
  lane_ += lane_step_;
  if (lane_ >= lanes) {
    lane_ -= lanes;
    ++row_;
  }
  if (row_ >= segment.rows || position_ >= end_) Locate();
  return draw;
}

uint64_t MixSchedule::PositionOf(uint32_t source, uint64_t number) const {
  const Source& of = sources_[source];
  const auto [of_lane, lane] = of.lanes.Divide(number);
  size_t at = segments_.size() - 1;
  while (segments_[at].taken[of.first_cell + lane] > of_lane) --at;
  const Segment& segment = segments_[at];
  const uint64_t count = segment.counts[source];
  if (count == 0)
    return kNever;  // it is the last segment, or the next one would have begun with it
  const uint64_t within = of_lane - segment.taken[of.first_cell + lane];
  const uint64_t rounds = within / count;
  const uint64_t rest = within % count;
  // Find the largest number of cells that have no more entries than the remainder.
  uint64_t low = 0;
  uint64_t high = of.lanes.divisor();
  while (low + 1 < high) {
    const uint64_t middle = low + (high - low) / 2;
    (InCells(segment, of, lane, middle) <= rest ? low : high) = middle;
  }
  const uint64_t cell = of.first_cell + of.lanes.Divide(lane + low).remainder;
  const uint64_t entry =
      segment.entries[segment.begins[cell] + rest - InCells(segment, of, lane, low)];
  const auto [row, column] = lane_divider_.Divide(entry);
  const uint64_t period = rounds * of.lanes.divisor() + low;
  const uint64_t turned = column + lanes_ - lane_divider_.Divide(period).remainder;
  return segment.begin + (period * segment.rows + row) * lanes_ +
         (turned < lanes_ ? turned : turned - lanes_);
}

uint64_t MixSchedule::FirstFrom(uint32_t source, uint64_t number) const {
  const uint64_t of_source = sources_[source].lanes.divisor();
  uint64_t first = kNever;
  for (uint64_t lane = 0; lane < of_source; ++lane) {
    // Later numbers of the lane may have earlier positions in the same row.
    const uint64_t row = PositionOf(source, number + lane) / lanes_;
    for (uint64_t next = number + lane;; next += of_source) {
      const uint64_t position = PositionOf(source, next);
      if (position == kNever || position / lanes_ > row) break;
      first = std::min(first, position);
    }
  }
  return first;
}

uint64_t MixSchedule::LeastLeft(uint32_t source, uint64_t position) const {
  const Segment& segment = segments_[SegmentOf(position)];
  const uint64_t of_source = sources_[source].lanes.divisor();
  const uint64_t rows = (position - segment.begin) / lanes_;
  uint64_t least = UINT64_MAX;
  for (uint64_t lane = 0; lane < of_source; ++lane) {
    const uint64_t taken =
        segment.taken[sources_[source].first_cell + lane] + Taken(segment, source, lane, rows);
    least = std::min(least, taken * of_source + lane);
  }
  return least;
}

}  // namespace shardfeed
