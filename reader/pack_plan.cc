#include "reader/pack_plan.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <functional>
#include <limits>
#include <set>
#include <tuple>

#include "base/excerpt.h"
#include "base/rounding.h"
#include "fmt/format.h"
#include "io/parallel.h"
#include "reader/permutation.h"

namespace shardfeed {
namespace {

constexpr uint64_t kDefaultWindow = 1 << 14;
constexpr uint64_t kLeastWindow = 1 << 10;
constexpr uint64_t kMostWindow = 1 << 20;
// Of episodes, by default.
constexpr uint64_t kStepsBytes = 256 << 20;
constexpr uint64_t kMostEpisodes = 1 << 10;
// Windows that are kept for those who ask for their rows again.
constexpr size_t kKept = 4;
// The most parts of a window: a length that lies makes no more.
constexpr uint64_t kMostPlanned = 1 << 20;
// Of a lane's rows, those with more room left than 1 / kTolerated of a row are made anew from the
// sequences of all lanes, but no more than 1 / kRemade of the lane's rows: other ranks may have to
// read their records, too.
constexpr uint64_t kTolerated = 64;
constexpr size_t kRemade = 4;
// With Cost::kQuadratic, at least this many rows of like cost follow each other: one for each of as
// many ranks.
constexpr uint64_t kCostGroup = 64;
constexpr uint64_t kRowKey = 0x7061636b5f726f77;

struct DraftRow {
  uint64_t used = 0;
  // Offset of the sequence with which the row was begun. It is the longest one or the first one, so
  // rows in this order are mixed as well as records are.
  uint32_t offset = 0;
  std::vector<PackedSequence> sequences;
};

// Longest first; equally long ones by position.
void SortByLength(std::vector<PackedSequence>* sequences) {
  std::sort(sequences->begin(), sequences->end(),
            [](const PackedSequence& a, const PackedSequence& b) {
              return std::tuple(b.part.count, a.offset, a.part.begin) <
                     std::tuple(a.part.count, b.offset, b.part.begin);
            });
}

// Puts each sequence, from the longest to the shortest, into the row with the least room that
// suffices (Johnson, "Near-optimal bin packing algorithms", 1973).
std::vector<DraftRow> BestFit(std::vector<PackedSequence> sequences, uint64_t length) {
  SortByLength(&sequences);
  std::vector<DraftRow> rows;
  std::set<std::pair<uint64_t, uint32_t>> rooms;  // room and number of the rows that have any
  for (const PackedSequence& sequence : sequences) {
    const uint64_t count = sequence.part.count;
    auto best = rooms.lower_bound({count, 0});
    uint32_t number = rows.size();
    if (best == rooms.end()) {
      rows.push_back({0, sequence.offset, {}});
    } else {
      number = best->second;
      rooms.erase(best);
    }
    DraftRow& row = rows[number];
    row.used += count;
    row.sequences.push_back(sequence);
    if (row.used < length) rooms.insert({length - row.used, number});
  }
  return rows;
}

// Puts each sequence, in their order, into the first row that has room (Johnson, 1973).
std::vector<DraftRow> FirstFit(const std::vector<PackedSequence>& sequences, uint64_t length) {
  std::vector<DraftRow> rows;
  // A tree over as many rows as there may be: the most room of any row below a node.
  const size_t leaves = std::bit_ceil(std::max<size_t>(1, sequences.size()));
  std::vector<uint64_t> room(2 * leaves, length);
  for (const PackedSequence& sequence : sequences) {
    size_t node = 1;
    while (node < leaves) {
      node *= 2;
      if (room[node] < sequence.part.count) ++node;
    }
    const size_t number = node - leaves;
    if (number == rows.size()) rows.push_back({0, sequence.offset, {}});
    rows[number].used += sequence.part.count;
    rows[number].sequences.push_back(sequence);
    room[node] -= sequence.part.count;
    while (node /= 2) room[node] = std::max(room[2 * node], room[2 * node + 1]);
  }
  return rows;
}

// Cuts the sequences, one after the other, into rows.
std::vector<DraftRow> Concatenate(const std::vector<PackedSequence>& sequences, uint64_t length) {
  std::vector<DraftRow> rows;
  for (PackedSequence rest : sequences) {
    while (rest.part.count > 0) {
      if (rows.empty() || rows.back().used == length) rows.push_back({0, rest.offset, {}});
      DraftRow& row = rows.back();
      PackedSequence piece = rest;
      piece.part.count = std::min(rest.part.count, length - row.used);
      row.used += piece.part.count;
      row.sequences.push_back(piece);
      rest.part.begin += piece.part.count;
      rest.part.count -= piece.part.count;
    }
  }
  return rows;
}

// Takes the sequences from the longest to the shortest; each begins a row, or follows in the row
// that the last one did.
std::vector<DraftRow> Batch(std::vector<PackedSequence> sequences, uint64_t length) {
  SortByLength(&sequences);
  std::vector<DraftRow> rows;
  uint64_t longest = 0;
  uint64_t most = 0;  // records in the row
  for (const PackedSequence& sequence : sequences) {
    if (rows.empty() || rows.back().sequences.size() == most) {
      rows.push_back({0, sequence.offset, {}});
      longest = std::max<uint64_t>(1, sequence.part.count);
      most = std::max<uint64_t>(1, length / longest);
    }
    rows.back().sequences.push_back(sequence);
    rows.back().used += longest;
  }
  return rows;
}

std::vector<DraftRow> Steps(const std::vector<PackedSequence>& sequences) {
  std::vector<DraftRow> rows;
  for (PackedSequence step : sequences) {
    const uint64_t end = step.part.begin + step.part.count;
    for (step.part.count = 1; step.part.begin < end; ++step.part.begin) {
      rows.push_back({1, step.offset, {step}});
    }
  }
  return rows;
}

std::vector<DraftRow> MakeRows(std::vector<PackedSequence> sequences, uint64_t length,
                               PackSpec::How how) {
  switch (how) {
    case PackSpec::How::kBestFit:
      return BestFit(std::move(sequences), length);
    case PackSpec::How::kFirstFit:
      return FirstFit(sequences, length);
    case PackSpec::How::kConcatenate:
      return Concatenate(sequences, length);
    case PackSpec::How::kBatch:
      return Batch(std::move(sequences), length);
    case PackSpec::How::kSteps:
      return Steps(sequences);
  }
  return {};
}

std::vector<DraftRow> Pack(std::vector<PackedSequence> sequences, uint64_t length,
                           PackSpec::How how) {
  std::vector<DraftRow> rows = MakeRows(std::move(sequences), length, how);
  const auto earlier = [](const DraftRow& a, const DraftRow& b) { return a.offset < b.offset; };
  std::stable_sort(rows.begin(), rows.end(), earlier);
  return rows;
}

// Moves the sequences of the emptiest rows to `pool`: those that are worth it, and at least those
// beyond the first `most` rows.
void RemakeEmptiest(std::vector<DraftRow>* rows, size_t most, uint64_t length,
                    std::vector<PackedSequence>* pool) {
  std::vector<size_t> by_use(rows->size());
  for (size_t i = 0; i < by_use.size(); ++i) by_use[i] = i;
  std::stable_sort(by_use.begin(), by_use.end(),
                   [&](size_t a, size_t b) { return (*rows)[a].used < (*rows)[b].used; });
  const size_t worth = std::max<size_t>(1, rows->size() / kRemade);
  size_t remade = 0;
  for (; remade < by_use.size(); ++remade) {
    const uint64_t used = (*rows)[by_use[remade]].used;
    const bool empty = remade < worth && used + length / kTolerated < length;
    if (!empty && rows->size() - remade <= most) break;
    std::vector<PackedSequence>& moved = (*rows)[by_use[remade]].sequences;
    pool->insert(pool->end(), moved.begin(), moved.end());
    moved.clear();
  }
  std::erase_if(*rows, [](const DraftRow& row) { return row.sequences.empty(); });
}

// What attention over a row takes.
uint64_t QuadraticCost(const DraftRow& row) {
  uint64_t cost = 0;
  for (const PackedSequence& sequence : row.sequences) {
    cost += sequence.part.count * sequence.part.count;
  }
  return cost;
}

// Sorts all rows by their costs, and puts those of a lane into its turns in each group of `size`
// rows; the others of the group take what turns are left.
std::vector<DraftRow> SortByCost(std::vector<std::vector<DraftRow>> own,
                                 std::vector<DraftRow> shared, size_t size) {
  const size_t lanes = own.size();
  own.push_back(std::move(shared));
  struct Costly {
    uint64_t cost;
    size_t lane;  // `lanes`: of no lane
    DraftRow* row;
  };
  std::vector<Costly> sorted;
  for (size_t lane = 0; lane <= lanes; ++lane) {
    for (DraftRow& row : own[lane]) sorted.push_back({QuadraticCost(row), lane, &row});
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Costly& a, const Costly& b) { return a.cost > b.cost; });
  std::vector<DraftRow> rows(sorted.size());
  for (size_t begin = 0; begin < rows.size(); begin += size) {
    const size_t end = std::min(begin + size, rows.size());
    std::vector<bool> taken(end - begin);
    std::vector<size_t> turn(lanes);  // of each lane: how many it has had in the group
    std::vector<DraftRow*> others;
    for (size_t i = begin; i < end; ++i) {
      const size_t lane = sorted[i].lane;
      const size_t at = lane < lanes ? turn[lane]++ * lanes + lane : size;
      if (at < taken.size()) {
        rows[begin + at] = std::move(*sorted[i].row);
        taken[at] = true;
      } else {
        others.push_back(sorted[i].row);
      }
    }
    size_t at = 0;
    for (DraftRow* row : others) {
      while (taken[at]) ++at;
      rows[begin + at++] = std::move(*row);
    }
  }
  return rows;
}

// Permutes the groups of `size` rows; what is left stays at the end.
void ShuffleGroups(size_t size, uint64_t key, std::vector<DraftRow>* rows) {
  const size_t groups = rows->size() / size;
  const Permutation permutation(groups);
  std::vector<DraftRow> shuffled;
  shuffled.reserve(rows->size());
  for (size_t i = 0; i < rows->size(); ++i) {
    const size_t group = i / size;
    const size_t from = group < groups ? permutation.Apply(key, group) : group;
    shuffled.push_back(std::move((*rows)[from * size + i % size]));
  }
  *rows = std::move(shuffled);
}

// A row of each lane in turn, and one of the shared ones where a lane has none left.
std::vector<DraftRow> TakeTurns(std::vector<std::vector<DraftRow>> own,
                                std::vector<DraftRow> shared) {
  size_t left = shared.size();
  for (const std::vector<DraftRow>& lane : own) left += lane.size();
  std::vector<DraftRow> rows;
  rows.reserve(left);
  size_t next_shared = 0;
  std::vector<size_t> next(own.size());
  for (size_t i = 0; left > 0; ++i) {
    const size_t lane = i % own.size();
    if (next[lane] < own[lane].size()) {
      rows.push_back(std::move(own[lane][next[lane]++]));
    } else if (next_shared < shared.size()) {
      rows.push_back(std::move(shared[next_shared++]));
    } else {
      continue;  // the lane is behind its last row, and takes none of the others'
    }
    --left;
  }
  return rows;
}

void AppendRow(DraftRow* row, PackedWindow* window) {
  // Within a row, sequences are in the order of their positions.
  std::stable_sort(row->sequences.begin(), row->sequences.end(),
                   [](const PackedSequence& a, const PackedSequence& b) {
                     return std::tuple(a.offset, a.part.begin) < std::tuple(b.offset, b.part.begin);
                   });
  const size_t first = window->parts.size();
  for (const PackedSequence& sequence : row->sequences) {
    const PackedPart& part = sequence.part;
    // Pieces of a sequence that have come together again are one.
    if (window->parts.size() > first) {
      PackedPart& last = window->parts.back();
      if (last.item == part.item && last.begin + last.count == part.begin) {
        last.count += part.count;
        continue;
      }
    }
    window->parts.push_back(part);
  }
  window->begins.push_back(window->parts.size());
}

}  // namespace

