// How stages that deliver rows in another order than they take them record this.
//
// A row that such a stage delivers does not by itself tell what was delivered before it. Therefore
// it comes with the list of the rows that the stage had taken by then (Batch::reordered), so that
// the last row delivered by a rank tells what the rank still holds back.

#ifndef SHARDFEED_PIPELINE_STAGES_REORDERED_ROWS_H_
#define SHARDFEED_PIPELINE_STAGES_REORDERED_ROWS_H_

#include <optional>
#include <vector>

#include "pipeline/stages/pipeline_state.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// Rows that a stage has taken. Immutable once a batch refers to them.
struct ReorderedRows {
  // Sorted by delivery. When row n was delivered, all rows after it are held back; rows that are
  // not listed have left the stage.
  std::vector<DeliveredRow> rows;
  // The row that was taken last; nullopt: it does not tell its record.
  std::optional<DeliveredRow> last;
  Reordered before;  // that row's number among those of an earlier stage
  // Returns false if some of `rows` do not tell their record.
  bool known = true;

  void Append(const std::optional<DeliveredRow>& row);
};

// The row of a chain that was delivered last.
struct LastRow {
  LastRow(const Batch& batch, size_t row)
      : from(DeliveredRow::Of(batch, row)), number(batch.ReorderedOf(row)) {}

  // What has been delivered up to it. Nullopt: the row does not tell.
  std::optional<Delivered> AllDelivered() const;
  // The row that the first stage which reorders rows had taken last; without one, this row.
  // Nullopt: it does not tell its record.
  std::optional<DeliveredRow> LastTaken() const;

  std::optional<DeliveredRow> from;
  Reordered number;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_REORDERED_ROWS_H_
