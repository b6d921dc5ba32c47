// The rest of an epoch of which ranks have delivered different numbers of records.

#ifndef SHARDFEED_READER_ORDER_LEFTOVER_H_
#define SHARDFEED_READER_ORDER_LEFTOVER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace shardfeed {

// The positions begin, begin + stride ... of an epoch, `count` of them.
struct PositionRun {
  uint64_t begin = 0;
  uint64_t stride = 1;
  uint64_t count = 0;

  bool operator==(const PositionRun&) const = default;
};

// All positions of the epoch before `behind` were delivered, except those of `runs`. A run that
// resumes there delivers these first, one run after the other, in the places right before `behind`:
// a ReadPlace counts them there, from begin() on, and distributes them like all others.
struct Leftover {
  uint64_t epoch = 0;
  uint64_t behind = 0;
  std::vector<PositionRun> runs;

  bool operator==(const Leftover&) const = default;

  // InvalidArgument: contradictory numbers.
  absl::Status Check() const;
  uint64_t begin() const;
  // What it contains of an epoch with `size` records.
  Leftover Within(uint64_t size) const;
  // The positions at `place`, from begin() on and before `behind`, and in the places after it, as
  // far as they belong to one run.
  PositionRun At(uint64_t place) const;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_ORDER_LEFTOVER_H_
