#include "cli/reports/pipeline_run.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <stop_token>
#include <vector>

#include "base/clock.h"
#include "base/rounding.h"
#include "cli/flags/cache_flags.h"
#include "cli/reports/store_report.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/units.h"
#include "decode/images/formats/png.h"
#include "fmt/format.h"
#include "io/output_file.h"
#include "io/remedy.h"
#include "media/image_limit.h"
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
                      {"workers", stage.workers},
                      {"read_ahead", stage.read_ahead},
                      {"batches", stage.batches},
                      {"rows", stage.rows},
                      {"rows_per_second", PerSecond(stage.rows, stats.seconds)},
                      {"bytes_per_second", PerSecond(stage.bytes, stats.seconds)},
                      {"busy_seconds", stage.busy_seconds},
                      {"wait_for_input_seconds", stage.wait_in_seconds},
                      {"wait_for_output_seconds", stage.wait_out_seconds},
                      {"batches_ready", stage.ready},
                      {"batches_ahead", stage.ahead},
                      {"peak_bytes", stage.peak_bytes},
                      {"invalid_rows", stage.invalid}});
  }
  return stages;
}

// Writes the images of `column` to a PNG file, from left to right and top to bottom with small
// gaps.
absl::Status SaveGrid(const Batch& batch, const std::string& column, const std::string& path) {
  const int c = batch.Find(column);
  const std::vector<int64_t>& shape = (*batch.spec)[c].shape;
  const auto height = static_cast<uint32_t>(shape[0]);
  const auto width = static_cast<uint32_t>(shape[1]);
  constexpr uint32_t kGap = 2;
  constexpr size_t kMaxImages = 256;
  const size_t count = std::min(batch.rows, kMaxImages);
  const auto across = static_cast<uint32_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const auto down = static_cast<uint32_t>(CeilDivide(count, across));
  const size_t from_bytes = size_t{3} * width;
  const size_t row_bytes = size_t{3} * (across * (width + kGap) - kGap);
  const size_t rows = size_t{down} * (height + kGap) - kGap;
  std::vector<uint8_t> sheet(row_bytes * rows, 255);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* from = batch.Row<uint8_t>(c, i).data();
    uint8_t* to =
        &sheet[i / across * (height + kGap) * row_bytes + i % across * (width + kGap) * 3];
    for (uint32_t y = 0; y < height; ++y, from += from_bytes, to += row_bytes) {
      std::copy_n(from, from_bytes, to);
    }
  }
  std::string png;
  absl::Status status = EncodePng(sheet.data(), static_cast<uint32_t>(row_bytes / 3),
                                  static_cast<uint32_t>(rows), &png);
  if (!status.ok()) {
    return WithMessage(status, fmt::format("{}: {}", path, std::string(status.message())));
  }
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  status = (*file)->Append(png);
  return status.ok() ? (*file)->Close() : status;
}

// Returns the number of rows that could not be decoded and were replaced or zeroed.
uint64_t InvalidRows(const IteratorStats& stats) {
  uint64_t sum = 0;
  for (const StageStats& stage : stats.stages) sum += stage.invalid;
  return sum;
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
    const double all = std::max(stats.seconds * stage.workers, 1e-9);
    fmt::print(
        "{:<20} {:>8} {:>12} {:>6.0f} % {:>13.0f} % {:>13.0f} % {:>12}\n", stage.name,
        stage.workers, FormatCount(PerSecond(stage.rows, stats.seconds)),
        100 * stage.busy_seconds / all, 100 * stage.wait_in_seconds / std::max(stats.seconds, 1e-9),
        100 * stage.wait_out_seconds / std::max(stats.seconds, 1e-9), FormatSize(stage.peak_bytes));
  }
  if (const uint64_t invalid = InvalidRows(stats); invalid > 0) {
    fmt::print("{} rows could not be decoded; they are marked as invalid\n", FormatCount(invalid));
  }
  for (const std::string& decision : stats.decisions) fmt::print("autotune: {}\n", decision);
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
  // A run that repeats the first batch has no end of its own.
  const uint64_t take = run.take.value_or(run.headspace ? 1000 : UINT64_MAX);
  std::atomic<uint64_t> rows = 0;
  uint64_t bytes = 0;
  double first_batch_seconds = 0;
  Batch first;
  const Stopwatch watch;
  absl::Status status;
  {
    ProgressDisplay display(options, [&] {
      return Progress{.what = "reading batches",
                      .done = rows,
                      .total = run.rows,
                      .unit = "rows",
                      .limit = it.stats().limit};
    });
    const std::stop_callback interrupted(InterruptToken(), [&] { it.Cancel(); });
    for (uint64_t n = 0; n < take; ++n) {
      Batch batch;
      status = it.Next(&batch);
      if (InterruptToken().stop_requested()) status = absl::CancelledError("interrupted");
      if (!status.ok() || batch.empty()) break;
      if (n == 0) {
        first_batch_seconds = watch.Seconds();
        if (!run.grid.empty()) first = batch;
      }
      rows += batch.rows;
      bytes += batch.bytes();
    }
  }
  const IteratorStats stats = it.stats();
  started->reset();
  // The grid is saved after the run, so that it does not slow down the measurement.
  if (!first.empty()) status.Update(SaveGrid(first, run.image, run.grid));
  if (!status.ok()) {
    const int exit = ReportError(status);
    // An image that is too large or of a kind that cannot be decoded: the data is to blame, not the
    // system.
    return absl::IsUnimplemented(status) || IsImageLimit(status) ? kExitDefects : exit;
  }
  if (running.trace != nullptr) {
    if (status = running.trace->Write(run.trace); !status.ok()) return ReportError(status);
  }
  const uint64_t damaged = stats.damaged;
  if (options.json) {
    nlohmann::ordered_json json = {{"chain", ds.Text()},
                                   {"columns", RowSpecText(ds.spec())},
                                   {"batches", stats.elements},
                                   {"rows", stats.rows},
                                   {"records", stats.rows},
                                   {"damaged", damaged},
                                   {"bytes", bytes},
                                   {"seconds", stats.seconds},
                                   {"rows_per_second", PerSecond(stats.rows, stats.seconds)},
                                   {"bytes_per_second", PerSecond(bytes, stats.seconds)},
                                   {"first_batch_seconds", first_batch_seconds},
                                   {"wait_seconds", stats.wait_seconds},
                                   {"stages", StagesJson(stats)},
                                   {"autotune", stats.decisions},
                                   {"limit", stats.limit},
                                   {"verdict", stats.verdict},
                                   {"peak_rss_bytes", PeakResidentBytes()}};
    if (nlohmann::ordered_json store = StoreJson(); !store.is_null()) json["store"] = store;
    fmt::print("{}\n", json.dump(1));
  } else if (!options.quiet) {
    PrintSummary(ds, stats, bytes);
    PrintStore();
    PrintCacheUse(options);
    if (damaged > 0) {
      fmt::print("{} of the rows stand for damaged records\n", FormatCount(damaged));
    }
  }
  return damaged + InvalidRows(stats) > 0 ? kExitDefects : kExitDone;
}

}  // namespace shardfeed
