#include "reader/order/leftover.h"

#include <algorithm>

namespace shardfeed {

absl::Status Leftover::Check() const {
  constexpr uint64_t kMost = uint64_t{1} << 62;  // bound below which no sum overflows
  bool good = epoch < kMost && behind < kMost;
  uint64_t left = behind;
  for (const PositionRun& run : runs) {
    good = good && run.stride >= 1 && run.count >= 1 && run.begin < behind && run.count <= left &&
           run.count - 1 <= (behind - 1 - run.begin) / run.stride;
    left -= good ? run.count : 0;
  }
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError("the state is damaged: the rest of its epoch is contradictory");
}

uint64_t Leftover::begin() const {
  uint64_t records = 0;
  for (const PositionRun& run : runs) records += run.count;
  return behind - records;
}

Leftover Leftover::Within(uint64_t size) const {
  Leftover part = {epoch, std::min(behind, size), {}};
  for (PositionRun run : runs) {
    if (run.begin >= size) continue;
    run.count = std::min(run.count, (size - run.begin - 1) / run.stride + 1);
    part.runs.push_back(run);
  }
  return part;
}

PositionRun Leftover::At(uint64_t place) const {
  uint64_t first = begin();
  for (const PositionRun& run : runs) {
    const uint64_t skipped = place - first;
    if (skipped < run.count) {
      return {run.begin + skipped * run.stride, run.stride, run.count - skipped};
    }
    first += run.count;
  }
  return {};
}

}  // namespace shardfeed