PackedWindow PackLanes(std::vector<std::vector<PackedSequence>> lanes, const PackSpec& spec,
                       uint64_t key) {
  const uint64_t length = spec.length;
  std::vector<std::vector<DraftRow>> own;
  std::vector<PackedSequence> pool;
  own.reserve(lanes.size());
  for (std::vector<PackedSequence>& lane : lanes)
    own.push_back(Pack(std::move(lane), length, spec.how));
  std::vector<DraftRow> shared;
  if (spec.how == PackSpec::How::kSteps) {
    if (key != 0) {
      for (size_t lane = 0; lane < own.size(); ++lane) {
        ShuffleGroups(1, DeriveKey(key, lane), &own[lane]);
      }
    }
    // What lanes of long episodes have more than others is for the turns of those.
    size_t rows = 0;
    for (const std::vector<DraftRow>& lane : own) rows += lane.size();
    for (std::vector<DraftRow>& lane : own) {
      const size_t kept = std::min(lane.size(), rows / own.size());
      std::move(lane.begin() + kept, lane.end(), std::back_inserter(shared));
      lane.resize(kept);
    }
  } else if (own.size() > 1) {
    size_t rows = 0;
    for (const std::vector<DraftRow>& lane : own) rows += lane.size();
    // No lane has more rows than there are rounds over the lanes.
    const size_t rounds = rows / own.size();
    for (std::vector<DraftRow>& lane : own) RemakeEmptiest(&lane, rounds, length, &pool);
    std::stable_sort(
        pool.begin(), pool.end(), [](const PackedSequence& a, const PackedSequence& b) {
          return std::tuple(a.offset, a.part.begin) < std::tuple(b.offset, b.part.begin);
        });
    shared = Pack(std::move(pool), length, spec.how);
  }
  std::vector<DraftRow> rows;
  if (spec.cost == PackSpec::Cost::kQuadratic) {
    const size_t group = RoundUp(kCostGroup, std::max<size_t>(1, own.size()));
    rows = SortByCost(std::move(own), std::move(shared), group);
    ShuffleGroups(group, key, &rows);
  } else {
    rows = TakeTurns(std::move(own), std::move(shared));
  }
  PackedWindow window;
  window.begins.push_back(0);
  for (DraftRow& row : rows) AppendRow(&row, &window);
  return window;
}

