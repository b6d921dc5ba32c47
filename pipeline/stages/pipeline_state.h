// The states of iterators: what they hold, how they are written, and how those of all ranks become
// one.

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
#include "reader/leftover.h"
#include "shardfeed/batch.h"
#include "shardfeed/iterator.h"

namespace shardfeed {

// Where a run begins that goes on from merged states: behind what all ranks have delivered.
struct MergedPlace {
  Leftover leftover;
  // Of a record of which flat_map makes several rows, by its position: so many were delivered.
  std::map<uint64_t, uint64_t> parts;
  // But not these of them: position, and the row's number among the record's, from 1 on.
  std::set<std::pair<uint64_t, uint64_t>> held_parts;

  bool operator==(const MergedPlace&) const = default;

  // Leaves out the rows of `batch`, which flat_map has made, that were delivered.
  void DropDelivered(Batch* batch) const;
};

// The row that a rank delivered last, by the record that it came from.
struct DeliveredRow {
  uint64_t epoch = 0;
  uint64_t position = 0;
  // Rows that were delivered of those that flat_map makes of the record; 0: the record is a row.
  uint64_t parts = 0;

  auto operator<=>(const DeliveredRow&) const = default;

  // Nullopt: the row does not tell.
  static std::optional<DeliveredRow> Of(const Batch& batch, size_t row);
};

// States that hold back more rows cannot be merged: a file may claim any number.
constexpr size_t kMaxHeldRows = size_t{1} << 24;

// What a rank has delivered of an epoch: all of its rows up to `last`, but for those that stages
// held back.
struct Delivered {
  DeliveredRow last;
  std::vector<DeliveredRow> held;
  // A record before `last` of whose rows, as flat_map makes them, those behind this one are to
  // come.
  std::optional<DeliveredRow> begun;
};

struct PipelineState {
  std::string chain;  // fingerprint of the chain
  uint64_t epoch = 0;
  // Rank and number of ranks of each part that the chain takes, where the state is good for these
  // alone.
  std::optional<StateWords> ranks;
  // Of these, what states of all ranks are merged by: records in an epoch, and what was delivered,
  // if anything was. Else the name of the step that is why they cannot be.
  std::optional<uint64_t> size;
  std::optional<Delivered> delivered;
  std::string alone;
  // Where the run began, if not at the beginning of its epoch.
  std::optional<MergedPlace> merged;
  // Nullopt: there.
  std::optional<StateWords> place;

  // A JSON document.
  std::string Format() const;
  // InvalidArgument: it is no state, or one of another version.
  static absl::StatusOr<PipelineState> Parse(std::string_view text);
};

// "rank 0 of 2, rank 1 of 4"
std::string RanksText(const StateWords& ranks);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_PIPELINE_STATE_H_
