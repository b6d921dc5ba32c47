#include "pipeline/stages/pending_rows.h"

#include <algorithm>
#include <utility>

namespace shardfeed {

absl::Status PendingRows::Next(PendingRow* row) {
  *row = PendingRow();
  while (true) {
    absl::Status status = queue_.Fill();
    if (!status.ok()) return status;
    if (queue_.ended()) return CheckNothingToSkip(again_until_ - std::min(next_, again_until_));
    if (queue_.at() == 0 || runs_.empty()) {
      runs_.push_back({next_, {}});
      queue_.Save(&runs_.back().before);
    }
    const uint64_t number = next_++;
    last_ = DeliveredRow::Of(queue_.head(), queue_.at());
    last_number_ = queue_.head().ReorderedOf(queue_.at());
    if (number < again_until_ && again_.erase(number) == 0) {
      queue_.Advance(1);
      continue;
    }
    row->number = number;
    row->batch = queue_.head().Slice(queue_.at(), 1);
    queue_.Advance(1);
    row->from = last_;
    pending_[number] = last_;
    return absl::OkStatus();
  }
}

void PendingRows::Done(uint64_t number) {
  pending_.erase(number);
  // Runs before the one with the oldest pending row are not needed any more.
  const uint64_t oldest = pending_.empty() ? next_ : pending_.begin()->first;
  while (runs_.size() > 1 && runs_[1].first <= oldest) runs_.pop_front();
}

void PendingRows::TellHeld(absl::Span<const PendingRow> rows, Batch* out) const {
  auto told = std::make_shared<ReorderedRows>();
  told->rows.reserve(rows.size() + pending_.size());
  for (const PendingRow& row : rows) told->Append(row.from);
  for (const auto& [number, from] : pending_) told->Append(from);
  told->known &= next_ >= again_until_;
  told->last = last_;
  told->before = last_number_;
  out->reordered = {{0, std::move(told), 0, 1}};
}

void PendingRows::Save(StateWords* words) const {
  // Rows that are still to be returned after Load are pending too.
  std::set<uint64_t> pending = again_;
  for (const auto& [number, from] : pending_) pending.insert(pending.end(), number);
  words->push_back(std::max(next_, again_until_));
  words->push_back(pending.size());
  if (pending.empty() || runs_.empty()) {
    words->push_back(next_);
  } else {
    words->push_back(runs_.front().first);
  }
  uint64_t last = words->back();
  for (uint64_t number : pending) {
    words->push_back(number - last);
    last = number;
  }
  if (pending.empty() || runs_.empty()) {
    queue_.Save(words);
  } else {
    words->insert(words->end(), runs_.front().before.begin(), runs_.front().before.end());
  }
}

absl::Status PendingRows::Load(StateReader* words) {
  runs_.clear();
  pending_.clear();
  again_.clear();
  again_until_ = words->Read();
  const uint64_t count = words->ReadUpTo(again_until_);
  uint64_t number = next_ = words->ReadUpTo(again_until_ - (count > 0));
  for (uint64_t i = 0; i < count && words->ok(); ++i) {
    number += words->ReadUpTo(again_until_ - 1 - number);
    again_.insert(number);
  }
  // Nothing was pending, so the queue needs no replay.
  if (count == 0) again_until_ = 0;
  return queue_.Load(words);
}

}  // namespace shardfeed
