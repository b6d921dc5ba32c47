#include "net/token_cache.h"

#include <thread>
#include <utility>

#include "io/thread.h"

namespace shardfeed {
namespace {

// So long before it expires, a token is asked for again.
constexpr std::time_t kEarly = 300;
// And no more often than this.
constexpr std::time_t kPause = 20;

}  // namespace

TokenCache::TokenCache(Find find, AccessToken first) : find_(std::move(find)) {
  MutexLock lock(state_->mutex);
  state_->token = std::move(first);
}

std::string TokenCache::Get() {
  std::string value;
  bool refresh = false;
  {
    MutexLock lock(state_->mutex);
    value = state_->token.value;
    const std::time_t now = std::time(nullptr);
    refresh = now > state_->token.expires - kEarly && !state_->refreshing &&
              now - state_->tried >= kPause;
    if (refresh) {
      state_->refreshing = true;
      state_->tried = now;
    }
  }
  if (refresh) Refresh();
  return value;
}

bool TokenCache::Expired() {
  {
    MutexLock lock(state_->mutex);
    const std::time_t now = std::time(nullptr);
    // Or the request had the token before.
    if (state_->refreshing || now - state_->replaced < kPause) return true;
    if (now - state_->tried < kPause) return false;
    state_->refreshing = true;
    state_->tried = now;
  }
  Refresh();
  return true;
}

void TokenCache::Refresh() const {
  absl::StatusOr<std::thread> thread = StartThread([state = state_, find = find_] {
    absl::StatusOr<AccessToken> found;
    CatchAll([&] { found = find(); }).IgnoreError();
    MutexLock lock(state->mutex);
    state->refreshing = false;
    // The one that is there may serve a little longer.
    if (!found.ok()) return;
    state->token = *std::move(found);
    state->replaced = std::time(nullptr);
  });
  if (thread.ok()) {
    thread->detach();
    return;
  }
  MutexLock lock(state_->mutex);
  state_->refreshing = false;
}

}  // namespace shardfeed
