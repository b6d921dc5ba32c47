#include "pipeline/live_run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "io/bounded_json.h"
#include "io/file.h"
#include "io/folder.h"
#include "io/output_file.h"
#include "io/thread.h"
#include "nlohmann/json.hpp"
#include "pipeline/stages/verdict.h"

namespace shardfeed {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kVersion = 2;
constexpr size_t kMostBytes = 1 << 20;    // maximum size of a file
constexpr size_t kMostCommand = 1 << 10;  // bytes of a command line

std::string ReadAtMost(const std::string& path, size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string text(most, '\0');
  file.read(text.data(), static_cast<std::streamsize>(most));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// A field of /proc/PID/stat, counted from 1 as in proc(5). Nullopt: there is no such process.
std::optional<uint64_t> StatField(uint64_t pid, int wanted) {
  const std::string stat = ReadAtMost(fmt::format("/proc/{}/stat", pid), 4096);
  // The name of the program, which may hold anything, is in parentheses, which end field 2.
  size_t at = stat.rfind(')');
  if (at == std::string::npos) return std::nullopt;
  for (int field = 2; field < wanted && at != std::string::npos; ++field) {
    at = stat.find(' ', at + 1);
  }
  if (at == std::string::npos) return std::nullopt;
  uint64_t number = 0;
  const char* const end = stat.data() + stat.size();
  return std::from_chars(stat.data() + at + 1, end, number).ec == std::errc()
             ? std::optional(number)
             : std::nullopt;
}

constexpr int kParentField = 4;
constexpr int kStartField = 22;

std::optional<uint64_t> ProcessStart(uint64_t pid) { return StatField(pid, kStartField); }

std::string CommandLine() {
  std::string command = ReadAtMost("/proc/self/cmdline", kMostCommand);
  while (!command.empty() && command.back() == '\0') command.pop_back();
  std::ranges::replace(command, '\0', ' ');
  return command;
}

// Empty if runs report nothing.
std::string PathOf(const LiveRun& run) {
  const std::string folder = LiveFolder();
  return folder.empty() ? "" : fmt::format("{}/{}-{}.json", folder, run.pid, run.number);
}

// The process that began to write the file of that name, "17-1.json.tmp"; 0: it is another file.
uint64_t WriterOf(std::string_view name) {
  constexpr std::string_view kEnd = ".json.tmp";
  if (!name.ends_with(kEnd)) return 0;
  name.remove_suffix(kEnd.size());
  uint64_t pid = 0;
  uint64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [dash, wrong] = std::from_chars(name.data(), end, pid);
  if (wrong != std::errc() || dash == end || *dash != '-') return 0;
  const auto [stop, error] = std::from_chars(dash + 1, end, number);
  return error == std::errc() && stop == end ? pid : 0;
}

// Whether the folder exists, belongs to this user, and nobody else can write to it.
bool IsPrivateFolder(const std::string& path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & 022) == 0;
}
bool MakePrivateFolder(const std::string& path) {
  ::mkdir(path.c_str(), 0700);
  return IsPrivateFolder(path);
}

// The increase of a count. Loading a state may have made the count smaller.
uint64_t Added(uint64_t before, uint64_t now) { return now - std::min(before, now); }

IteratorStats Since(const IteratorStats& before, const IteratorStats& now) {
  IteratorStats recent = now;
  recent.seconds -= before.seconds;
  recent.elements = Added(before.elements, now.elements);
  recent.rows = Added(before.rows, now.rows);
  recent.damaged = Added(before.damaged, now.damaged);
  recent.dropped_damaged = Added(before.dropped_damaged, now.dropped_damaged);
  recent.ignored = Added(before.ignored, now.ignored);
  recent.wait_seconds -= before.wait_seconds;
  // Stages are only added.
  for (size_t i = 0; i < before.stages.size() && i < recent.stages.size(); ++i) {
    const StageStats& old = before.stages[i];
    StageStats& stage = recent.stages[i];
    stage.batches = Added(old.batches, stage.batches);
    stage.rows = Added(old.rows, stage.rows);
    stage.bytes = Added(old.bytes, stage.bytes);
    stage.invalid = Added(old.invalid, stage.invalid);
    stage.busy_seconds -= old.busy_seconds;
    stage.wait_in_seconds -= old.wait_in_seconds;
    stage.wait_out_seconds -= old.wait_out_seconds;
  }
  Verdict verdict = FindLimit(recent.seconds, recent.wait_seconds, recent.stages);
  recent.limit = std::move(verdict.limit);
  recent.verdict = std::move(verdict.text);
  return recent;
}

Json StatsToJson(const IteratorStats& stats) {
  Json stages = Json::array();
  for (const StageStats& stage : stats.stages) {
    stages.push_back({{"name", stage.name},
                      {"workers", stage.workers},
                      {"batches", stage.batches},
                      {"rows", stage.rows},
                      {"bytes", stage.bytes},
                      {"invalid", stage.invalid},
                      {"busy_seconds", stage.busy_seconds},
                      {"wait_in_seconds", stage.wait_in_seconds},
                      {"wait_out_seconds", stage.wait_out_seconds},
                      {"ready", stage.ready},
                      {"ahead_bytes", stage.ahead_bytes}});
  }
  return {{"seconds", stats.seconds},   {"elements", stats.elements},
          {"rows", stats.rows},         {"damaged", stats.damaged},
          {"ignored", stats.ignored},   {"wait_seconds", stats.wait_seconds},
          {"limit", stats.limit},       {"verdict", stats.verdict},
          {"stages", std::move(stages)}};
}

// Reads numbers that are not integers, besides what JsonMembers reads.
class Members : public JsonMembers {
 public:
  double Seconds(const Json& object, std::string_view key) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_number()) return found->get<double>();
    Fail(fmt::format("{}: expected a number", key));
    return 0;
  }
};

