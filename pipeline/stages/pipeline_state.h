// The states of iterators: their content, their serialization, and merging those of all ranks.

#ifndef SHARDFEED_PIPELINE_STAGES_PIPELINE_STATE_H_
#define SHARDFEED_PIPELINE_STAGES_PIPELINE_STATE_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/stages/stage.h"
#include "reader/order/leftover.h"
#include "shardfeed/batch.h"
#include "shardfeed/iterator.h"

namespace shardfeed {

// Where a run that resumes from merged states begins: after what all ranks have delivered.
struct MergedPlace {
  Leftover leftover;
  // For a record that flat_map makes several rows of, by its position: the number of rows
  // delivered.
  std::map<uint64_t, uint64_t> parts;
  // Except these: the position, and the number of the row among those of the record, from 1 on.
  std::set<std::pair<uint64_t, uint64_t>> held_parts;

  bool operator==(const MergedPlace&) const = default;

  // Drops the rows of `batch`, made by flat_map, that were delivered before.
  void DropDelivered(Batch* batch) const;
};

// The row that a rank delivered last, by the record that it comes from.
struct DeliveredRow {
  uint64_t epoch = 0;
  uint64_t position = 0;
  // Number of rows delivered of those that flat_map makes of the record; 0: the record is a row.
  uint64_t parts = 0;

  auto operator<=>(const DeliveredRow&) const = default;

  // Nullopt: the row does not tell its record.
  static std::optional<DeliveredRow> Of(const Batch& batch, size_t row);
};

// States that hold back more rows cannot be merged, because a file may claim any number.
constexpr size_t kMaxHeldRows = size_t{1} << 24;

// The last record of a mixture that the rows delivered depend on, and what these depend on, as
// MixPast::Key says of the place after it.
struct DeliveredPast {
  uint64_t epoch = 0;
  uint64_t position = 0;
  uint64_t key = 0;
};

// What a rank has delivered of an epoch: all of its rows up to `last`, except those that stages
// held back.
struct Delivered {
  DeliveredRow last;
  std::vector<DeliveredRow> held;
  // A record before `last` of whose rows, as flat_map makes them, those after this one are still to
  // be delivered.
  std::optional<DeliveredRow> begun;
};

struct PipelineState {
  std::string chain;  // fingerprint of the chain
  uint64_t epoch = 0;
  // Rank and number of ranks of each part that the chain takes, if the state is valid only for
  // these.
  std::optional<StateWords> ranks;
  // For these states, what merging needs: records per epoch, and what was delivered, if anything.
  // Otherwise the name of the step that prevents merging.
  std::optional<uint64_t> size;
  std::optional<Delivered> delivered;
  std::string alone;
  // Of a chain that reads a mixture, if rows that tell their records were delivered.
  std::optional<DeliveredPast> past;
  // Where the run began, if not at the beginning of its epoch.
  std::optional<MergedPlace> merged;
  // Nullopt: at the beginning.
  std::optional<StateWords> place;

  // The state as a JSON document.
  std::string Format() const;
  // InvalidArgument: not a state, or one of another version.
  static absl::StatusOr<PipelineState> Parse(std::string_view text);
};

// "rank 0 of 2, rank 1 of 4"
std::string RanksText(const StateWords& ranks);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_PIPELINE_STATE_H_
