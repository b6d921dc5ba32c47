#include "reader/plan/pack_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "base/count_text.h"
#include "base/excerpt.h"
#include "base/rounding.h"
#include "fmt/format.h"
#include "io/parallel.h"
#include "io/remedy.h"
#include "reader/order/permutation.h"

namespace shardfeed {
namespace {

constexpr uint64_t kDefaultWindow = 1 << 14;
constexpr uint64_t kLeastWindow = 1 << 10;
constexpr uint64_t kMostWindow = 1 << 20;
// The default window of episodes.
constexpr uint64_t kStepsBytes = 256 << 20;
constexpr uint64_t kMostEpisodes = 1 << 10;
// Number of windows that are kept in case their rows are asked for again.
constexpr size_t kKept = 4;
// The maximum number of parts of a window, even if a length is wrong.
constexpr uint64_t kMostPlanned = 1 << 20;
constexpr uint64_t kRowKey = 0x7061636b5f726f77;

}  // namespace

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
  plan->group_ = RowGroup(plan->lanes_);
  plan->window_ = RoundUp(plan->spec_.window, plan->lanes_);
  plan->num_windows_ = CeilDivide(plan->order_->size(), plan->window_);
  if (plan->num_windows_ > kMostWindows) {
    return absl::InvalidArgumentError(
        fmt::format("planned rows: {} have {} windows of {}, but at most {} can be planned; use a "
                    "larger window",
                    CountText(plan->order_->size(), "record"), plan->num_windows_, plan->window_,
                    kMostWindows));
  }
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
      return absl::FailedPreconditionError(
          fmt::format("{}: the index has no lengths of {}{}; index the dataset with these lengths "
                      "by 'shardfeed index' or sf.index",
                      table_->path(shard), name,
                      names.empty() ? "" : fmt::format(", only of {}", fmt::join(names, ", "))));
    }
    const uint64_t most = spec_.length - spec_.separated;
    if (lengths->max() > most && spec_.max_length > most && KeepsSequences(spec_.how) &&
        spec_.longer == PackSpec::Longer::kRefuse) {
      for (uint64_t record = 0; record < (*index)->records(); ++record) {
        const uint64_t length = lengths->At(record);
        if (length <= most || !IsKept(length)) continue;
        return WithRemedy(
            absl::InvalidArgumentError(fmt::format(
                "{}: {} has {} elements{}, which do not fit into a row of {}; raise the length, "
                "or truncate, split or leave out longer sequences",
                table_->NameOf(table_->begins()[shard] + record), Excerpt(spec_.lengths), length,
                spec_.separated ? " and a separator" : "", spec_.length)),
            {"max_length", fmt::format("{}", most), "leave them out"});
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

absl::StatusOr<PackedWindow> PackPlan::MakeWindow(uint64_t epoch, uint64_t place) const {
  const uint64_t window = WindowOf(place);
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
      return absl::ResourceExhaustedError(fmt::format(
          "pack: positions {} to {} of epoch {} make more than {} parts of rows of {}; use "
          "longer rows or a smaller window",
          first, first + items.size() - 1, epoch, kMostPlanned,
          CountText(spec_.length, "element")));
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
  return PackLanes(std::move(lanes), spec_, key, (place >> kPartBits) % kMostGroup);
}

absl::StatusOr<std::shared_ptr<const PackedWindow>> PackPlan::Window(uint64_t epoch,
                                                                     uint64_t place) const {
  const uint64_t first = place - PartOf(place);
  {
    MutexLock lock(mutex_);
    for (const Kept& kept : kept_) {
      if (kept.epoch == epoch && kept.first == first) return kept.rows;
    }
  }
  absl::StatusOr<PackedWindow> made = MakeWindow(epoch, first);
  if (!made.ok()) return made.status();
  auto rows = std::make_shared<const PackedWindow>(*std::move(made));
  MutexLock lock(mutex_);
  kept_.push_back({epoch, first, rows});
  if (kept_.size() > kKept) kept_.pop_front();
  return rows;
}

absl::StatusOr<PackedPart> PackPlan::PartAt(uint64_t epoch, uint64_t place) const {
  const uint64_t window = WindowOf(place);
  const uint64_t part = PartOf(place);
  if (window < num_windows_) {
    absl::StatusOr<std::shared_ptr<const PackedWindow>> rows = Window(epoch, place);
    if (!rows.ok()) return rows.status();
    if (part < (*rows)->parts.size()) return (*rows)->parts[part];
  }
  return absl::OutOfRangeError(
      fmt::format("pack: no row of epoch {} has part {} of window {}", epoch, part, window));
}

absl::StatusOr<std::vector<uint64_t>> PackPlan::RowsBefore(uint64_t epoch,
                                                           std::stop_token stop) const {
  std::vector<uint64_t> before(num_windows_ + 1);
  // The number of a window's rows does not depend on those before it.
  absl::Status status =
      ParallelFor(num_windows_, ThreadCount(0), std::move(stop), [&](size_t window) {
        const absl::StatusOr<PackedWindow> rows = MakeWindow(epoch, PlaceOf(window, 0));
        if (rows.ok()) before[window + 1] = rows->rows();
        return rows.status();
      });
  if (!status.ok()) return status;
  std::partial_sum(before.begin(), before.end(), before.begin());
  return before;
}

absl::Status PackPlan::ForEachWindow(
    uint64_t epoch, std::stop_token stop,
    const std::function<absl::Status(uint64_t window, const PackedWindow& rows)>& visit) const {
  const absl::StatusOr<std::vector<uint64_t>> before = RowsBefore(epoch, stop);
  if (!before.ok()) return before.status();
  return ParallelFor(num_windows_, ThreadCount(0), std::move(stop), [&](size_t window) {
    const absl::StatusOr<PackedWindow> rows = MakeWindow(epoch, PlaceOf(window, (*before)[window]));
    return rows.ok() ? visit(window, *rows) : rows.status();
  });
}

absl::StatusOr<uint64_t> PackPlan::CountRows(uint64_t epoch) const {
  const absl::StatusOr<std::vector<uint64_t>> before = RowsBefore(epoch, {});
  if (!before.ok()) return before.status();
  return before->back();
}

absl::StatusOr<RankRows> RankRows::From(std::shared_ptr<const PackPlan> plan, uint64_t epoch,
                                        uint64_t place, uint64_t phase, uint64_t rank,
                                        uint64_t world, uint64_t batch) {
  RankRows rows(std::move(plan), epoch, phase, rank, world, batch);
  // Ranks take rows in turn, so all have taken equally many.
  if (phase >= rows.round_ || phase % world != 0) {
    return absl::InvalidArgumentError(
        fmt::format("the state is damaged: {} cannot have taken {} of the {} rows of a round",
                    CountText(world, "rank"), phase, rows.round_));
  }
  const uint64_t part = PackPlan::PartOf(place);
  rows.next_window_ = place - part;
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
  if (PackPlan::WindowOf(next_window_) >= plan_->num_windows()) return false;
  absl::StatusOr<std::shared_ptr<const PackedWindow>> rows = plan_->Window(epoch_, next_window_);
  if (!rows.ok()) return rows.status();
  known_.push_back({next_window_, *std::move(rows), known_end_, std::nullopt});
  known_end_ = known_.back().end();
  next_window_ = plan_->PlaceBehind(next_window_, *known_.back().rows);
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
  row.place = known.place + known.rows->begins[row.number];
  passed_ += world_;
  return row;
}

uint64_t RankRows::place() const {
  const Known* const known = Find(static_cast<int64_t>(passed_));
  if (known == nullptr) return next_window_;
  return known->place + known->rows->begins[static_cast<int64_t>(passed_) - known->first];
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
  while (PackPlan::WindowOf(next_window_) <= last) {
    absl::StatusOr<bool> more = LookAhead();
    if (!more.ok()) return more.status();
    if (!*more) break;
  }
  std::vector<uint64_t> items;
  for (Known& known : known_) {
    if (known.number() < first || known.number() > last) continue;
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
