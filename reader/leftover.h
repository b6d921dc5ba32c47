// What ranks have left of an epoch that had not delivered as many records each.

#ifndef SHARDFEED_READER_LEFTOVER_H_
#define SHARDFEED_READER_LEFTOVER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace shardfeed {

// Positions begin, begin + stride ... of an epoch, `count` of them.
struct PositionRun {
  uint64_t begin = 0;
  uint64_t stride = 1;
  uint64_t count = 0;

  bool operator==(const PositionRun&) const = default;
};

// Of the epoch, all positions before `behind` were delivered but those of `runs`. Who goes on from
// there delivers these first, one run after the other, in the places right before `behind`: a
// ReadPlace counts them there, from begin() on, and shares them out like all others.
struct Leftover {
  uint64_t epoch = 0;
  uint64_t behind = 0;
  std::vector<PositionRun> runs;

  bool operator==(const Leftover&) const = default;

  // InvalidArgument: numbers that make no sense.
  absl::Status Check() const;
  uint64_t begin() const;
  // What there is of it in an epoch of `size` records.
  Leftover Within(uint64_t size) const;
  // What stands at `place`, which is from begin() on and before `behind`, and in the places behind
  // it, as far as that is of one run.
  PositionRun At(uint64_t place) const;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_LEFTOVER_H_