IteratorStats StatsFromJson(Members& members, const nlohmann::json& json) {
  IteratorStats stats;
  stats.seconds = members.Seconds(json, "seconds");
  stats.elements = members.Number(json, "elements");
  stats.rows = members.Number(json, "rows");
  stats.damaged = members.Number(json, "damaged");
  stats.ignored = members.Number(json, "ignored");
  stats.wait_seconds = members.Seconds(json, "wait_seconds");
  stats.limit = members.Text(json, "limit");
  stats.verdict = members.Text(json, "verdict");
  for (const nlohmann::json& one : members.Array(json, "stages")) {
    StageStats& stage = stats.stages.emplace_back();
    stage.name = members.Text(one, "name");
    stage.workers = static_cast<int>(members.Number(one, "workers", INT32_MAX));
    stage.batches = members.Number(one, "batches");
    stage.rows = members.Number(one, "rows");
    stage.bytes = members.Number(one, "bytes");
    stage.invalid = members.Number(one, "invalid");
    stage.busy_seconds = members.Seconds(one, "busy_seconds");
    stage.wait_in_seconds = members.Seconds(one, "wait_in_seconds");
    stage.wait_out_seconds = members.Seconds(one, "wait_out_seconds");
    stage.ready = members.Number(one, "ready");
    stage.ahead_bytes = members.Number(one, "ahead_bytes");
  }
  return stats;
}

std::optional<LiveRun> Parse(const std::string& text) {
  nlohmann::json json;
  if (!ParseBoundedJson(text, &json).ok() || !json.is_object()) return std::nullopt;
  Members members;
  if (members.Number(json, "version") != kVersion) return std::nullopt;
  LiveRun run;
  run.pid = members.Number(json, "pid");
  run.process_start = members.Number(json, "process_start");
  run.number = members.Number(json, "number");
  run.command = members.Text(json, "command");
  run.chain = members.Text(json, "chain");
  run.rank = members.Number(json, "rank");
  run.world = members.Number(json, "world");
  run.epoch = members.Number(json, "epoch");
  run.updated = members.Number(json, "updated");
  run.waiting_seconds = members.Seconds(json, "waiting_seconds");
  run.all = StatsFromJson(members, members.Object(json, "all"));
  run.recent = StatsFromJson(members, members.Object(json, "recent"));
  return members.status().ok() ? std::optional(std::move(run)) : std::nullopt;
}

}  // namespace

Json LiveRunToJson(const LiveRun& run) {
  return {{"version", kVersion},
          {"pid", run.pid},
          {"process_start", run.process_start},
          {"number", run.number},
          {"command", run.command},
          {"chain", run.chain},
          {"rank", run.rank},
          {"world", run.world},
          {"epoch", run.epoch},
          {"updated", run.updated},
          {"waiting_seconds", run.waiting_seconds},
          {"all", StatsToJson(run.all)},
          {"recent", StatsToJson(run.recent)}};
}

