// What stages that hand rows out in another order than they take them in tell of it.
//
// A row that such a stage delivers does not say by itself what was delivered before it. With each
// comes the list of the rows that the stage had taken by then (Batch::reordered), so that the last
// row that a rank has delivered tells what the rank still holds back.

#ifndef SHARDFEED_PIPELINE_STAGES_REORDERED_ROWS_H_
#define SHARDFEED_PIPELINE_STAGES_REORDERED_ROWS_H_

#include <optional>
#include <vector>

#include "pipeline/stages/pipeline_state.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// Rows that a stage took. Immutable once a batch refers to them.
struct ReorderedRows {
  // In the order in which they are handed out. When number n was delivered, all behind it are held
  // back; those that are not here have left the stage.
  std::vector<DeliveredRow> rows;
  // The row that was taken last; nullopt: it does not tell its record.
  std::optional<DeliveredRow> last;
  Reordered before;  // that row's number among those of an earlier stage
  // False: some of `rows` do not tell their record.
  bool known = true;

  void Append(const std::optional<DeliveredRow>& row);
};

// The row of a chain that was delivered last.
struct LastRow {
  LastRow(const Batch& batch, size_t row)
      : from(DeliveredRow::Of(batch, row)), number(batch.ReorderedOf(row)) {}

  // What has been delivered with it. Nullopt: the row does not tell.
  std::optional<Delivered> AllDelivered() const;

  std::optional<DeliveredRow> from;
  Reordered number;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_REORDERED_ROWS_H_
