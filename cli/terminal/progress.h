// The progress of long work on standard error.

#ifndef SHARDFEED_CLI_TERMINAL_PROGRESS_H_
#define SHARDFEED_CLI_TERMINAL_PROGRESS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "cli/terminal/console.h"

namespace shardfeed {

struct Progress {
  std::string what;  // the phase: "scanning", "writing"
  std::string name;  // what is worked on, such as a dataset; may be empty
  uint64_t done = 0;
  uint64_t total = 0;       // 0: unknown
  uint64_t taken_over = 0;  // the part of `done` that an earlier run did
  bool bytes = false;       // whether amounts are sizes rather than `unit`s
  std::string unit = "records";
  std::string limit;  // what limits the speed, if that is known: "reading"
};

// Returns the progress after `seconds` of its phase in at most `columns` columns:
//   writing out/d: 1,234 of 5,000 records (25 %), 456 records/s, 8.3 s left, reading limits
// What does not fit is left out, the least important first.
std::string ProgressLine(const Progress& progress, double seconds, size_t columns);

// Returns the size of the files for Progress::total, without those that are in stores.
uint64_t SizeOfFiles(const std::vector<std::string>& paths);

// Shows the progress until it is destroyed: on a terminal in a line that is written again,
// otherwise in plain lines every ten seconds. Shows nothing if `quiet`. There is one at a time.
class ProgressDisplay {
 public:
  // `state` is called from the display's own thread until the display is destroyed.
  ProgressDisplay(const CommandOptions& options, std::function<Progress()> state);
  ~ProgressDisplay();

 private:
  using Clock = std::chrono::steady_clock;
  void Run();

  const std::function<Progress()> state_;
  const bool terminal_;
  std::string what_;  // phase of the previous line
  Clock::time_point what_start_;
  Mutex mutex_;
  CondVar ended_changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // none if quiet
};

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_TERMINAL_PROGRESS_H_
