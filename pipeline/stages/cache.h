// A stage that stores what it delivers: cache and snapshot.

#ifndef SHARDFEED_PIPELINE_STAGES_CACHE_H_
#define SHARDFEED_PIPELINE_STAGES_CACHE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "pipeline/data/element_store.h"
#include "pipeline/stages/stage.h"

namespace shardfeed {

// What the stages of one step share over the epochs of a run. Thread-safe.
class ElementCache {
 public:
  // The stored elements, or null until they are complete.
  std::shared_ptr<const StoredElements> stored() const {
    MutexLock lock(mutex_);
    return stored_;
  }
  void Publish(std::shared_ptr<const StoredElements> stored) {
    MutexLock lock(mutex_);
    stored_ = std::move(stored);
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const StoredElements> stored_ ABSL_GUARDED_BY(mutex_);
};

struct CachePlan {
  // Both are called only while nothing is stored.
  std::function<absl::StatusOr<std::unique_ptr<Stage>>()> input;
  std::function<absl::StatusOr<std::unique_ptr<ElementWriter>>()> writer;
};

// Delivers the elements of the input and stores them; once all are stored, they come from the
// store. To resume from a state saved before that, the input is read from its beginning.
absl::StatusOr<std::unique_ptr<Stage>> MakeCacheStage(CachePlan plan,
                                                      std::shared_ptr<ElementCache> cache,
                                                      uint64_t epoch);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_CACHE_H_
