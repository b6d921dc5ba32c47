// What runs report to other processes while they last.
//
// A run writes its statistics once a second to a file of shared memory,
// LIVE_FOLDER/PID-NUMBER.json, which it removes at its end. A killed process leaves its files
// behind; whoever reads the folder removes them. A run that cannot write there reports nothing and
// continues.

#ifndef SHARDFEED_PIPELINE_LIVE_RUN_H_
#define SHARDFEED_PIPELINE_LIVE_RUN_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "nlohmann/json_fwd.hpp"
#include "shardfeed/iterator.h"

namespace shardfeed {

struct LiveRun {
  uint64_t pid = 0;
  // When the process began, in clock ticks since the machine did (proc(5)), which tells it from a
  // later one of the same number.
  uint64_t process_start = 0;
  // The process that started it, when it was looked at; 0: unknown. Ranks of one job have one.
  uint64_t parent = 0;
  // Number of the run in its process. Chains that are tried out before they run have numbers, too.
  uint64_t number = 0;
  std::string command;  // the process's command line
  std::string chain;    // Dataset::Text
  // The part of the data that the run takes.
  uint64_t rank = 0;
  uint64_t world = 1;
  uint64_t epoch = 0;
  uint64_t updated = 0;        // Unix time in seconds
  double waiting_seconds = 0;  // how long the consumer has been waiting; 0 if it is not
  // Their stages have only the members that LiveRunToJson writes.
  IteratorStats all;     // since the run began
  IteratorStats recent;  // for the last second
};

nlohmann::ordered_json LiveRunToJson(const LiveRun& run);

// Returns SHARDFEED_LIVE_DIR or, if it is not set, /dev/shm/shardfeed-UID. Empty: runs tell
// nothing.
std::string LiveFolder();

// Returns the runs of this user on this machine, by process and number. Removes files of processes
// that have ended. Files of other versions are ignored. Errors: those of ErrnoStatus, if the folder
// exists and cannot be read.
absl::StatusOr<std::vector<LiveRun>> ReadLiveRuns();

// Reports on one run until it is destroyed.
class LivePublisher {
 public:
  // `look` sets the epoch, how long the consumer has been waiting, and the statistics, except
  // `recent`. Then `record`, if any, gets all of it. Both are called by another thread, for the
  // first time after `interval`, until the destructor returns. `run` has the chain and the part of
  // the data. Null if no thread can be started, or if the folder's name is empty and there is no
  // `record`.
  static std::unique_ptr<LivePublisher> Start(
      LiveRun run, std::function<void(LiveRun*)> look,
      std::function<void(const LiveRun&)> record = {},
      std::chrono::milliseconds interval = std::chrono::seconds(1));
  ~LivePublisher();
  LivePublisher(const LivePublisher&) = delete;
  LivePublisher& operator=(const LivePublisher&) = delete;

 private:
  LivePublisher(LiveRun run, std::function<void(LiveRun*)> look,
                std::function<void(const LiveRun&)> record, std::chrono::milliseconds interval);
  void Work();
  void Look();
  void Publish();

  LiveRun run_;
  const std::function<void(LiveRun*)> look_;
  const std::function<void(const LiveRun&)> record_;
  const std::chrono::milliseconds interval_;
  const std::string path_;  // empty: nothing is reported
  Mutex mutex_;
  CondVar ending_;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_LIVE_RUN_H_
