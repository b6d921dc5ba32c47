#include "pipeline/stages/pipeline_state.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/bounded_json.h"
#include "nlohmann/json.hpp"
#include "pipeline/data/batch_builder.h"

namespace shardfeed {
namespace {

constexpr int kStateVersion = 2;

// Nullopt if the field is missing or is not a list of numbers.
std::optional<StateWords> NumbersOf(const nlohmann::json& state, const char* field) {
  if (!state.contains(field) || !state[field].is_array()) return std::nullopt;
  StateWords words;
  for (const auto& word : state[field]) {
    if (!word.is_number_unsigned()) return std::nullopt;
    words.push_back(word.get<uint64_t>());
  }
  return words;
}

std::optional<uint64_t> NumberOf(const nlohmann::json& state, const char* field) {
  if (!state.contains(field) || !state[field].is_number_unsigned()) return std::nullopt;
  return state[field].get<uint64_t>();
}

absl::Status Damaged(std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("the state is damaged: {} missing or malformed", what));
}

absl::StatusOr<MergedPlace> ParseMerged(const nlohmann::json& json) {
  if (!json.is_object()) return Damaged("its merged place is");
  MergedPlace merged;
  const std::optional<uint64_t> epoch = NumberOf(json, "epoch");
  const std::optional<uint64_t> behind = NumberOf(json, "behind");
  const std::optional<StateWords> left = NumbersOf(json, "left");
  const std::optional<StateWords> parts = NumbersOf(json, "parts");
  const StateWords held = NumbersOf(json, "held_parts").value_or(StateWords());
  if (!epoch || !behind || !left || left->size() % 3 != 0 || !parts || parts->size() % 2 != 0 ||
      held.size() % 2 != 0) {
    return Damaged("the rest of its epoch is");
  }
  merged.leftover.epoch = *epoch;
  merged.leftover.behind = *behind;
  for (size_t i = 0; i < left->size(); i += 3) {
    merged.leftover.runs.push_back({(*left)[i], (*left)[i + 1], (*left)[i + 2]});
  }
  for (size_t i = 0; i < parts->size(); i += 2) merged.parts[(*parts)[i]] = (*parts)[i + 1];
  for (size_t i = 0; i < held.size(); i += 2) merged.held_parts.emplace(held[i], held[i + 1]);
  if (absl::Status status = merged.leftover.Check(); !status.ok()) return status;
  return merged;
}

// Appends `position`, which must be above the previous ones.
void AppendPosition(uint64_t position, std::vector<PositionRun>* runs) {
  if (!runs->empty()) {
    PositionRun& run = runs->back();
    if (run.count == 1) run.stride = position - run.begin;
    if (run.begin + run.count * run.stride == position) {
      ++run.count;
      return;
    }
  }
  runs->push_back({position, 1, 1});
}

// Encodes rows, given in any order, as few numbers: for each epoch its number, then the number of
// runs of records that are rows, and the runs, then the number of other rows, and their positions
// and parts.
StateWords ToWords(std::vector<DeliveredRow> rows) {
  std::sort(rows.begin(), rows.end());
  StateWords words;
  for (auto begin = rows.begin(); begin != rows.end();) {
    const auto end = std::find_if(
        begin, rows.end(), [&](const DeliveredRow& row) { return row.epoch != begin->epoch; });
    std::vector<PositionRun> runs;
    StateWords parts;
    for (auto row = begin; row != end; ++row) {
      if (row->parts == 0) {
        AppendPosition(row->position, &runs);
      } else {
        parts.insert(parts.end(), {row->position, row->parts});
      }
    }
    words.insert(words.end(), {begin->epoch, runs.size()});
    for (const PositionRun& run : runs) {
      words.insert(words.end(), {run.begin, run.stride, run.count});
    }
    words.push_back(parts.size() / 2);
    words.insert(words.end(), parts.begin(), parts.end());
    begin = end;
  }
  return words;
}

// An empty list if the field is missing; nullopt if ToWords cannot have made it.
std::optional<std::vector<DeliveredRow>> RowsOf(const nlohmann::json& state, const char* field) {
  std::vector<DeliveredRow> rows;
  if (!state.contains(field)) return rows;
  const std::optional<StateWords> words = NumbersOf(state, field);
  if (!words) return std::nullopt;
  StateReader reader(*words);
  while (reader.ok() && !reader.at_end()) {
    const uint64_t epoch = reader.Read();
    uint64_t left = kMaxHeldRows;
    for (uint64_t runs = reader.ReadUpTo(words->size()); runs > 0 && reader.ok(); --runs) {
      const uint64_t begin = reader.ReadUpTo(UINT64_MAX / 4);
      const uint64_t stride = reader.ReadUpTo(UINT64_MAX / 4);
      const uint64_t count = reader.ReadUpTo(left);
      left -= count;
      for (uint64_t i = 0; i < count && reader.ok(); ++i) {
        const uint64_t position = begin + i * stride;
        if (i > 0 && position > UINT64_MAX / 4) return std::nullopt;
        rows.push_back({epoch, position, 0});
      }
    }
    for (uint64_t parts = reader.ReadUpTo(words->size()); parts > 0 && reader.ok(); --parts) {
      const uint64_t position = reader.ReadUpTo(UINT64_MAX / 4);
      rows.push_back({epoch, position, reader.Read()});
    }
  }
  if (!reader.ok()) return std::nullopt;
  return rows;
}

nlohmann::ordered_json ToJson(const MergedPlace& merged) {
  StateWords left;
  for (const PositionRun& run : merged.leftover.runs) {
    left.insert(left.end(), {run.begin, run.stride, run.count});
  }
  StateWords parts;
  for (const auto& [position, count] : merged.parts) {
    parts.insert(parts.end(), {position, count});
  }
  nlohmann::ordered_json json = {{"epoch", merged.leftover.epoch},
                                 {"behind", merged.leftover.behind},
                                 {"left", left},
                                 {"parts", parts}};
  if (!merged.held_parts.empty()) {
    StateWords held;
    for (const auto& [position, part] : merged.held_parts) {
      held.insert(held.end(), {position, part});
    }
    json["held_parts"] = held;
  }
  return json;
}

// ---- Merging

// The places of an epoch, in the numbering of a run that began at a merged place: see Leftover.
class Places {
 public:
  Places(const std::optional<MergedPlace>& merged, uint64_t epoch) {
    if (!merged || merged->leftover.epoch != epoch) return;
    leftover_ = merged->leftover;
    begin_ = leftover_.begin();
  }

