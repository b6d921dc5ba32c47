// What the commands share: how they end, how they are interrupted, what they show meanwhile.

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

// Exit statuses: 0 done, 1 defects in data, 2 wrong use, 3 input or output failed, 130 interrupted.
inline constexpr int kExitDone = 0;
inline constexpr int kExitDefects = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitIo = 3;
inline constexpr int kExitInterrupted = 130;

// What every command knows.
struct CommandOptions {
  bool json = false;   // one JSON object on standard output
  bool quiet = false;  // no progress, no summary; errors only
  int threads = 0;     // 0: one per processor
  std::string cache;   // a folder; empty: none
  std::string cache_size;
};

// `text` for one line of a terminal: what would begin another, or steer the terminal (names of
// files hold any bytes), is written as \n or \x1b.
std::string OneLine(std::string_view text);

// The error's message and, where an option helps, which one: "...; pass --overwrite to replace it".
std::string DescribeError(const absl::Status& status);

// Prints "shardfeed: MESSAGE" to standard error and returns the exit status that fits.
int ReportError(const absl::Status& status);

// Asked to stop by the first Ctrl-C (SIGINT) or SIGTERM; a second one ends the process at once.
// Call StartInterruptHandler before any thread is started.
void StartInterruptHandler();
std::stop_token InterruptToken();

// Shows how far a long piece of work is: on a terminal a line that is redrawn, otherwise a plain
// line now and then. Writes to standard error; nothing if `quiet`.
class ProgressDisplay {
 public:
  // `units` in "bytes" are shown as sizes.
  struct State {
    std::string what;  // "scanning", "writing"
    uint64_t done = 0;
    uint64_t total = 0;  // 0: unknown
    bool bytes = false;  // whether amounts are sizes rather than `unit`s
    std::string unit = "records";
  };
  // `state` is called from a thread of the display until it is destroyed.
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
