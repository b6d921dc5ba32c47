// Tells whether objects are still those of the dataset that was opened.

#ifndef SHARDFEED_NET_GUARD_OBJECT_H_
#define SHARDFEED_NET_GUARD_OBJECT_H_

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "net/store.h"

namespace shardfeed {

// An object that is removed before any other object of its group is replaced, and written after all
// of them: the manifest of a dataset. While it is the same, so is the group. Thread-safe.
class GuardObject : public std::enable_shared_from_this<GuardObject> {
 public:
  // `info` is that of the object whose content was used. InvalidArgument and others: those of
  // Store::Of.
  static absl::StatusOr<std::shared_ptr<const GuardObject>> Make(ObjectInfo info);

  // Finds out whether an object of the group that was read just now, and that was written at
  // `modified` (0: unknown), belongs to the group of this object. Asks the store only about objects
  // that are not older than this one, and once for all that wait at the same time.
  //
  // `done` is called once, by the HTTP client's thread, which it must not block, or within this
  // call. Aborted: the group was replaced. Others: those of Store::ErrorOf.
  void Check(std::time_t modified, std::function<void(absl::Status)> done) const;

 private:
  using Waiting = std::vector<std::function<void(absl::Status)>>;

  GuardObject(std::shared_ptr<const Store> store, ObjectInfo info);
  void Ask() const;
  void Answer(absl::Status status, std::time_t now) const;

  const std::shared_ptr<const Store> store_;
  const ObjectInfo info_;

  mutable Mutex mutex_;
  // Objects that were written earlier belong to the group.
  mutable std::time_t same_until_ ABSL_GUARDED_BY(mutex_);
  mutable uint64_t forks_ ABSL_GUARDED_BY(mutex_);
  mutable bool asking_ ABSL_GUARDED_BY(mutex_) = false;
  // Those whose question is being asked, and those who came later, for whom it is asked again.
  mutable Waiting asked_ ABSL_GUARDED_BY(mutex_);
  mutable Waiting waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_GUARD_OBJECT_H_