  uint64_t begin() const { return begin_; }
  uint64_t behind() const { return leftover_.behind; }
  // The place of a position; nullopt if it was delivered before the run began.
  std::optional<uint64_t> Of(uint64_t position) const {
    if (position >= leftover_.behind) return position;
    uint64_t first = begin_;
    for (const PositionRun& run : leftover_.runs) {
      if (position >= run.begin && (position - run.begin) % run.stride == 0 &&
          (position - run.begin) / run.stride < run.count) {
        return first + (position - run.begin) / run.stride;
      }
      first += run.count;
    }
    return std::nullopt;
  }
  // Appends the positions at the places place, place + world ... before `end`.
  void Append(uint64_t place, uint64_t world, uint64_t end, std::vector<PositionRun>* runs) const {
    while (place < end) {
      PositionRun run = {place, world, (end - place - 1) / world + 1};
      if (place < leftover_.behind) {
        const PositionRun at = leftover_.At(place);
        const uint64_t most = std::min(leftover_.behind, end) - place;
        run = {at.begin, at.stride * world, (std::min(at.count, most) - 1) / world + 1};
      }
      runs->push_back(run);
      place += run.count * world;
    }
  }

 private:
  Leftover leftover_;
  uint64_t begin_ = 0;
};

absl::Status Unfit(std::string_view why) {
  return absl::FailedPreconditionError(fmt::format("merge_states: {}", why));
}

// What ranks have left of an epoch, collected from their states.
struct Rest {
  std::vector<uint64_t> next;          // each rank's first place that was not taken completely
  std::set<uint64_t> held;             // earlier positions that were not delivered completely
  std::set<uint64_t> whole;            // those of which no row was delivered
  std::map<uint64_t, uint64_t> begun;  // number of flat_map's rows taken, by position
  MergedPlace merged;
};

// Appends what rank `rank` of `world` has left; `places` tells where it began.
absl::Status AddRank(const std::optional<Delivered>& delivered, const Places& places, uint64_t rank,
                     uint64_t world, uint64_t size, Rest* rest) {
  const uint64_t first = places.begin() + rank;
  rest->next.push_back(first);
  if (!delivered) return absl::OkStatus();
  const auto is_of_rank = [&](const std::optional<uint64_t>& at) {
    return at && *at >= first && (*at - first) % world == 0 && *at <= UINT64_MAX / 4;
  };
  absl::Status damaged = absl::InvalidArgumentError(
      "the state is damaged: it names a row that does not belong to its rank");
  const std::optional<uint64_t> last = places.Of(delivered->last.position);
  if (!is_of_rank(last)) return damaged;
  rest->next.back() = delivered->last.parts == 0 ? *last + world : *last;
  std::vector<DeliveredRow> rows = delivered->held;
  for (const DeliveredRow& row : {delivered->last, delivered->begun.value_or(delivered->last)}) {
    if (row.parts == 0) continue;
    rest->begun[row.position] = row.parts;
    rows.push_back(row);
  }
  for (const DeliveredRow& row : rows) {
    const std::optional<uint64_t> at = places.Of(row.position);
    if (!is_of_rank(at) || *at > *last) return damaged;
    // Padding lies past the end of the epoch.
    if (*at < rest->next.back() && row.position < size) rest->held.insert(row.position);
    if (row.parts == 0) rest->whole.insert(row.position);
    // All rows of a record that flat_map has taken were delivered, except those that are listed.
    if (row.parts > 0) rest->merged.parts[row.position] = UINT64_MAX;
  }
  for (const DeliveredRow& row : delivered->held) {
    if (row.parts > 0) rest->merged.held_parts.emplace(row.position, row.parts);
  }
  return absl::OkStatus();
}

// Keeps what the beginning of the run says about rows of records, as far as it still applies.
void KeepParts(const MergedPlace& before, const Places& places, Rest* rest) {
  // The number of rows of an unfinished record that the run has passed.
  const auto come_to = [&](uint64_t position) -> std::optional<uint64_t> {
    const auto begun = rest->begun.find(position);
    if (begun != rest->begun.end()) return begun->second;
    if (rest->whole.contains(position)) return 0;
    const std::optional<uint64_t> at = places.Of(position);
    const size_t ranks = rest->next.size();
    if (at && rest->next[(*at - places.begin()) % ranks] <= *at) return 0;
    return std::nullopt;
  };
  for (const auto& [position, count] : before.parts) {
    const std::optional<uint64_t> part = come_to(position);
    if (part) rest->merged.parts[position] = std::max(count, *part);
  }
  for (const auto& [position, number] : before.held_parts) {
    const std::optional<uint64_t> part = come_to(position);
    if (part && number > *part) rest->merged.held_parts.emplace(position, number);
  }
}

// Checks that there is one state of each rank, all of one run, and sorts them by rank.
absl::Status SortByRank(std::vector<PipelineState>* states) {
  const PipelineState& first = states->front();
  for (const PipelineState& state : *states) {
    if (state.chain != first.chain || state.epoch != first.epoch) {
      return Unfit(
          fmt::format("the states are of several runs: one of chain {} in epoch {}, "
                      "another of {} in epoch {}",
                      first.chain, first.epoch, state.chain, state.epoch));
    }
    if (!state.ranks || state.ranks->size() != 2 || !state.size) {
      return Unfit(fmt::format(
          "states of a chain with '{}' cannot be merged: the step counts the rows of its rank, has "
          "several inputs, or makes rows whose record is unknown; continue with the same number of "
          "ranks, each from its own state",
          state.alone));
    }
    if ((*state.ranks)[1] != (*first.ranks)[1] || state.merged != first.merged ||
        state.size != first.size) {
      return Unfit(fmt::format("the states are of several runs: {} and {}", RanksText(*first.ranks),
                               RanksText(*state.ranks)));
    }
  }
  const auto rank_of = [](const PipelineState& state) {
    return state.ranks ? (*state.ranks)[0] : 0;
  };
  std::sort(states->begin(), states->end(), [&](const PipelineState& a, const PipelineState& b) {
    return rank_of(a) < rank_of(b);
  });
  const uint64_t world = (*first.ranks)[1];
  for (uint64_t rank = 0; rank < std::max<uint64_t>(world, states->size()); ++rank) {
    if (rank < states->size() && (*(*states)[rank].ranks)[0] == rank) continue;
    const bool twice = rank > 0 && rank - 1 < states->size() && rank < states->size() &&
                       (*(*states)[rank].ranks)[0] < rank;
    return Unfit(
        twice ? fmt::format("the state of rank {} was given twice", (*(*states)[rank].ranks)[0])
              : fmt::format("the state of rank {} of {} is missing", rank, world));
  }
  return absl::OkStatus();
}

// The past of the rank that has come furthest, which includes those of the others.
std::optional<DeliveredPast> LatestPast(const std::vector<PipelineState>& states) {
  std::optional<DeliveredPast> latest;
  for (const PipelineState& state : states) {
    if (!state.past) continue;
    if (!latest || std::pair(state.past->epoch, state.past->position) >
                       std::pair(latest->epoch, latest->position)) {
      latest = state.past;
    }
  }
  return latest;
}

// If ranks advance evenly, each state is valid for any number of ranks.
absl::StatusOr<std::string> MergeEven(const std::vector<PipelineState>& states) {
  for (const PipelineState& state : states) {
    if (state.ranks || state.chain != states[0].chain || state.epoch != states[0].epoch ||
        state.place != states[0].place) {
      return Unfit(
          "the states are of several runs, or of ranks that have delivered different numbers of "
          "elements: ranks of this chain advance evenly, and each one's state is valid for all");
    }
  }
  PipelineState result = states[0];
  result.past = LatestPast(states);
  return result.Format();
}

}  // namespace