uint64_t PackWindowOf(const PackSpec& spec, uint64_t mean_bytes) {
  if (spec.window > 0) return spec.window;
  if (spec.how != PackSpec::How::kSteps) return kDefaultWindow;
  return std::clamp<uint64_t>(kStepsBytes / std::max<uint64_t>(1, mean_bytes), 1, kMostEpisodes);
}

absl::StatusOr<std::shared_ptr<const PackPlan>> PackPlan::Make(
    std::shared_ptr<const ShardTable> table, const Selection& selection,
    std::shared_ptr<const Order> order, PackSpec spec) {
  if (spec.length == 0 || spec.length > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        fmt::format("pack: the length must lie between 1 and {}, got {}",
                    std::numeric_limits<int32_t>::max(), spec.length));
  }
  spec.window = PackWindowOf(spec, table->mean_bytes());
  const uint64_t least = spec.how == PackSpec::How::kSteps ? 1 : kLeastWindow;
  if (spec.window < least || spec.window > kMostWindow) {
    return absl::InvalidArgumentError(
        fmt::format("the window of planned rows must have between {} and {} records, got {}", least,
                    kMostWindow, spec.window));
  }
  if (spec.min_length > spec.max_length) {
    return absl::InvalidArgumentError(
        fmt::format("planned rows: no record has a length between min_length {} and max_length {}",
                    spec.min_length, spec.max_length));
  }
  std::shared_ptr<PackPlan> plan(
      new PackPlan(std::move(table), selection, std::move(order), std::move(spec)));
  const OrderSpec& shuffle = plan->order_->spec();
  if (shuffle.kind == OrderSpec::Kind::kShuffle && shuffle.window != OrderSpec::kAll) {
    plan->lanes_ = shuffle.lanes;
  }
  plan->window_ = RoundUp(plan->spec_.window, plan->lanes_);
  plan->num_windows_ = CeilDivide(plan->order_->size(), plan->window_);
  if (absl::Status status = plan->OpenLengths(); !status.ok()) return status;
  return plan;
}

