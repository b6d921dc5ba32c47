#include "reader/plan/pack_rows.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "base/rounding.h"
#include "reader/order/permutation.h"

namespace shardfeed {
namespace {

// A lane's rows in which more than 1 / kTolerated of the room is left are made again from the
// sequences of all lanes, but no more than 1 / kRemade of the lane's rows: other ranks may have to
// read their records, too.
constexpr uint64_t kTolerated = 64;
constexpr size_t kRemade = 4;
// Ranks up to this number take rows of the same group at a time.
constexpr uint64_t kLeastGroup = 64;

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

// Takes the sequences from the longest to the shortest; each begins a row, or joins the row of the
// preceding one.
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

// The cost of attention over a row.
uint64_t QuadraticCost(const DraftRow& row) {
  uint64_t cost = 0;
  for (const PackedSequence& sequence : row.sequences) {
    cost += sequence.part.count * sequence.part.count;
  }
  return cost;
}

// A row of lane `lane`; lanes.size(): of no lane.
struct LaneRow {
  uint64_t cost;
  size_t lane;
  DraftRow* row;
};

// Appends rows to those of a window, whose first one has the turn of lane `start`. A row gets a
// turn of its lane as long as there are any; the other rows get the turns that are left.
void AppendInTurns(absl::Span<const LaneRow> group, size_t lanes, size_t start,
                   std::vector<DraftRow>* rows) {
  const size_t begin = rows->size();
  rows->resize(begin + group.size());
  std::vector<bool> taken(group.size());
  std::vector<size_t> turns(lanes);  // how many rows each lane has had
  std::vector<DraftRow*> others;
  const size_t first = (start + begin) % std::max<size_t>(1, lanes);  // lane of the first turn
  for (const LaneRow& of : group) {
    const size_t at = of.lane < lanes ? turns[of.lane]++ * lanes + (of.lane + lanes - first) % lanes
                                      : group.size();
    if (at < group.size()) {
      (*rows)[begin + at] = std::move(*of.row);
      taken[at] = true;
    } else {
      others.push_back(of.row);
    }
  }
  size_t at = 0;
  for (DraftRow* row : others) {
    while (taken[at]) ++at;
    (*rows)[begin + at++] = std::move(*row);
  }
}

// Orders all rows so that those of a group of `size` rows, counted from the epoch's first row on,
// have similar costs; `start` is how many rows of a group earlier windows have. The window's first
// rows complete that group, and its last ones begin another, which the next window completes: both
// have the costs in the middle, which are nearly the same in all windows.
std::vector<DraftRow> OrderByCost(std::vector<std::vector<DraftRow>> own,
                                  std::vector<DraftRow> shared, size_t size, size_t start,
                                  uint64_t key) {
  const size_t lanes = own.size();
  own.push_back(std::move(shared));
  std::vector<LaneRow> sorted;
  for (size_t lane = 0; lane <= lanes; ++lane) {
    for (DraftRow& row : own[lane]) sorted.push_back({QuadraticCost(row), lane, &row});
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const LaneRow& a, const LaneRow& b) { return a.cost > b.cost; });
  const size_t head_rows = std::min(sorted.size(), (size - start) % size);
  const size_t groups = (sorted.size() - head_rows) / size;
  const size_t cut = sorted.size() - groups * size;  // rows of the first and the last group
  const size_t costlier = (groups + 1) / 2;          // groups before the middle
  std::vector<LaneRow> head;
  std::vector<LaneRow> tail;
  for (size_t i = 0; i < cut; ++i) {
    // Both have rows from all of the middle.
    const bool in_head = (i + 1) * head_rows / cut > i * head_rows / cut;
    (in_head ? head : tail).push_back(sorted[costlier * size + i]);
  }
  std::vector<DraftRow> rows;
  rows.reserve(sorted.size());
  AppendInTurns(head, lanes, start, &rows);
  const Permutation permutation(groups);
  for (size_t i = 0; i < groups; ++i) {
    const size_t group = permutation.Apply(key, i);
    const size_t begin = group * size + (group < costlier ? 0 : cut);
    AppendInTurns(absl::MakeSpan(sorted).subspan(begin, size), lanes, start, &rows);
  }
  AppendInTurns(tail, lanes, start, &rows);
  return rows;
}

void Shuffle(uint64_t key, std::vector<DraftRow>* rows) {
  const Permutation permutation(rows->size());
  std::vector<DraftRow> shuffled;
  shuffled.reserve(rows->size());
  for (size_t i = 0; i < rows->size(); ++i) {
    shuffled.push_back(std::move((*rows)[permutation.Apply(key, i)]));
  }
  *rows = std::move(shuffled);
}

// A row of each lane in turn, beginning with lane `start`, and one of the shared ones where a lane
// has none left.
std::vector<DraftRow> TakeTurns(std::vector<std::vector<DraftRow>> own,
                                std::vector<DraftRow> shared, size_t start) {
  size_t left = shared.size();
  for (const std::vector<DraftRow>& lane : own) left += lane.size();
  std::vector<DraftRow> rows;
  rows.reserve(left);
  size_t next_shared = 0;
  std::vector<size_t> next(own.size());
  for (size_t i = start; left > 0; ++i) {
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

uint64_t RowGroup(uint64_t lanes) { return RoundUp(kLeastGroup, std::max<uint64_t>(1, lanes)); }

PackedWindow PackLanes(std::vector<std::vector<PackedSequence>> lanes, const PackSpec& spec,
                       uint64_t key, uint64_t rows_before) {
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
        Shuffle(DeriveKey(key, lane), &own[lane]);
      }
    }
    // Surplus rows of lanes with long episodes take the turns of the other lanes.
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
    // No lane has more rows than the number of rounds over the lanes.
    const size_t rounds = rows / own.size();
    for (std::vector<DraftRow>& lane : own) RemakeEmptiest(&lane, rounds, length, &pool);
    std::stable_sort(
        pool.begin(), pool.end(), [](const PackedSequence& a, const PackedSequence& b) {
          return std::tuple(a.offset, a.part.begin) < std::tuple(b.offset, b.part.begin);
        });
    shared = Pack(std::move(pool), length, spec.how);
  }
  const size_t group = RowGroup(own.size());
  const size_t start = rows_before % group;
  std::vector<DraftRow> rows =
      spec.cost == PackSpec::Cost::kQuadratic
          ? OrderByCost(std::move(own), std::move(shared), group, start, key)
          : TakeTurns(std::move(own), std::move(shared), start);
  PackedWindow window;
  window.begins.push_back(0);
  for (DraftRow& row : rows) AppendRow(&row, &window);
  return window;
}

}  // namespace shardfeed