void MergedPlace::DropDelivered(Batch* batch) const {
  const bool concerned =
      std::any_of(batch->origins.begin(), batch->origins.end(), [&](const RowOrigin& origin) {
        return origin.epoch == leftover.epoch && origin.stride == 0 &&
               parts.contains(origin.position);
      });
  if (!concerned) return;
  std::vector<std::pair<size_t, size_t>> kept;  // begin and count
  size_t num_kept = 0;
  for (size_t row = 0; row < batch->rows; ++row) {
    const std::optional<DeliveredRow> from = DeliveredRow::Of(*batch, row);
    if (from && from->epoch == leftover.epoch && from->parts > 0) {
      const auto delivered = parts.find(from->position);
      if (delivered != parts.end() && from->parts <= delivered->second &&
          !held_parts.contains({from->position, from->parts})) {
        continue;
      }
    }
    ++num_kept;
    if (!kept.empty() && kept.back().first + kept.back().second == row) {
      ++kept.back().second;
    } else {
      kept.emplace_back(row, 1);
    }
  }
  if (num_kept == batch->rows) return;
  if (kept.empty()) {
    Batch none;
    none.spec = batch->spec;
    *batch = std::move(none);
  } else if (kept.size() == 1) {
    *batch = batch->Slice(kept[0].first, kept[0].second);
  } else {
    BatchBuilder builder(batch->spec);
    const size_t number = builder.Add(*batch);
    for (const auto& [begin, count] : kept) builder.AppendOf(number, begin, count);
    *batch = builder.Finish(/*batched=*/false);
  }
}

