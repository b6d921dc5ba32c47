// The selection of records to read from a dataset.

#ifndef SHARDFEED_READER_SHARDS_SELECTION_H_
#define SHARDFEED_READER_SHARDS_SELECTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// A list of distinct records, stored as ranges. Item i of it is RecordAt(i); from size() on, the
// same items follow again and again, for mixtures that repeat records. It takes memory per
// range, and time logarithmic in the number of ranges per call. Immutable and thread-safe.
class Selection {
 public:
  // All of `records` records.
  static Selection All(uint64_t records);
  // The ranges in the given order. InvalidArgument: a range exceeds the dataset of `records`
  // records, or two of them overlap.
  static absl::StatusOr<Selection> Ranges(const std::vector<RecordRange>& ranges, uint64_t records);
  // The records of a list, in the given order. Errors as above.
  static absl::StatusOr<Selection> List(const std::vector<uint64_t>& numbers, uint64_t records);

  uint64_t size() const { return begin_.back(); }
  // Whether record numbers are ascending.
  bool sorted() const { return sorted_; }

  uint64_t RecordAt(uint64_t i) const {
    if (i >= size()) i %= size();
    if (ranges_.size() == 1) return ranges_[0].first + i;
    const size_t r = RangeOf(i);
    return ranges_[r].first + (i - begin_[r]);
  }
  // The item of `record`, or size() if it is not selected.
  uint64_t ItemOf(uint64_t record) const;
  // How many selected records have numbers below `record`. Requires sorted().
  uint64_t CountBelow(uint64_t record) const;

  // Calls f(first record, count) for the records of the items [begin, end), as few times as
  // possible.
  template <typename F>
  void ForEachRange(uint64_t begin, uint64_t end, F f) const {
    const uint64_t all = begin >= size() && begin < end ? begin - begin % size() : 0;
    begin -= all;
    end -= all;
    for (size_t r = RangeOf(begin); begin < end; ++r) {
      if (r == ranges_.size()) {
        begin -= size();
        end -= size();
        r = 0;
      }
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

#endif  // SHARDFEED_READER_SHARDS_SELECTION_H_
