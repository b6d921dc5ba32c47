#include "net/guard_object.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/fork_count.h"
#include "fmt/format.h"
#include "net/transfers.h"

namespace shardfeed {

absl::StatusOr<std::shared_ptr<const GuardObject>> GuardObject::Make(ObjectInfo info) {
  absl::StatusOr<std::shared_ptr<const Store>> store = Store::Of(info.path);
  if (!store.ok()) return store.status();
  return std::shared_ptr<const GuardObject>(new GuardObject(*std::move(store), std::move(info)));
}

GuardObject::GuardObject(std::shared_ptr<const Store> store, ObjectInfo info)
    : store_(std::move(store)),
      info_(std::move(info)),
      same_until_(info_.modified),
      forks_(ForkCount()) {}

void GuardObject::Check(std::time_t modified, std::function<void(absl::Status)> done) const {
  bool older = false;
  {
    MutexLock lock(mutex_);
    if (forks_ != ForkCount()) {
      // Nothing arrives that the parent asked for.
      forks_ = ForkCount();
      asking_ = false;
      asked_.clear();
      waiting_.clear();
    }
    older = modified != 0 && modified < same_until_;
    if (!older) {
      waiting_.push_back(std::move(done));
      // An answer that is under way may be older than the read.
      if (asking_) return;
      asking_ = true;
      asked_.swap(waiting_);
    }
  }
  if (older) return done(absl::OkStatus());
  Ask();
}

// Reads a byte of this object, if it still is the same.
void GuardObject::Ask() const {
  auto byte = std::make_shared<char>();
  const absl::Span<char> into(byte.get(), 1);
  StartRead(
      store_, {info_.path, 0, into, info_.version, info_.size},
      [self = shared_from_this(), byte](absl::Status status, const ReadVersion& read) {
        // Without an ETag, only the time tells.
        if (status.ok() && self->info_.version.empty() && read.modified != self->info_.modified) {
          status = absl::AbortedError("");
        }
        self->Answer(std::move(status), read.now);
      });
}

void GuardObject::Answer(absl::Status status, std::time_t now) const {
  if (absl::IsAborted(status) || absl::IsNotFound(status)) {
    status = absl::AbortedError(
        fmt::format("{}: the dataset was replaced while it was in use; open it again", info_.path));
  }
  Waiting answered;
  bool again = false;
  {
    MutexLock lock(mutex_);
    if (status.ok()) same_until_ = std::max(same_until_, now);
    answered.swap(asked_);
    asked_.swap(waiting_);
    again = asking_ = !asked_.empty();
  }
  for (const auto& done : answered) done(status);
  if (again) Ask();
}

}  // namespace shardfeed