std::optional<DeliveredRow> DeliveredRow::Of(const Batch& batch, size_t row) {
  RowOrigin origin;
  if (!batch.OriginOf(row, &origin)) return std::nullopt;
  return DeliveredRow{origin.epoch, origin.position, origin.stride == 0 ? origin.part + 1 : 0};
}

std::string RanksText(const StateWords& ranks) {
  std::string text;
  for (size_t i = 0; i + 1 < ranks.size(); i += 2) {
    text += fmt::format("{}rank {} of {}", i > 0 ? ", " : "", ranks[i], ranks[i + 1]);
  }
  return text.empty() ? "a chain without ranks" : text;
}

std::string PipelineState::Format() const {
  nlohmann::ordered_json state = {{"format", "shardfeed pipeline state"},
                                  {"version", kStateVersion},
                                  {"chain", chain},
                                  {"epoch", epoch}};
  if (ranks) state["ranks"] = *ranks;
  if (!alone.empty()) state["alone"] = alone;
  if (size) state["size"] = *size;
  if (delivered) {
    state["delivered"] = {delivered->last.epoch, delivered->last.position, delivered->last.parts};
    if (!delivered->held.empty()) state["held"] = ToWords(delivered->held);
    if (delivered->begun) state["begun"] = ToWords({*delivered->begun});
  }
  if (past) state["past"] = {past->epoch, past->position, past->key};
  if (merged) state["merged"] = ToJson(*merged);
  if (place) state["place"] = *place;
  return state.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

absl::StatusOr<PipelineState> PipelineState::Parse(std::string_view text) {
  nlohmann::json json;
  // The length of its place depends on the size of shuffle buffers.
  const absl::Status parsed = ParseBoundedJson(text, &json, /*max_values=*/text.size());
  if (!parsed.ok() || !json.is_object() || !json.contains("format") ||
      json["format"] != "shardfeed pipeline state" || !json.contains("version")) {
    return absl::InvalidArgumentError("not a state of a shardfeed pipeline");
  }
  if (json["version"] != kStateVersion) {
    return absl::InvalidArgumentError(
        fmt::format("the state has version {}, but this shardfeed reads version {}",
                    json["version"].dump(), kStateVersion));
  }
  PipelineState state;
  state.place = NumbersOf(json, "place");
  state.ranks = NumbersOf(json, "ranks");
  state.size = NumberOf(json, "size");
  const std::optional<uint64_t> epoch = NumberOf(json, "epoch");
  const std::optional<StateWords> delivered = NumbersOf(json, "delivered");
  const std::optional<StateWords> past = NumbersOf(json, "past");
  if (!json.contains("chain") || !json["chain"].is_string() || !epoch ||
      json.contains("ranks") != state.ranks.has_value() ||
      json.contains("place") != state.place.has_value() ||
      json.contains("size") != state.size.has_value() ||
      json.contains("delivered") != (delivered && delivered->size() == 3) ||
      json.contains("past") != (past && past->size() == 3 && (*past)[1] < UINT64_MAX / 4) ||
      (!state.place && state.ranks)) {
    return Damaged("its chain, epoch, ranks or place is");
  }
  state.chain = json["chain"];
  if (past) state.past = {(*past)[0], (*past)[1], (*past)[2]};
  state.epoch = *epoch;
  if (delivered) {
    state.delivered.emplace();
    state.delivered->last = {(*delivered)[0], (*delivered)[1], (*delivered)[2]};
    const auto held = RowsOf(json, "held");
    const auto begun = RowsOf(json, "begun");
    if (!held || !begun || begun->size() > 1)
      return Damaged("its list of rows that stages hold back is");
    state.delivered->held = *held;
    if (!begun->empty()) state.delivered->begun = begun->front();
  }
  if (json.contains("alone") && json["alone"].is_string()) state.alone = json["alone"];
  if (!json.contains("merged")) return state;
  absl::StatusOr<MergedPlace> merged = ParseMerged(json["merged"]);
  if (!merged.ok()) return merged.status();
  state.merged = *std::move(merged);
  return state;
}

absl::StatusOr<std::string> MergeStates(const std::vector<std::string>& texts) {
  if (texts.empty()) return absl::InvalidArgumentError("merge_states: no states were given");
  std::vector<PipelineState> states;
  for (const std::string& text : texts) {
    absl::StatusOr<PipelineState> state = PipelineState::Parse(text);
    if (!state.ok()) return state.status();
    states.push_back(*std::move(state));
  }
  if (!states[0].ranks) return MergeEven(states);
  if (absl::Status status = SortByRank(&states); !status.ok()) return status;
  const PipelineState& first = states[0];
  PipelineState result;
  result.chain = first.chain;
  result.epoch = first.epoch;
  result.merged = first.merged;
  result.past = LatestPast(states);

  // The epoch that all ranks are in.
  std::optional<uint64_t> epoch;
  for (size_t rank = 0; rank < states.size(); ++rank) {
    if (!states[rank].delivered) continue;
    const Delivered& delivered = *states[rank].delivered;
    if (epoch && *epoch != delivered.last.epoch) {
      return Unfit(
          fmt::format("rank {} has delivered rows of epoch {}, but other ranks of epoch {}: merge "
                      "states of one "
                      "epoch, such as those at its end",
                      rank, delivered.last.epoch, *epoch));
    }
    epoch = delivered.last.epoch;
    for (const DeliveredRow& row : delivered.held) {
      if (row.epoch == *epoch) continue;
      return Unfit(fmt::format(
          "rank {} has taken rows of epoch {} but still holds back some of epoch {}: merge states "
          "saved in the middle of an epoch",
          rank, *epoch, row.epoch));
    }
  }
  if (!epoch) return result.Format();  // nothing was delivered

  const uint64_t world = states.size();
  const uint64_t size = *first.size;
  const Places places(first.merged, *epoch);
  Rest rest;
  uint64_t behind = places.behind();
  for (uint64_t rank = 0; rank < world; ++rank) {
    absl::Status status = AddRank(states[rank].delivered, places, rank, world, size, &rest);
    if (!status.ok()) return status;
    behind = std::max(behind, rest.next[rank]);
  }
  for (const auto& [position, part] : rest.begun) rest.merged.parts[position] = part;
  if (first.merged && first.merged->leftover.epoch == *epoch) {
    KeepParts(*first.merged, places, &rest);
  }
  Leftover& leftover = rest.merged.leftover;
  leftover.epoch = *epoch;
  leftover.behind = std::min(behind, size);
  for (const uint64_t position : rest.held) AppendPosition(position, &leftover.runs);
  for (uint64_t rank = 0; rank < world; ++rank) {
    places.Append(rest.next[rank], world, leftover.behind, &leftover.runs);
  }
  result.merged = std::move(rest.merged);
  return result.Format();
}

}  // namespace shardfeed
