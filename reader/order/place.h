// Where all ranks together are in the sequence of epochs.

#ifndef SHARDFEED_READER_ORDER_PLACE_H_
#define SHARDFEED_READER_ORDER_PLACE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// Ranks divide an epoch from a position `from` on: rank r of `world` delivers the positions from +
// r, from + r + world ..., up to the end of the last whole round of `batch` records per rank. An
// epoch begins with from = 0; when a run is resumed with another number of ranks or another batch
// size, the rest is divided again. Hence all ranks have the same number of records, and every
// record comes once, however often the number of ranks changes.
struct ReadPlace {
  uint64_t epoch = 0;
  // All records before it have been delivered, by this run or earlier ones.
  uint64_t position = 0;
  uint64_t from = 0;
  uint64_t batch = 1;
  uint64_t world = 1;

  bool operator==(const ReadPlace&) const = default;

  // InvalidArgument: numbers that no run saves.
  absl::Status Check() const {
    constexpr uint64_t kMost = uint64_t{1} << 62;  // bound below which no sum overflows
    const bool good = position < kMost && from <= position && batch >= 1 && batch <= UINT32_MAX &&
                      world >= 1 && world <= UINT32_MAX;
    return good ? absl::OkStatus()
                : absl::InvalidArgumentError("the state is damaged: its place is contradictory");
  }

  // The same place for other ranks and batches.
  ReadPlace SharedBy(uint64_t new_batch, uint64_t new_world) const {
    if (new_batch == batch && new_world == world) return *this;
    return {epoch, position, position, new_batch, new_world};
  }

  // The end of the positions delivered of an epoch of `size` records; beyond `size` there is
  // padding.
  uint64_t End(uint64_t size, EpochEnd end) const {
    const uint64_t left = size - (from < size ? from : size);
    const uint64_t round = batch * world;
    const uint64_t rounds = left / round + (end != EpochEnd::kDrop && left % round > 0 ? 1 : 0);
    return from + rounds * round;
  }
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_ORDER_PLACE_H_
