#include "net/request_queue.h"

#include <algorithm>

namespace shardfeed {
namespace {

// The limit of a group is reduced at most once in kPause, and only if it refuses more than
// kRefusedShare of its requests: stores refuse a few now and then, for which repeating them is
// enough.
constexpr auto kPause = std::chrono::seconds(1);
constexpr double kRefusedShare = 0.1;
constexpr double kShareDecay = 0.97;
constexpr double kIncrease = 0.1;

}  // namespace

void RequestQueue::Add(const std::string& group, uint64_t id) {
  const auto it = groups_.try_emplace(group, Group{.limit = static_cast<double>(most_active_)});
  it.first->second.waiting.push_back(id);
}

bool RequestQueue::Remove(uint64_t id) {
  return std::any_of(groups_.begin(), groups_.end(),
                     [id](auto& entry) { return std::erase(entry.second.waiting, id) > 0; });
}

std::optional<uint64_t> RequestQueue::Next() {
  if (active_ >= most_active_) return std::nullopt;
  auto it = groups_.upper_bound(last_);
  for (size_t looked_at = 0; looked_at < groups_.size(); ++looked_at, ++it) {
    if (it == groups_.end()) it = groups_.begin();
    Group& group = it->second;
    if (group.waiting.empty() || group.active >= std::max(1, static_cast<int>(group.limit))) {
      continue;
    }
    last_ = it->first;
    ++active_;
    ++group.active;
    const uint64_t id = group.waiting.front();
    group.waiting.pop_front();
    return id;
  }
  return std::nullopt;
}

// Additive increase, multiplicative decrease.
bool RequestQueue::End(const std::string& name, int status, Clock::time_point now) {
  Group& group = groups_.at(name);
  --active_;
  --group.active;
  const bool refused = status == 429 || status == 503;
  group.refused = kShareDecay * group.refused + (refused ? 1 - kShareDecay : 0);
  if (refused) {
    if (group.refused < kRefusedShare || now - group.reduced < kPause) return true;
    group.reduced = now;
    group.limit = std::max(1.0, std::min<double>(group.limit, group.active + 1) / 2);
  } else if (status >= 200 && status < 300) {
    group.limit = std::min<double>(most_active_, group.limit + kIncrease);
  }
  return refused;
}

}  // namespace shardfeed
