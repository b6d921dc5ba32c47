#include "cli/pipeline_run.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "cli/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace shardfeed {
namespace {

uint64_t PerSecond(uint64_t count, double seconds) {
  return static_cast<uint64_t>(static_cast<double>(count) / std::max(seconds, 1e-9));
}

nlohmann::ordered_json StagesJson(const IteratorStats& stats) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const StageStats& stage : stats.stages) {
    stages.push_back({{"name", stage.name},
                      {"threads", stage.threads},
                      {"batches", stage.batches},
                      {"rows", stage.rows},
                      {"rows_per_second", PerSecond(stage.rows, stats.seconds)},
                      {"bytes_per_second", PerSecond(stage.bytes, stats.seconds)},
                      {"busy_seconds", stage.busy_seconds},
                      {"wait_for_input_seconds", stage.wait_in_seconds},
                      {"wait_for_output_seconds", stage.wait_out_seconds},
                      {"batches_ready", stage.ready},
                      {"batches_ahead", stage.ahead},
                      {"peak_bytes", stage.peak_bytes}});
  }
  return stages;
}

void PrintSummary(const Dataset& ds, const IteratorStats& stats, uint64_t bytes) {
  fmt::print("{} batches of {} rows in {}: {} rows/s, {}/s\n", FormatCount(stats.elements),
             stats.elements > 0 ? FormatCount(stats.rows / stats.elements) : "0",
             FormatDuration(stats.seconds), FormatCount(PerSecond(stats.rows, stats.seconds)),
             FormatSize(PerSecond(bytes, stats.seconds)));
  fmt::print("chain: {}\n", ds.Text());
  fmt::print("columns: {}\n", RowSpecText(ds.spec()));
  fmt::print("{:<20} {:>8} {:>12} {:>8} {:>14} {:>15} {:>12}\n", "stage", "threads", "rows/s",
             "busy", "waits for input", "is waited for", "peak memory");
  for (const StageStats& stage : stats.stages) {
    const double all = std::max(stats.seconds * stage.threads, 1e-9);
    fmt::print(
        "{:<20} {:>8} {:>12} {:>6.0f} % {:>13.0f} % {:>13.0f} % {:>12}\n", stage.name,
        stage.threads, FormatCount(PerSecond(stage.rows, stats.seconds)),
        100 * stage.busy_seconds / all, 100 * stage.wait_in_seconds / std::max(stats.seconds, 1e-9),
        100 * stage.wait_out_seconds / std::max(stats.seconds, 1e-9), FormatSize(stage.peak_bytes));
  }
  fmt::print("{}\n", stats.verdict);
}

}  // namespace

int RunPipeline(const Dataset& ds, const PipelineRun& run, const CommandOptions& options) {
  RunOptions running;
  running.threads = options.threads;
  running.deterministic = !run.any_order;
  running.headspace = run.headspace;
  if (!run.trace.empty()) running.trace = std::make_shared<Trace>();
  absl::StatusOr<std::unique_ptr<Iterator>> started = ds.Start(running);
  if (!started.ok()) return ReportError(started.status());
  Iterator& it = **started;
  // The first batch over and over has no end of its own.
  const uint64_t take = run.take.value_or(run.headspace ? 1000 : UINT64_MAX);
  std::atomic<uint64_t> rows = 0;
  uint64_t bytes = 0;
  double first_batch_seconds = 0;
  const Stopwatch watch;
  absl::Status status;
  {
    ProgressDisplay display(options, [&] {
      return ProgressDisplay::State{.what = "reading batches", .done = rows, .unit = "rows"};
    });
    for (uint64_t n = 0; n < take; ++n) {
      if (InterruptToken().stop_requested()) {
        status = absl::CancelledError("interrupted");
        break;
      }
      Batch batch;
      status = it.Next(&batch);
      if (!status.ok() || batch.empty()) break;
      if (n == 0) first_batch_seconds = watch.Seconds();
      rows += batch.rows;
      bytes += batch.bytes();
    }
  }
  if (!status.ok()) return ReportError(status);
  const IteratorStats stats = it.stats();
  started->reset();
  if (running.trace != nullptr) {
    if (status = running.trace->Write(run.trace); !status.ok()) return ReportError(status);
  }
  if (options.json) {
    const nlohmann::ordered_json json = {{"chain", ds.Text()},
                                         {"columns", RowSpecText(ds.spec())},
                                         {"batches", stats.elements},
                                         {"rows", stats.rows},
                                         {"records", stats.rows},
                                         {"bytes", bytes},
                                         {"seconds", stats.seconds},
                                         {"rows_per_second", PerSecond(stats.rows, stats.seconds)},
                                         {"bytes_per_second", PerSecond(bytes, stats.seconds)},
                                         {"first_batch_seconds", first_batch_seconds},
                                         {"wait_seconds", stats.wait_seconds},
                                         {"stages", StagesJson(stats)},
                                         {"verdict", stats.verdict},
                                         {"peak_rss_bytes", PeakResidentBytes()}};
    fmt::print("{}\n", json.dump(1));
  } else if (!options.quiet) {
    PrintSummary(ds, stats, bytes);
  }
  return kExitDone;
}

}  // namespace shardfeed