absl::Status PackPlan::OpenLengths() {
  for (size_t shard = 0; shard < table_->num_shards(); ++shard) {
    absl::StatusOr<std::shared_ptr<const ShardIndex>> index = table_->Index(shard);
    if (!index.ok()) return index.status();
    const LengthColumn* const lengths = (*index)->FindLengths(spec_.lengths);
    if (lengths == nullptr) {
      std::vector<std::string> names;
      for (const LengthColumn& known : (*index)->lengths()) {
        names.push_back(Excerpt(known.name()));
      }
      const std::string name = Excerpt(spec_.lengths);
      return absl::FailedPreconditionError(fmt::format(
          "{}: the index has no lengths of {}{}; add them with 'shardfeed index --length {}'",
          table_->path(shard), name,
          names.empty() ? "" : fmt::format(", only of {}", fmt::join(names, ", ")), name));
    }
    const uint64_t most = spec_.length - spec_.separated;
    if (lengths->max() > most && spec_.max_length > most && KeepsSequences(spec_.how) &&
        spec_.longer == PackSpec::Longer::kRefuse) {
      for (uint64_t record = 0; record < (*index)->records(); ++record) {
        const uint64_t length = lengths->At(record);
        if (length <= most || !IsKept(length)) continue;
        return absl::InvalidArgumentError(fmt::format(
            "{}: {} has {} elements{}, which do not fit into a row of {}; raise the length, set "
            "truncate or split, or leave it out by max_length",
            table_->NameOf(table_->begins()[shard] + record), Excerpt(spec_.lengths), length,
            spec_.separated ? " and a separator" : "", spec_.length));
      }
    }
    shards_.push_back({*std::move(index), *lengths});
  }
  return absl::OkStatus();
}

