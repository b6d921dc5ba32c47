#include "pipeline/stages/verdict.h"

#include <algorithm>

#include "fmt/format.h"

namespace shardfeed {
namespace {

// Shares of the time.
constexpr double kHardlyWaits = 0.1;
constexpr double kBusy = 0.6;
constexpr double kMostly = 0.5;

// In less than this, starting the threads is most of what is waited for.
constexpr double kLeastSeconds = 0.5;

}  // namespace

Verdict FindLimit(double seconds, double wait_seconds, const std::vector<StageStats>& stages) {
  seconds = std::max(seconds, 1e-9);
  const double waits = wait_seconds / seconds;
  if (waits < kHardlyWaits) {
    return {"the consumer",
            fmt::format(
                "the consumer limits: it waits {:.0f} % of the time; a faster chain would not help",
                100 * waits)};
  }
  double busiest = 0;
  for (auto it = stages.rbegin(); it != stages.rend(); ++it) {
    const StageStats& stage = *it;
    const int workers = std::max(stage.workers, 1);
    const double busy = stage.busy_seconds / (seconds * workers);
    busiest = std::max(busiest, busy);
    if (busy < kBusy) continue;
    return {
        stage.name,
        fmt::format("{} limits: its {} busy {:.0f} % of the time; more threads or "
                    "cores, or less work in it, would help",
                    stage.name, workers == 1 ? "thread is" : fmt::format("{} threads are", workers),
                    100 * busy)};
  }
  // A reader has no input stage; time that others wait for it counts as reading.
  double reading = 0;
  for (const StageStats& stage : stages) {
    if (stage.reads) reading += stage.wait_out_seconds / seconds;
  }
  if (reading >= kMostly) {
    return {"reading",
            fmt::format("reading limits: it is waited for {:.0f} % of the time; faster storage, a "
                        "larger budget or more reading threads would help",
                        100 * std::min(reading, 1.0))};
  }
  for (const StageStats& stage : stages) {
    const double input = stage.wait_in_seconds / seconds;
    if (input < kMostly) continue;
    const std::string limit = fmt::format("the input of {}", stage.name);
    return {limit, fmt::format("{} limits: it is waited for {:.0f} % of the time; a generator or a "
                               "single-threaded step precedes it",
                               limit, 100 * std::min(input, 1.0))};
  }
  // The first stage that is waited for, from the source on, keeps all others waiting.
  for (const StageStats& stage : stages) {
    const double output = stage.wait_out_seconds / seconds;
    if (output < kMostly || seconds < kLeastSeconds) continue;
    return {stage.name,
            fmt::format("{} limits: it is waited for {:.0f} % of the time, although its threads "
                        "have not been busy; a function in it waits for something else, or has "
                        "not returned yet",
                        stage.name, 100 * std::min(output, 1.0))};
  }
  return {
      "nothing",
      fmt::format("nothing limits for long: the consumer waits {:.0f} % of the time, threads of "
                  "stages are busy at most {:.0f} %, and reading is waited for {:.0f} %",
                  100 * waits, 100 * busiest, 100 * std::min(reading, 1.0))};
}

}  // namespace shardfeed
