// Which records of a dataset are read.

#ifndef SHARDFEED_READER_SELECTION_H_
#define SHARDFEED_READER_SELECTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// A list of records without repetition, kept as ranges. Item i of it is RecordAt(i); memory is per
// range, time per call is the logarithm of their number. Immutable; thread safe.
class Selection {
 public:
  // All of `records` records.
  static Selection All(uint64_t records);
  // The ranges one after another, as given. InvalidArgument: one leaves the dataset of `records`
  // records, or two of them overlap.
  static absl::StatusOr<Selection> Ranges(const std::vector<RecordRange>& ranges, uint64_t records);
  // The records of a list, as given. Errors as above.
  static absl::StatusOr<Selection> List(const std::vector<uint64_t>& numbers, uint64_t records);

  uint64_t size() const { return begin_.back(); }
  // Whether record numbers only rise.
  bool sorted() const { return sorted_; }

  // The record that is item `i` < size().
  uint64_t RecordAt(uint64_t i) const {
    if (ranges_.size() == 1) return ranges_[0].first + i;
    const size_t r = RangeOf(i);
    return ranges_[r].first + (i - begin_[r]);
  }
  // The item that `record` is, or size() when it is not selected.
  uint64_t ItemOf(uint64_t record) const;
  // How many selected records have numbers below `record`. Only for sorted().
  uint64_t CountBelow(uint64_t record) const;

  // Calls f(first record, count) for the records of the items [begin, end), as few times as can be.
  template <typename F>
  void ForEachRange(uint64_t begin, uint64_t end, F f) const {
    for (size_t r = RangeOf(begin); begin < end; ++r) {
      const uint64_t stop = begin_[r + 1] < end ? begin_[r + 1] : end;
      f(ranges_[r].first + (begin - begin_[r]), stop - begin);
      begin = stop;
    }
  }

 private:
  size_t RangeOf(uint64_t item) const;

  std::vector<RecordRange> ranges_;  // at least one range; only a single one may be empty
  std::vector<uint64_t> begin_;      // number of items before each range, and in total
  std::vector<size_t> by_record_;    // ranges in the order of their records, if not sorted_
  bool sorted_ = true;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_SELECTION_H_