uint64_t PackPlan::LengthOf(uint64_t item) const {
  const uint64_t record = selection_.RecordAt(item);
  const size_t shard = table_->ShardOf(record);
  return shards_[shard].lengths.At(record - table_->begins()[shard]);
}

uint64_t PackPlan::CountLeftOut(uint64_t epoch) const {
  if (spec_.min_length == 0 && spec_.max_length == UINT64_MAX) return 0;
  uint64_t left_out = 0;
  std::vector<uint64_t> items;
  for (uint64_t first = 0; first < order_->size(); first += items.size()) {
    items.resize(std::min(window_, order_->size() - first));
    order_->Fill(epoch, first, 1, absl::MakeSpan(items));
    for (uint64_t item : items) left_out += !IsKept(LengthOf(item));
  }
  return left_out;
}

absl::StatusOr<PackedWindow> PackPlan::MakeWindow(uint64_t epoch, uint64_t window) const {
  const uint64_t first = window * window_;
  std::vector<uint64_t> items(std::min(window_, order_->size() - first));
  order_->Fill(epoch, first, 1, absl::MakeSpan(items));
  std::vector<std::vector<PackedSequence>> lanes(lanes_);
  for (auto& lane : lanes) lane.reserve(items.size() / lanes_ + 1);
  std::vector<PackedSequence> whole;  // rows of one long record's elements alone
  uint64_t parts = 0;
  for (uint32_t offset = 0; offset < items.size(); ++offset) {
    PackedSequence sequence{{items[offset], 0, LengthOf(items[offset])}, offset};
    uint64_t& count = sequence.part.count;
    if (!IsKept(count) || (count == 0 && spec_.how != PackSpec::How::kBatch)) continue;
    if (spec_.how == PackSpec::How::kBatch) {
      lanes[offset % lanes_].push_back(sequence);
      continue;
    }
    if (spec_.how == PackSpec::How::kSteps) {
      if (count <= spec_.steps_before || count - spec_.steps_before <= spec_.steps_after) continue;
      count -= spec_.steps_before + spec_.steps_after;
      sequence.part.begin = spec_.steps_before;
    }
    count = SequenceOf(count);
    if (spec_.longer == PackSpec::Longer::kTruncate) count = std::min(count, spec_.length);
    parts += 1 + count / spec_.length;
    if (parts > kMostPlanned) {
      return absl::ResourceExhaustedError(
          fmt::format("pack: positions {} to {} of epoch {} make more than {} parts of rows of {} "
                      "elements; use longer "
                      "rows or a smaller window",
                      first, first + items.size() - 1, epoch, kMostPlanned, spec_.length));
    }
    std::vector<PackedSequence>& lane = lanes[offset % lanes_];
    if (KeepsSequences(spec_.how)) {
      PackedSequence piece = sequence;
      for (piece.part.count = spec_.length; count > spec_.length; count -= spec_.length) {
        lane.push_back(piece);
        piece.part.begin += spec_.length;
      }
      sequence.part.begin = piece.part.begin;
    }
    lane.push_back(sequence);
  }
  uint64_t key = DeriveKey(DeriveKey(kRowKey + order_->spec().seed, epoch), window);
  const bool shuffled = order_->spec().kind == OrderSpec::Kind::kShuffle;
  if (spec_.how == PackSpec::How::kSteps && !shuffled) key = 0;
  return PackLanes(std::move(lanes), spec_, key);
}