std::string LiveFolder() {
  const char* const folder = std::getenv("SHARDFEED_LIVE_DIR");
  return folder != nullptr ? folder : fmt::format("/dev/shm/shardfeed-{}", ::geteuid());
}

absl::StatusOr<std::vector<LiveRun>> ReadLiveRuns() {
  std::vector<LiveRun> runs;
  const std::string folder = LiveFolder();
  if (folder.empty()) return runs;
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(folder);
  if (absl::IsNotFound(names.status())) return runs;
  if (!names.ok()) return names.status();
  if (!IsPrivateFolder(folder)) {
    return absl::FailedPreconditionError(
        fmt::format("{}: others can write to this folder, or it is a link: runs are not reported "
                    "there; remove it, or name another folder (SHARDFEED_LIVE_DIR)",
                    folder));
  }
  for (const std::string& name : *names) {
    const std::string path = fmt::format("{}/{}", folder, name);
    if (const uint64_t pid = WriterOf(name); pid != 0 && !ProcessStart(pid)) {
      ::unlink(path.c_str());
      continue;
    }
    // ReadFile does not wait for the other end of a pipe.
    std::optional<LiveRun> run = Parse(ReadFile(path, kMostBytes).value_or(""));
    // Other files are somebody's own.
    if (!run || path != PathOf(*run)) continue;
    const std::optional<uint64_t> started = ProcessStart(run->pid);
    if (!started || run->process_start != *started) {
      ::unlink(path.c_str());
    } else {
      run->parent = StatField(run->pid, kParentField).value_or(0);
      runs.push_back(*std::move(run));
    }
  }
  std::ranges::sort(runs, {}, [](const LiveRun& run) { return std::tuple(run.pid, run.number); });
  return runs;
}

std::unique_ptr<LivePublisher> LivePublisher::Start(LiveRun run, std::function<void(LiveRun*)> look,
                                                    std::function<void(const LiveRun&)> record,
                                                    std::chrono::milliseconds interval) {
  static std::atomic<uint64_t> runs = 0;
  if (LiveFolder().empty() && !record) return nullptr;
  run.pid = static_cast<uint64_t>(::getpid());
  run.number = ++runs;
  std::unique_ptr<LivePublisher> live(
      new LivePublisher(std::move(run), std::move(look), std::move(record), interval));
  absl::StatusOr<std::thread> thread = StartThread([publisher = live.get()] { publisher->Work(); });
  if (!thread.ok()) return nullptr;
  live->thread_ = *std::move(thread);
  return live;
}

LivePublisher::LivePublisher(LiveRun run, std::function<void(LiveRun*)> look,
                             std::function<void(const LiveRun&)> record,
                             std::chrono::milliseconds interval)
    : run_(std::move(run)),
      look_(std::move(look)),
      record_(std::move(record)),
      interval_(interval),
      path_(PathOf(run_)) {}

LivePublisher::~LivePublisher() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    ends_ = true;
  }
  ending_.NotifyOne();
  thread_.join();
}

void LivePublisher::Work() {
  bool published = false;
  while (true) {
    {
      MutexLock lock(mutex_);
      if (ending_.WaitFor(lock, interval_,
                          [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ends_; })) {
        break;
      }
    }
    published = !path_.empty();
    CatchAll([this] {
      Look();
      if (record_) record_(run_);
      if (!path_.empty()) Publish();
    }).IgnoreError();  // memory ran out
  }
  if (published) ::unlink(path_.c_str());
}

void LivePublisher::Look() {
  if (run_.process_start == 0) {
    run_.process_start = ProcessStart(run_.pid).value_or(0);
    run_.command = CommandLine();
  }
  const IteratorStats before = std::move(run_.all);
  look_(&run_);
  run_.recent = Since(before, run_.all);
  run_.updated = static_cast<uint64_t>(std::time(nullptr));
}

void LivePublisher::Publish() {
  if (!MakePrivateFolder(path_.substr(0, path_.rfind('/')))) return;
  const std::string text =
      LiveRunToJson(run_).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  ReplaceFile(path_, text, /*sync=*/false).IgnoreError();  // the next one may succeed
}

}  // namespace shardfeed
