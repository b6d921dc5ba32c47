// Rows that a stage takes one by one and releases in another order, with a small state.

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

// The state is the place of the oldest pending row, and the numbers of all pending rows: Load reads
// the rows from there again and returns only these, in order, before new ones. A stage whose
// treatment of a row depends only on the row (a bucket by length) thereby gets back to its state.
// It delivers nothing before it has taken all of these again.
class PendingRows {
 public:
  explicit PendingRows(std::unique_ptr<Stage> input) : queue_(std::move(input)) {}

  absl::Status Next(PendingRow* row);
  // The row was delivered, or dropped for good.
  void Done(uint64_t number);
  // Adds to `out`, which was just made of `rows` in order and after Done for each of them, what is
  // held back after each.
  void TellHeld(absl::Span<const PendingRow> rows, Batch* out) const;

  void Save(StateWords* words) const;
  absl::Status Load(StateReader* words);

 private:
  // Rows from one batch of the input, which begins at a place to resume from.
  struct Run {
    uint64_t first;
    StateWords before;
  };

  ElementQueue queue_;
  uint64_t next_ = 0;  // number of the next row
  std::deque<Run> runs_;
  std::map<uint64_t, std::optional<DeliveredRow>> pending_;  // rows by number
  // For the row that was taken last, or passed again.
  std::optional<DeliveredRow> last_;
  Reordered last_number_;
  // After Load: rows below this number are returned only if they were pending.
  uint64_t again_until_ = 0;
  std::set<uint64_t> again_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_PENDING_ROWS_H_