absl::StatusOr<std::shared_ptr<const PackedWindow>> PackPlan::Window(uint64_t epoch,
                                                                     uint64_t window) const {
  {
    MutexLock lock(mutex_);
    for (const Kept& kept : kept_) {
      if (kept.epoch == epoch && kept.window == window) return kept.rows;
    }
  }
  absl::StatusOr<PackedWindow> made = MakeWindow(epoch, window);
  if (!made.ok()) return made.status();
  auto rows = std::make_shared<const PackedWindow>(*std::move(made));
  MutexLock lock(mutex_);
  kept_.push_back({epoch, window, rows});
  if (kept_.size() > kKept) kept_.pop_front();
  return rows;
}

absl::StatusOr<PackedPart> PackPlan::PartAt(uint64_t epoch, uint64_t place) const {
  const uint64_t window = WindowOf(place);
  const uint64_t part = PartOf(place);
  if (window < num_windows_) {
    absl::StatusOr<std::shared_ptr<const PackedWindow>> rows = Window(epoch, window);
    if (!rows.ok()) return rows.status();
    if (part < (*rows)->parts.size()) return (*rows)->parts[part];
  }
  return absl::OutOfRangeError(
      fmt::format("pack: no row of epoch {} has part {} of window {}", epoch, part, window));
}

absl::Status PackPlan::ForEachWindow(
    uint64_t epoch, std::stop_token stop,
    const std::function<absl::Status(uint64_t window, const PackedWindow& rows)>& visit) const {
  return ParallelFor(num_windows_, ThreadCount(0), std::move(stop), [&](size_t window) {
    const absl::StatusOr<PackedWindow> rows = MakeWindow(epoch, window);
    return rows.ok() ? visit(window, *rows) : rows.status();
  });
}

