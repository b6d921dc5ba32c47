// Rows that a stage takes one by one and lets go in another order, with a small state.

#ifndef SHARDFEED_PIPELINE_STAGES_PENDING_ROWS_H_
#define SHARDFEED_PIPELINE_STAGES_PENDING_ROWS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "absl/types/span.h"
#include "pipeline/stages/reordered_rows.h"
#include "pipeline/stages/stage.h"

namespace shardfeed {

struct PendingRow {
  Batch batch;          // one row, or none at the end of the input
  uint64_t number = 0;  // over all rows that were taken
  std::optional<DeliveredRow> from;
};

// The state is the place of the oldest row that is pending, and the numbers of those that are: Load
// takes the rows from there on again and hands out only these, in their order, before new ones. A
// stage that puts a row where the row itself says (a bucket by its length) comes to where it was.
// It delivers nothing before it has taken all of these again.
class PendingRows {
 public:
  explicit PendingRows(std::unique_ptr<Stage> input) : queue_(std::move(input)) {}

  absl::Status Next(PendingRow* row);
  // The row is delivered, or dropped for good.
  void Done(uint64_t number);
  // To `out`, which has just been made of `rows`, in their order, and after Done for each of them:
  // what is held back behind each.
  void TellHeld(absl::Span<const PendingRow> rows, Batch* out) const;

  void Save(StateWords* words) const;
  absl::Status Load(StateReader* words);

 private:
  // Rows from one batch of the input, which begin at a place that can be come back to.
  struct Run {
    uint64_t first;
    StateWords before;
  };

  ElementQueue queue_;
  uint64_t next_ = 0;  // number of the next row
  std::deque<Run> runs_;
  std::map<uint64_t, std::optional<DeliveredRow>> pending_;  // rows by number
  // Of the row that was taken last, or passed again.
  std::optional<DeliveredRow> last_;
  Reordered last_number_;
  // After Load: rows below this number are handed out only if they were pending.
  uint64_t again_until_ = 0;
  std::set<uint64_t> again_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_PENDING_ROWS_H_
