#include "pipeline/stages/stage.h"

#include <algorithm>
#include <utility>

#include "base/count_text.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// Larger than the number of elements of a batch.
constexpr uint64_t kMaxSkip = UINT32_MAX;

}  // namespace

uint64_t StateReader::ReadUpTo(uint64_t most) {
  const uint64_t number = Read();
  if (number <= most) return number;
  status_.Update(absl::InvalidArgumentError(
      fmt::format("the state is damaged: number {} of its place is {}, expected at most {}",
                  at_ - 1, number, most)));
  return most;
}

absl::Status CheckNothingToSkip(uint64_t elements) {
  if (elements == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "the state is {} beyond the end of the data: it is damaged, or the chain delivers "
      "fewer elements than when it was saved",
      CountText(elements, "element")));
}

absl::Status ElementQueue::Fill() {
  while (!ended_ && left() == 0) {
    before_.clear();
    input_->Save(&before_);
    beyond_ = input_->Beyond();
    Drop();
    absl::Status status = input_->Next(&head_);
    if (!status.ok()) return status;
    if (head_.empty()) {
      ended_ = true;
      return CheckNothingToSkip(skip_);
    }
    at_ = std::min<uint64_t>(skip_, head_.num_elements());
    skip_ -= at_;
  }
  return absl::OkStatus();
}

std::optional<bool> ElementQueue::Await(std::chrono::nanoseconds most) {
  if (ended_ || left() > 0) return true;
  // To drop elements, Fill may call Next several times.
  return skip_ > 0 ? std::nullopt : input_->Await(most);
}

absl::Status ElementQueue::Take(size_t elements, Batch* out) {
  *out = Batch();
  absl::Status status = Fill();
  if (!status.ok() || ended_) return status;
  const size_t n = std::min(elements, left());
  if (at_ == 0 && n == head_.num_elements()) {
    at_ = n;
    RememberLast();
    at_ = 0;
    // The caller releases its memory.
    *out = std::exchange(head_, Batch());
    return absl::OkStatus();
  }
  *out = head_.Slice(at_, n);
  at_ += n;
  return absl::OkStatus();
}

std::optional<RowOrigin> ElementQueue::OriginOfLast() const {
  RowOrigin origin;
  if (head_.batched || !head_.OriginOf(at_ - 1, &origin)) return std::nullopt;
  return origin;
}

void ElementQueue::RememberLast() {
  if (at_ > 0) last_ = OriginOfLast();
}

void ElementQueue::Save(StateWords* words) const {
  StateWords state = before_;
  uint64_t beyond = beyond_ + at_;
  uint64_t skip = 0;
  if (left() == 0) {
    state.clear();
    input_->Save(&state);
    beyond = input_->Beyond();
    skip = skip_;
  }
  std::optional<RowOrigin> last = last_;
  if (at_ > 0) last = OriginOfLast();
  // The number of elements to skip depends on a filter, which may be another one after Load.
  if (beyond > 0 && !input_->Advance(beyond, &state) &&
      !(last && skip == 0 && input_->AdvancePast(*last, &state))) {
    skip += beyond;
  }
  words->push_back(skip);
  words->insert(words->end(), state.begin(), state.end());
}

absl::Status ElementQueue::Load(StateReader* words) {
  skip_ = words->ReadUpTo(kMaxSkip);
  head_ = Batch();
  at_ = 0;
  last_.reset();
  ended_ = false;
  return input_->Load(words);
}

}  // namespace shardfeed
