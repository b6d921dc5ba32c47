// Decides how many rows a thread takes at a time.

#ifndef SHARDFEED_PIPELINE_STAGES_STRETCH_SIZE_H_
#define SHARDFEED_PIPELINE_STAGES_STRETCH_SIZE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/rounding.h"

namespace shardfeed {

// Target duration of a stretch of a batch: long compared to handing it out, short compared to a
// batch.
inline constexpr uint64_t kRangeNs = 100'000;
// The same for rows that are delivered separately: each stretch is assembled like a batch.
inline constexpr uint64_t kRowsNs = 1'000'000;

// Learns from finished stretches how long a row takes and how many bytes it makes, and derives the
// size of the next stretch. `whole`: rows that belong to one output; otherwise each stretch is an
// output of its own.
//
// Learn, Rows and row_bytes must be called under the caller's lock. The others may be called at any
// time.
class StretchSize {
 public:
  // As many of the next `left` rows as are expected to be quick and to make at most `most_bytes`,
  // and at most twice as many as ever before. Stretches of equal length make up `left`.
  size_t Rows(size_t left, bool whole, uint64_t most_bytes) const {
    const uint64_t row_ns = this->row_ns();
    if (row_ns == 0) return 1;
    const uint64_t most =
        std::max<uint64_t>(std::min({(whole ? kRangeNs : kRowsNs) / row_ns,
                                     most_bytes / std::max<uint64_t>(row_bytes_, 1),
                                     2 * longest_.load(std::memory_order_relaxed)}),
                           1);
    if (left <= most) return left;
    const size_t stretches = CeilDivide(left, most);
    return CeilDivide(left, stretches);
  }

  // The time and bytes of a stretch.
  void Learn(size_t rows, bool whole, uint64_t ns, uint64_t bytes) {
    if (rows == 0) return;
    // A moving mean, initialized by the first value.
    const uint64_t each = std::max<uint64_t>(ns / rows, 1);
    const uint64_t mean = row_ns();
    row_ns_.store(mean == 0 ? each : (7 * mean + each) / 8, std::memory_order_relaxed);
    // An increase counts at once.
    row_bytes_ = std::max(bytes / rows, row_bytes_ - (row_bytes_ + 7) / 8);
    const uint64_t longest = longest_.load(std::memory_order_relaxed);
    const bool cheap = ns <= 2 * (whole ? kRangeNs : kRowsNs);
    longest_.store(cheap ? std::max<uint64_t>(longest, rows) : std::max<uint64_t>(rows / 2, 1),
                   std::memory_order_relaxed);
  }

  // Bytes that a row makes.
  uint64_t row_bytes() const { return row_bytes_; }

  // Time that a row takes; 0: not known yet.
  uint64_t row_ns() const { return row_ns_.load(std::memory_order_relaxed); }
  // Whether a batch of this many rows, which take `row_ns` each, is one stretch by its time.
  bool InOneStretch(size_t rows, uint64_t row_ns) const {
    return row_ns > 0 && rows * row_ns <= kRangeNs &&
           rows <= 2 * longest_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> row_ns_ = 0;
  std::atomic<uint64_t> longest_ = 1;  // rows that were taken at a time while that was cheap
  uint64_t row_bytes_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_STRETCH_SIZE_H_
