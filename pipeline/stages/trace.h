// What threads did when, as a file for Perfetto or chrome://tracing.

#ifndef SHARDFEED_PIPELINE_STAGES_TRACE_H_
#define SHARDFEED_PIPELINE_STAGES_TRACE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace shardfeed {

// Thread safe. Keeps the first million events. Times of std::chrono::steady_clock.
class Trace {
 public:
  // What the calling thread did.
  void Add(const std::string& name, uint64_t begin_ns, uint64_t end_ns, uint64_t rows);

  // How many batches a stage has begun, from now on.
  void AddLevel(const std::string& name, uint64_t at_ns, uint64_t batches);

  // The Trace Event Format of Chrome, as JSON.
  absl::Status Write(const std::string& path) const;

 private:
  struct Event {
    const std::string* name;
    uint64_t thread;
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t count;  // rows; of a level, batches
    bool level;
  };
  void Add(const std::string& name, Event event);

  mutable Mutex mutex_;
  std::set<std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::vector<Event> events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_TRACE_H_
