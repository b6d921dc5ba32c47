// What the commands share: exit statuses, interruption and progress.

#ifndef SHARDFEED_CLI_CONSOLE_H_
#define SHARDFEED_CLI_CONSOLE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace shardfeed {

// Exit statuses: 0 done, 1 defects in data, 2 usage error, 3 input or output failed, 130
// interrupted.
inline constexpr int kExitDone = 0;
inline constexpr int kExitDefects = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitIo = 3;
inline constexpr int kExitInterrupted = 130;

// The options that every command has.
struct CommandOptions {
  bool json = false;   // one JSON object on standard output
  bool quiet = false;  // no progress, no summary; errors only
  int threads = 0;     // 0: one per processor
  std::string cache;   // a folder; empty: none
  std::string cache_size;
};

// Returns `text` for one line of a terminal: line breaks and control characters, which file names
// may contain, are written as
//  or \x1b.
std::string OneLine(std::string_view text);

// Returns the error's message and the option that remedies it, if any: "...; pass --overwrite to
// replace it".
std::string DescribeError(const absl::Status& status);

// Prints "shardfeed: MESSAGE" to standard error and returns the matching exit status.
int ReportError(const absl::Status& status);

// The first Ctrl-C (SIGINT) or SIGTERM asks the token to stop; a second one ends the process at
// once. Call StartInterruptHandler before any thread is started.
void StartInterruptHandler();
std::stop_token InterruptToken();

// Shows the progress of long work on standard error: on a terminal a line that is redrawn,
// otherwise a plain line every few seconds. Shows nothing if `quiet`.
class ProgressDisplay {
 public:
  struct State {
    std::string what;  // "scanning", "writing"
    uint64_t done = 0;
    uint64_t total = 0;  // 0: unknown
    bool bytes = false;  // whether amounts are sizes rather than `unit`s
    std::string unit = "records";
  };
  // `state` is called from the display's own thread until the display is destroyed.
  ProgressDisplay(const CommandOptions& options, std::function<State()> state);
  ~ProgressDisplay();

 private:
  void Run();
  std::string Line(const State& state) const;

  const std::function<State()> state_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::string what_;  // `what` of the previous line
  std::chrono::steady_clock::time_point what_start_;
  Mutex mutex_;
  CondVar ended_changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // none if quiet
};

// The most memory this process has had resident, in bytes.
uint64_t PeakResidentBytes();

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_CONSOLE_H_
