// A stage that keeps what it delivers: cache and snapshot.

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

// What the stages of one step share over the epochs of a run. Thread safe.
class ElementCache {
 public:
  // Null until they are complete.
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
  // Both are asked for only while nothing is stored.
  std::function<absl::StatusOr<std::unique_ptr<Stage>>()> input;
  std::function<absl::StatusOr<std::unique_ptr<ElementWriter>>()> writer;
};

// Delivers the input's elements and keeps them; once all are there, they come from the store. A
// state that was saved before is come back to by reading the input from its start.
absl::StatusOr<std::unique_ptr<Stage>> MakeCacheStage(CachePlan plan,
                                                      std::shared_ptr<ElementCache> cache,
                                                      uint64_t epoch);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_CACHE_H_