absl::StatusOr<uint64_t> PackPlan::CountRows(uint64_t epoch) const {
  std::atomic<uint64_t> rows = 0;
  absl::Status status = ForEachWindow(epoch, {}, [&](uint64_t, const PackedWindow& window) {
    rows += window.rows();
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return rows.load();
}

absl::StatusOr<RankRows> RankRows::From(std::shared_ptr<const PackPlan> plan, uint64_t epoch,
                                        uint64_t place, uint64_t phase, uint64_t rank,
                                        uint64_t world, uint64_t batch) {
  RankRows rows(std::move(plan), epoch, phase, rank, world, batch);
  rows.next_window_ = PackPlan::WindowOf(place);
  const uint64_t part = PackPlan::PartOf(place);
  if (part == 0) return rows;
  absl::StatusOr<bool> any = rows.LookAhead();
  if (!any.ok()) return any.status();
  if (*any) {
    const std::vector<uint32_t>& begins = rows.known_.back().rows->begins;
    const auto at = std::lower_bound(begins.begin(), begins.end(), part);
    if (at != begins.end() && *at == part) {
      rows.known_.back().first = -(at - begins.begin());
      rows.known_end_ = rows.known_.back().end();
      return rows;
    }
  }
  return absl::InvalidArgumentError("the state is damaged: no row begins at its place");
}

absl::StatusOr<bool> RankRows::LookAhead() {
  if (next_window_ >= plan_->num_windows()) return false;
  absl::StatusOr<std::shared_ptr<const PackedWindow>> rows = plan_->Window(epoch_, next_window_);
  if (!rows.ok()) return rows.status();
  known_.push_back({next_window_, *std::move(rows), known_end_, std::nullopt});
  known_end_ = known_.back().end();
  ++next_window_;
  return true;
}

const RankRows::Known* RankRows::Find(int64_t row) const {
  for (const Known& known : known_) {
    if (row >= known.first && row < known.end()) return &known;
  }
  return nullptr;
}

absl::StatusOr<std::optional<RankRows::Row>> RankRows::Next() {
  const uint64_t round_end = passed_ - phase() + round_;
  while (known_end_ < static_cast<int64_t>(round_end)) {
    absl::StatusOr<bool> more = LookAhead();
    if (!more.ok()) return more.status();
    if (!*more) return std::nullopt;
  }
  const auto number = static_cast<int64_t>(passed_ + rank_);
  const Known& known = *Find(number);
  Row row{known.rows, static_cast<size_t>(number - known.first), 0};
  row.place = PackPlan::PlaceOf(known.number, known.rows->begins[row.number]);
  passed_ += world_;
  return row;
}

uint64_t RankRows::place() const {
  const Known* const known = Find(static_cast<int64_t>(passed_));
  if (known == nullptr) return PackPlan::PlaceOf(next_window_, 0);
  return PackPlan::PlaceOf(known->number,
                           known->rows->begins[static_cast<int64_t>(passed_) - known->first]);
}

void RankRows::FindItems(Known* known) const {
  known->items.emplace();
  const int64_t first = std::max<int64_t>(0, known->first);
  // The first row of this rank from there on.
  const auto world = static_cast<int64_t>(world_);
  int64_t row = first + (static_cast<int64_t>(rank_) - first % world + world) % world;
  for (; row < known->end(); row += world) {
    for (const PackedPart& part : known->rows->row(row - known->first)) {
      known->items->push_back(part.item);
    }
  }
  std::sort(known->items->begin(), known->items->end());
}

absl::StatusOr<std::vector<uint64_t>> RankRows::Items(uint64_t first, uint64_t last, uint64_t begin,
                                                      uint64_t end) {
  while (next_window_ <= last) {
    absl::StatusOr<bool> more = LookAhead();
    if (!more.ok()) return more.status();
    if (!*more) break;
  }
  std::vector<uint64_t> items;
  for (Known& known : known_) {
    if (known.number < first || known.number > last) continue;
    if (!known.items) FindItems(&known);
    const auto from = std::lower_bound(known.items->begin(), known.items->end(), begin);
    items.insert(items.end(), from, std::lower_bound(from, known.items->end(), end));
  }
  std::sort(items.begin(), items.end());
  return items;
}

void RankRows::DropPassed() {
  const int64_t last = static_cast<int64_t>(passed_ + rank_) - static_cast<int64_t>(world_);
  while (!known_.empty() && known_.front().end() <= last) known_.pop_front();
}

}  // namespace shardfeed
