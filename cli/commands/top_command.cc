// The top command: shows what the runs of this machine do.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "cli/commands/commands.h"
#include "cli/flags/common_flags.h"
#include "cli/terminal/color.h"
#include "cli/terminal/terminal.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "pipeline/live_run.h"

namespace shardfeed {
namespace {

// A run writes its statistics every second.
constexpr uint64_t kSilentSeconds = 5;

struct TopFlags {
  uint64_t pid = 0;
  bool once = false;
};

double Share(double part, double whole) { return 100 * part / std::max(whole, 1e-9); }

double WaitShare(const LiveRun& run) { return Share(run.recent.wait_seconds, run.recent.seconds); }

std::string Rate(uint64_t count, double seconds) {
  return FormatCount(
      static_cast<uint64_t>(std::round(static_cast<double>(count) / std::max(seconds, 1e-9))));
}

std::string RankText(const LiveRun& run) {
  return run.world == 1 ? "-" : fmt::format("{} of {}", run.rank, run.world);
}

// The lines about one run. Lines of commands and tables are cut to `columns`.
std::vector<std::string> Details(const LiveRun& run, size_t columns) {
  const IteratorStats& recent = run.recent;
  std::vector<std::string> lines;
  lines.push_back(fmt::format("process {}, run {}: {}", run.pid, run.number, run.command));
  lines.push_back(fmt::format(
      "{}epoch {}, for {}, {} rows{}{}",
      run.world == 1 ? "" : fmt::format("rank {}, ", RankText(run)), run.epoch,
      FormatDuration(run.all.seconds), FormatCount(run.all.rows),
      run.all.damaged == 0 ? "" : fmt::format(", {} of them damaged", FormatCount(run.all.damaged)),
      run.all.ignored == 0 ? "" : fmt::format(", {} ignored", FormatCount(run.all.ignored))));
  lines.push_back(run.chain);
  lines.push_back(fmt::format("{} rows/s, {} elements/s, the consumer waits {:.0f} % of the time",
                              Rate(recent.rows, recent.seconds),
                              Rate(recent.elements, recent.seconds), WaitShare(run)));
  lines.push_back("");
  // Headings of a narrow terminal are short.
  const bool wide = columns >= 100;
  const size_t in = wide ? 15 : 5;
  const size_t out = wide ? 13 : 5;
  const size_t threads = wide ? 7 : 3;
  const size_t others = threads + in + out + 12 + 6 + 6 + 10 + 7;
  const size_t name = std::clamp<size_t>(columns, others + 8, others + 24) - others;
  lines.push_back(fmt::format("{:<{}} {:>{}} {:>12} {:>6} {:>{}} {:>{}} {:>6} {:>10}", "stage",
                              name, wide ? "threads" : "thr", threads, "rows/s", "busy",
                              wide ? "waits for input" : "in", in, wide ? "is waited for" : "out",
                              out, "ready", "ahead"));
  for (const StageStats& stage : recent.stages) {
    lines.push_back(fmt::format(
        "{:<{}} {:>{}} {:>12} {:>4.0f} % {:>{}.0f} % {:>{}.0f} % {:>6} {:>10}",
        CutEnd(stage.name, name), name, stage.workers, threads, Rate(stage.rows, recent.seconds),
        Share(stage.busy_seconds, recent.seconds * std::max(stage.workers, 1)),
        Share(stage.wait_in_seconds, recent.seconds), in - 2,
        Share(stage.wait_out_seconds, recent.seconds), out - 2, stage.ready,
        FormatSize(stage.ahead_bytes)));
  }
  for (std::string& line : lines) line = CutEnd(OneLine(line), columns);
  lines.push_back("");
  lines.push_back(recent.verdict);
  return lines;
}

using Ranks = std::vector<const LiveRun*>;

bool HasRankTwice(const Ranks& ranks) {
  std::set<uint64_t> seen;
  return !std::ranges::all_of(
      ranks, [&seen](const LiveRun* run) { return seen.insert(run->rank).second; });
}

// The ranks of each job. Jobs of one size are told apart by the processes that have started their
// ranks, where they must be: ranks that were started by hand may have several.
std::vector<Ranks> JobsOf(const std::vector<LiveRun>& runs) {
  std::map<uint64_t, Ranks> worlds;
  for (const LiveRun& run : runs) {
    if (run.world > 1) worlds[run.world].push_back(&run);
  }
  std::vector<Ranks> jobs;
  for (auto& [world, ranks] : worlds) {
    if (!HasRankTwice(ranks)) {
      jobs.push_back(std::move(ranks));
      continue;
    }
    std::map<uint64_t, Ranks> by_parent;
    for (const LiveRun* run : ranks) by_parent[run->parent].push_back(run);
    for (auto& [parent, of_parent] : by_parent) {
      if (!HasRankTwice(of_parent)) jobs.push_back(std::move(of_parent));
    }
  }
  return jobs;
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Ranks that wait for each other are all as slow as the one that waits longest for its data.
std::vector<std::string> SlowestRanks(const std::vector<LiveRun>& runs) {
  const std::vector<Ranks> jobs = JobsOf(runs);
  std::vector<std::string> lines;
  for (const Ranks& ranks : jobs) {
    if (ranks.size() < 2) continue;
    std::vector<double> waits;
    for (const LiveRun* run : ranks) waits.push_back(WaitShare(*run));
    const LiveRun& slowest = *ranks[std::ranges::max_element(waits) - waits.begin()];
    const bool alone = std::ranges::count_if(jobs, [&](const Ranks& job) {
                         return job.front()->world == slowest.world;
                       }) == 1;
    lines.push_back(
        fmt::format("of {} ranks of {}, rank {}{} waits longest for its data: {:.0f} % of the time "
                    "(median {:.0f} %); {}",
                    ranks.size(), slowest.world, slowest.rank,
                    alone ? "" : fmt::format(" (process {})", slowest.pid), WaitShare(slowest),
                    Median(waits), slowest.recent.verdict));
  }
  return lines;
}

std::vector<std::string> Table(const std::vector<LiveRun>& runs, size_t columns) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{:>8} {:>4} {:>12} {:>6} {:>12} {:>6}  {:<24}  {}", "process", "run",
                              "rank", "epoch", "rows/s", "waits", "what limits", "command"));
  for (const LiveRun& run : runs) {
    lines.push_back(fmt::format("{:>8} {:>4} {:>12} {:>6} {:>12} {:>4.0f} %  {:<24}  {}", run.pid,
                                run.number, RankText(run), run.epoch,
                                Rate(run.recent.rows, run.recent.seconds), WaitShare(run),
                                CutEnd(run.recent.limit, 24), run.command));
  }
  for (std::string& line : lines) line = CutEnd(OneLine(line), columns);
  for (std::string& line : SlowestRanks(runs)) {
    lines.push_back("");
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> Page(const std::vector<LiveRun>& runs, uint64_t pid, size_t columns) {
  if (runs.empty()) {
    return {"no run on this machine has lasted for a second; this waits for one (Ctrl-C ends it)"};
  }
  std::vector<std::string> lines;
  if (pid == 0 && runs.size() > 1) {
    lines = Table(runs, columns);
  } else {
    for (const LiveRun& run : runs) {
      if (!lines.empty()) lines.push_back("");
      for (std::string& line : Details(run, columns)) lines.push_back(std::move(line));
    }
  }
  const auto now = static_cast<uint64_t>(std::time(nullptr));
  for (const LiveRun& run : runs) {
    if (now < run.updated + kSilentSeconds) continue;
    lines.push_back("");
    lines.push_back(fmt::format("process {} has reported nothing for {}: is it stopped?", run.pid,
                                FormatDuration(static_cast<double>(now - run.updated))));
  }
  return lines;
}

absl::StatusOr<std::vector<LiveRun>> RunsOf(uint64_t pid) {
  absl::StatusOr<std::vector<LiveRun>> runs = ReadLiveRuns();
  if (!runs.ok() || pid == 0) return runs;
  std::erase_if(*runs, [pid](const LiveRun& run) { return run.pid != pid; });
  if (!runs->empty()) return runs;
  return absl::NotFoundError(fmt::format(
      "process {} has no run that has lasted for a second; 'shardfeed top' shows the processes "
      "that have, of this user and on this machine",
      pid));
}

int RunTop(const TopFlags& flags, const CommandOptions& options) {
  if (LiveFolder().empty()) {
    return ReportError(absl::FailedPreconditionError(
        "SHARDFEED_LIVE_DIR is empty, which keeps runs from reporting what they do"));
  }
  absl::StatusOr<std::vector<LiveRun>> runs = RunsOf(flags.pid);
  if (!runs.ok()) return ReportError(runs.status());
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const LiveRun& run : *runs) all.push_back(LiveRunToJson(run));
    fmt::print("{}\n", nlohmann::ordered_json{{"runs", all}}.dump(
                           1, ' ', false, nlohmann::json::error_handler_t::replace));
    return kExitDone;
  }
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const bool watch = terminal && !flags.once;
  const std::stop_token interrupted = InterruptToken();
  Mutex mutex;
  StopCondVar waiting;
  while (true) {
    std::string page;
    for (const std::string& line :
         Page(*runs, flags.pid, terminal ? TerminalColumns() : SIZE_MAX)) {
      page += OneLine(line) + "\n";
    }
    if (!watch && runs->empty()) page = "no run on this machine has lasted for a second\n";
    if (watch) fmt::print("\x1b[H\x1b[J");  // Begin at the top, on an empty screen.
    fmt::print("{}", page);
    std::fflush(stdout);
    if (!watch) return kExitDone;
    {
      MutexLock lock(mutex);
      waiting.WaitFor(lock, interrupted, std::chrono::seconds(1), [] { return false; });
    }
    if (interrupted.stop_requested()) return kExitDone;
    runs = RunsOf(flags.pid);
    // The process has ended.
    if (!runs.ok()) return absl::IsNotFound(runs.status()) ? kExitDone : ReportError(runs.status());
  }
}

}  // namespace

void AddTopCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* command = app.add_subcommand(
      "top", "Show what running programs do with their data, and what limits them");
  auto flags = std::make_shared<TopFlags>();
  command->add_option("PID", flags->pid, "show the runs of this process alone, with their stages")
      ->check(WholeNumber(1));
  command->add_flag("--once", flags->once, "print once and exit, as without a terminal");
  AddCommonOptions(*command, options);
  command->footer(
      "Shows the runs of this user on this machine that have lasted for a second, of training in\n"
      "Python and in C++ and of 'shardfeed bench': rates, how long the consumer waits for data,\n"
      "and what limits the run. Figures are those of the last second. If there are several ranks,\n"
      "the one that waits longest is named. On a terminal, the page is refreshed every second\n"
      "until Ctrl-C.\n\n"
      "Examples:\n"
      "  shardfeed top\n"
      "  shardfeed top 4123\n"
      "  shardfeed top --json\n");
  command->callback([flags, &options, exit] { *exit = RunTop(*flags, options); });
}

}  // namespace shardfeed
