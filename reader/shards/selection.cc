#include "reader/shards/selection.h"

#include <algorithm>
#include <numeric>

#include "base/count_text.h"
#include "fmt/format.h"

namespace shardfeed {

Selection Selection::All(uint64_t records) {
  Selection all;
  all.ranges_ = {{0, records}};
  all.begin_ = {0, records};
  return all;
}

absl::StatusOr<Selection> Selection::Ranges(const std::vector<RecordRange>& ranges,
                                            uint64_t records) {
  Selection selection;
  selection.begin_ = {0};
  for (RecordRange range : ranges) {
    if (range.count == 0) continue;
    if (range.count == RecordRange::kToEnd) {
      range.count = range.first < records ? records - range.first : 1;
    }
    if (range.first >= records || range.count > records - range.first) {
      return absl::InvalidArgumentError(
          range.count == 1
              ? fmt::format("record {} does not exist: the dataset has {}", range.first,
                            CountText(records, "record"))
              : fmt::format("records {} to {} do not exist: the dataset has {}", range.first,
                            range.first + range.count - 1, CountText(records, "record")));
    }
    std::vector<RecordRange>& kept = selection.ranges_;
    if (!kept.empty() && kept.back().first + kept.back().count == range.first) {
      kept.back().count += range.count;
      selection.begin_.back() += range.count;
    } else {
      if (!kept.empty() && range.first < kept.back().first) selection.sorted_ = false;
      kept.push_back(range);
      selection.begin_.push_back(selection.begin_.back() + range.count);
    }
  }
  if (selection.ranges_.empty()) return All(0);
  std::vector<size_t> order(selection.ranges_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto& kept = selection.ranges_;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return kept[a].first < kept[b].first; });
  for (size_t i = 1; i < order.size(); ++i) {
    const RecordRange& before = kept[order[i - 1]];
    if (before.first + before.count > kept[order[i]].first) {
      return absl::InvalidArgumentError(
          fmt::format("record {} appears twice", kept[order[i]].first));
    }
  }
  if (!selection.sorted_) selection.by_record_ = std::move(order);
  return selection;
}

absl::StatusOr<Selection> Selection::List(const std::vector<uint64_t>& numbers, uint64_t records) {
  std::vector<RecordRange> ranges;
  ranges.reserve(numbers.size());
  for (uint64_t number : numbers) ranges.push_back({number, 1});
  return Ranges(ranges, records);
}

size_t Selection::RangeOf(uint64_t item) const {
  if (ranges_.size() == 1) return 0;
  return std::upper_bound(begin_.begin(), begin_.end() - 1, item) - begin_.begin() - 1;
}

uint64_t Selection::ItemOf(uint64_t record) const {
  size_t low = 0;
  size_t high = ranges_.size();
  const auto range_at = [&](size_t i) { return by_record_.empty() ? i : by_record_[i]; };
  while (low + 1 < high) {
    const size_t middle = low + (high - low) / 2;
    (ranges_[range_at(middle)].first <= record ? low : high) = middle;
  }
  const size_t r = range_at(low);
  const bool inside = record >= ranges_[r].first && record - ranges_[r].first < ranges_[r].count;
  return inside ? begin_[r] + (record - ranges_[r].first) : size();
}

uint64_t Selection::CountBelow(uint64_t record) const {
  const auto after = std::lower_bound(
      ranges_.begin(), ranges_.end(), record,
      [](const RecordRange& range, uint64_t number) { return range.first < number; });
  if (after == ranges_.begin()) return 0;
  const size_t r = after - ranges_.begin() - 1;
  return begin_[r] + std::min(ranges_[r].count, record - ranges_[r].first);
}

}  // namespace shardfeed
