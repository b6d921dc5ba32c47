#include "cli/terminal/progress.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "cli/terminal/terminal.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "io/thread.h"

namespace shardfeed {
namespace {

constexpr std::chrono::milliseconds kRedraw(125);
constexpr std::chrono::milliseconds kPlainLine(10'000);
// A name cut to fewer columns than this says nothing.
constexpr size_t kLeastName = 8;

// Returns what can be said of the progress after the phase, from the most to the least.
std::vector<std::string> Forms(const Progress& progress, double seconds) {
  const auto plain = [&](uint64_t n) { return progress.bytes ? FormatSize(n) : FormatCount(n); };
  const auto amount = [&](uint64_t n) {
    return progress.bytes ? FormatSize(n) : fmt::format("{} {}", FormatCount(n), progress.unit);
  };
  const uint64_t own = progress.done - std::min(progress.done, progress.taken_over);
  const double per_second = seconds > 0 ? static_cast<double>(own) / seconds : 0;
  const auto rate = static_cast<uint64_t>(per_second);
  const std::string limit = progress.limit.empty() || progress.limit == "nothing"
                                ? ""
                                : fmt::format(", {} limits", progress.limit);
  // What grows, or turns out to be compressed, can exceed its total, which is then no total.
  if (progress.total == 0 || progress.done > progress.total) {
    return {fmt::format("{}, {}/s{}", amount(progress.done), amount(rate), limit),
            fmt::format("{}, {}/s{}", amount(progress.done), plain(rate), limit),
            fmt::format("{}, {}/s", amount(progress.done), plain(rate)), plain(progress.done)};
  }
  const uint64_t done = progress.done;
  const double share = static_cast<double>(done) / static_cast<double>(progress.total);
  const std::string percent = fmt::format("{} %", static_cast<int>(share * 100));
  std::string left;
  if (done < progress.total && per_second > 0) {
    left = fmt::format(", {} left",
                       FormatDuration(static_cast<double>(progress.total - done) / per_second));
  }
  return {
      fmt::format("{} of {} ({}), {}/s{}{}", plain(done), amount(progress.total), percent,
                  amount(rate), left, limit),
      fmt::format("{} of {}, {}/s{}{}", percent, amount(progress.total), plain(rate), left, limit),
      fmt::format("{} of {}, {}/s{}", percent, amount(progress.total), plain(rate), left),
      percent + left, percent};
}

}  // namespace

std::string ProgressLine(const Progress& progress, double seconds, size_t columns) {
  const std::vector<std::string> forms = Forms(progress, seconds);
  const std::string what = OneLine(progress.what);
  for (const std::string& form : forms) {
    const size_t used = ColumnsOf(what) + ColumnsOf(form) + 2;
    if (used > columns) continue;
    std::string name;
    if (!progress.name.empty() && columns - used > kLeastName) {
      name = " " + CutBeginning(OneLine(progress.name), columns - used - 1);
    }
    return fmt::format("{}{}: {}", what, name, form);
  }
  return CutEnd(forms.back(), columns);
}

uint64_t SizeOfFiles(const std::vector<std::string>& paths) {
  uint64_t sum = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    const uint64_t size = std::filesystem::file_size(path, error);
    if (!error) sum += size;
  }
  return sum;
}

ProgressDisplay::ProgressDisplay(const CommandOptions& options, std::function<Progress()> state)
    : state_(std::move(state)), terminal_(StderrIsTerminal()), what_start_(Clock::now()) {
  if (options.quiet) return;
  absl::StatusOr<std::thread> thread =
      StartThread([this] { CatchAll([this] { Run(); }).IgnoreError(); });
  if (thread.ok()) thread_ = *std::move(thread);
}

ProgressDisplay::~ProgressDisplay() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    ended_ = true;
  }
  ended_changed_.NotifyAll();
  thread_.join();
  CatchAll([] { RemoveStatusLine(); }).IgnoreError();
}

void ProgressDisplay::Run() {
  const std::chrono::milliseconds wait = terminal_ ? kRedraw : kPlainLine;
  MutexLock lock(mutex_);
  // Work that ends at once shows no progress.
  while (!ended_changed_.WaitFor(
      lock, wait, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_; })) {
    const Progress state = state_();
    if (state.what != what_) {
      // The first phase began with the display, the others since the previous line.
      if (!what_.empty()) what_start_ = Clock::now() - wait;
      what_ = state.what;
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - what_start_).count();
    if (terminal_) {
      // Most terminals wrap a line whose last column is written.
      ShowStatusLine(ProgressLine(state, seconds, TerminalColumns() - 1));
    } else {
      PrintMessage(ProgressLine(state, seconds, SIZE_MAX));
    }
  }
}

}  // namespace shardfeed
