// The schedule of a mixture: the source from which each position takes its record, and the number
// within that source. Pure arithmetic; docs/mixtures.md has the definition.
//
// Positions are counted through all epochs. Those congruent modulo `lanes` are a lane. Each source
// has a number of lanes of its own, which divides `lanes`: lane l takes those of its numbers that
// are congruent to l modulo that. So a rank that has whole lanes has whole lanes of the sources,
// while each number of a source is taken once.

#ifndef SHARDFEED_READER_ORDER_MIX_SCHEDULE_H_
#define SHARDFEED_READER_ORDER_MIX_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "reader/order/divider.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// Immutable and thread-safe; moving is cheap.
class MixSchedule {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;
  static constexpr size_t kMostSources = 1 << 12;
  static constexpr size_t kMostSegments = 64;
  // The minimum number of positions, and of rows, within which sources are drawn at random.
  static constexpr uint64_t kDrawnPositions = 8192;
  static constexpr uint64_t kDrawnRows = 16;
  // Shares are multiples of 1 / 2^16, or finer ones if a source has a small share, to 1 / 2^20.
  static constexpr int kLeastBits = 16;
  static constexpr int kMostBits = 20;

  struct Draw {
    uint32_t source = 0;
    uint64_t number = 0;
  };

  // `source_lanes` has the number of lanes of each source, and `names` what messages call it.
  // Segments begin at multiples of `lanes`, to which their positions are rounded up. With a `seed`,
  // sources are drawn at random. InvalidArgument: the segments are not a schedule.
  static absl::StatusOr<MixSchedule> Make(const std::vector<std::string>& names,
                                          const std::vector<MixSegment>& segments, uint64_t lanes,
                                          const std::vector<uint64_t>& source_lanes,
                                          std::optional<uint64_t> seed = std::nullopt);
  // Checks what Make checks.
  static absl::Status Check(const std::vector<std::string>& names,
                            const std::vector<MixSegment>& segments, uint64_t lanes);

  size_t num_sources() const { return sources_.size(); }
  uint64_t lanes() const { return lanes_; }
  size_t num_segments() const { return segments_.size(); }
  uint64_t SegmentBegin(size_t segment) const { return segments_[segment].begin; }
  // The segment of a position.
  size_t SegmentOf(uint64_t position) const;
  // A source's share of a segment is SharesOf(segment)[source] / PeriodOf(segment).
  const std::vector<uint64_t>& SharesOf(size_t segment) const { return segments_[segment].counts; }
  uint64_t PeriodOf(size_t segment) const { return segments_[segment].rows * lanes_; }

  // Takes constant time, as does PositionOf except for the logarithm of the lanes. In each row of
  // `lanes` positions, a lane of a source takes the next numbers, in any order.
  Draw At(uint64_t position) const;
  // The position that takes a number of a source; kNever if none does.
  uint64_t PositionOf(uint32_t source, uint64_t number) const;
  // The first position that takes `number` or a greater one; kNever if none does.
  uint64_t FirstFrom(uint32_t source, uint64_t number) const;
  // The least number that no row before the position's has taken.
  uint64_t LeastLeft(uint32_t source, uint64_t position) const;

  // Draws at positions that follow each other at equal distances, for a fraction of what At costs.
  // Not thread-safe. Must not outlive its schedule.
  class Walk {
   public:
    explicit Walk(const MixSchedule& schedule);
    void GoTo(uint64_t position, uint64_t stride);
    // The position of the next draw.
    uint64_t position() const { return position_; }
    uint64_t stride() const { return stride_; }
    Draw Next();

   private:
    // What a lane of a source has taken before a period.
    struct Cell {
      uint64_t period = 0;  // 0: not known of the current period, whatever it is
      uint64_t taken = 0;
    };
    void Locate();

    const MixSchedule& schedule_;
    std::vector<Cell> cells_;
    uint64_t periods_ = 0;  // number of the current period among those that were walked through
    uint64_t position_ = 0;
    uint64_t stride_ = 1;
    uint64_t row_step_ = 0;
    uint64_t lane_step_ = 0;
    size_t segment_ = 0;
    uint64_t end_ = 0;  // of the segment
    uint64_t period_ = 0;
    uint64_t row_ = 0;  // in the period
    uint64_t lane_ = 0;
    uint64_t turned_ = 0;  // by how many columns lanes are turned in the period
  };

 private:
  // One period is a table of `rows` by `lanes` sources, which has each source within one of its
  // share in every prefix, before its rows are rotated, by each distance once in `lanes` rows;
  // otherwise sources and lanes would go in step, as two sources of equal shares do with an even
  // number of lanes. A lane takes another column in each period, so that after `lanes` periods
  // every lane has had the whole table. To draw sources at random, each column of each DrawnRows()
  // rows is permuted.
  // The entries of a source in columns that are congruent modulo its lanes are a cell.
  struct Segment {
    uint64_t begin = 0;
    uint64_t rows = 0;
    Divider row_divider{1};
    std::vector<uint64_t> counts;   // number of entries of each source in the table
    std::vector<uint16_t> sources;  // source of each cell of the table, row by row
    std::vector<uint32_t> ranks;    // rank of an entry in its cell
    std::vector<uint32_t> entries;  // the entries of each cell, ascending
    std::vector<uint32_t>
        begins;  // where each cell begins in `entries`, and the end of the last one
    std::vector<uint64_t> taken;  // numbers taken before the segment, per cell
  };
  struct Source {
    uint64_t first_cell = 0;
    Divider lanes{1};
  };

  MixSchedule() = default;
  uint64_t DrawnRows() const;
  void FillTable(Segment* segment, std::optional<uint64_t> seed) const;
  // How many entries the `count` cells of a source from `first` on have, cyclically.
  uint64_t InCells(const Segment& segment, const Source& source, uint64_t first,
                   uint64_t count) const;
  // How many numbers a lane of a source takes before a period of a segment.
  uint64_t TakenBefore(const Segment& segment, uint32_t source, uint64_t lane,
                       uint64_t period) const;
  // How many numbers a lane of a source takes in the first `rows` rows of a segment.
  uint64_t Taken(const Segment& segment, uint32_t source, uint64_t lane, uint64_t rows) const;

  uint64_t lanes_ = 1;
  Divider lane_divider_{1};
  std::vector<Source> sources_;
  std::vector<Segment> segments_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_ORDER_MIX_SCHEDULE_H_
