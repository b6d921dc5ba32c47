#include "pipeline/stages/reordered_rows.h"

namespace shardfeed {

void ReorderedRows::Append(const std::optional<DeliveredRow>& row) {
  known &= row.has_value();
  rows.push_back(row.value_or(DeliveredRow()));
}

std::optional<DeliveredRow> LastRow::LastTaken() const {
  std::optional<DeliveredRow> last = from;
  for (Reordered at = number; at.rows != nullptr; at = at.rows->before) last = at.rows->last;
  return last;
}

std::optional<Delivered> LastRow::AllDelivered() const {
  Delivered delivered;
  std::optional<DeliveredRow> last = from;
  // From the last stage that reorders rows to the first.
  for (Reordered at = number; at.rows != nullptr; at = at.rows->before) {
    const std::vector<DeliveredRow>& rows = at.rows->rows;
    if (!last || !at.rows->known || at.at >= rows.size()) return std::nullopt;
    delivered.held.insert(delivered.held.end(), rows.begin() + at.at + 1, rows.end());
    // flat_map follows the stage, so the rest of the record is still to be delivered.
    if (last->parts > 0 && rows[at.at].parts == 0) delivered.begun = last;
    last = at.rows->last;
  }
  if (!last) return std::nullopt;
  delivered.last = *last;
  return delivered;
}

}  // namespace shardfeed
