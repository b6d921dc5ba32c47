#include "shard/reshard/record_selection.h"

#include <algorithm>
#include <utility>

#include "base/numbered_random.h"

namespace shardfeed {
namespace {

constexpr uint64_t kStep = uint64_t{1} << 16;

}  // namespace

RecordSelection RecordSelection::Runs(const std::vector<RecordRun>& runs) {
  RecordSelection selection;
  for (const RecordRun& run : runs) {
    if (run.begin == run.end) continue;
    selection.places_.push_back(selection.count_);
    selection.runs_.push_back(run);
    selection.count_ += run.end - run.begin;
  }
  return selection;
}

RecordSelection RecordSelection::Sample(uint64_t total, uint64_t count, uint64_t seed) {
  RecordSelection selection;
  selection.is_sample_ = true;
  selection.total_ = total;
  selection.count_ = count;
  selection.seed_ = seed;
  uint64_t chosen = 0;
  for (uint64_t number = 0; number < total; ++number) {
    if (number % kStep == 0) selection.chosen_before_.push_back(chosen);
    if (selection.Chooses(number, chosen)) ++chosen;
  }
  return selection;
}

// Selection sampling (Knuth, The Art of Computer Programming, volume 2, 3.4.2, algorithm S): a
// record is chosen with the probability (wanted and not yet chosen) / (records left).
bool RecordSelection::Chooses(uint64_t number, uint64_t chosen) const {
  const auto scaled =
      static_cast<unsigned __int128>(NumberedRandom(seed_, number)) * (total_ - number) >> 64;
  return static_cast<uint64_t>(scaled) < count_ - chosen;
}

absl::Status RecordSelection::ForEachRun(
    uint64_t begin, uint64_t end, const std::function<absl::Status(RecordRun run)>& visit) const {
  if (begin >= end) return absl::OkStatus();
  if (!is_sample_) {
    size_t i = std::upper_bound(places_.begin(), places_.end(), begin) - places_.begin() - 1;
    for (; i < runs_.size() && places_[i] < end; ++i) {
      const uint64_t from = std::max(begin, places_[i]) - places_[i];
      const uint64_t to = std::min(end - places_[i], runs_[i].end - runs_[i].begin);
      absl::Status status = visit({runs_[i].begin + from, runs_[i].begin + to});
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  const size_t step = std::upper_bound(chosen_before_.begin(), chosen_before_.end(), begin) -
                      chosen_before_.begin() - 1;
  uint64_t chosen = chosen_before_[step];
  RecordRun run{0, 0};
  for (uint64_t number = step * kStep; chosen < end; ++number) {
    if (!Chooses(number, chosen)) continue;
    if (++chosen <= begin) continue;
    if (run.end == number && run.begin < run.end) {
      ++run.end;
      continue;
    }
    if (run.begin < run.end) {
      if (absl::Status status = visit(run); !status.ok()) return status;
    }
    run = {number, number + 1};
  }
  return visit(run);
}

}  // namespace shardfeed
