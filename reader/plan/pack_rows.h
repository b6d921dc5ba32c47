// Fills rows with the sequences of one window of positions: how they are put together, and in which
// order the rows come. docs/packing.md has the definition.

#ifndef SHARDFEED_READER_PLAN_PACK_ROWS_H_
#define SHARDFEED_READER_PLAN_PACK_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// Elements [begin, begin + count) of an item's sequence.
struct PackedPart {
  uint64_t item = 0;
  uint64_t begin = 0;
  uint64_t count = 0;

  bool operator==(const PackedPart&) const = default;
};

// The rows of one window of positions.
struct PackedWindow {
  std::vector<PackedPart> parts;  // one row after the other
  std::vector<uint32_t> begins;   // where each row begins in `parts`, and the end of the last one

  size_t rows() const { return begins.size() - 1; }
  absl::Span<const PackedPart> row(size_t i) const {
    return absl::MakeSpan(parts).subspan(begins[i], begins[i + 1] - begins[i]);
  }
};

// A sequence of a window: that of a record, or the rest of one that is longer than a row.
struct PackedSequence {
  PackedPart part;
  uint32_t offset = 0;  // offset of the record's position in the window
};

// The rows of an epoch, from the first one on, are divided into groups of this many, whatever the
// windows: a multiple of the lanes, and at least 64. Row i of a group has the turn of lane i modulo
// `lanes`; with Cost::kQuadratic, the rows of a group have similar costs.
uint64_t RowGroup(uint64_t lanes);

// Fills the rows of a window with sequences of at most spec.length elements (of any with kBatch).
// `lanes[l]` has those of lane l, by offset. Rows take the turns of the lanes one after the other,
// as far as whole rows can be made of a lane's own sequences; the others are made of all lanes'.
// `key`: that of the permutations for Cost::kQuadratic and kSteps; 0: kSteps permutes nothing.
// `rows_before`: how many rows of the epoch precede the window, or their number modulo RowGroup: on
// it depends only the order of the rows.
PackedWindow PackLanes(std::vector<std::vector<PackedSequence>> lanes, const PackSpec& spec,
                       uint64_t key, uint64_t rows_before);

// Whether sequences are only cut if they are longer than a row.
inline bool KeepsSequences(PackSpec::How how) {
  return how == PackSpec::How::kBestFit || how == PackSpec::How::kFirstFit;
}

}  // namespace shardfeed

#endif  // SHARDFEED_READER_PLAN_PACK_ROWS_H_
