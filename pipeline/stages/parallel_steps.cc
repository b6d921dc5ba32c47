#include "pipeline/stages/parallel_steps.h"

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "base/work_stop.h"
#include "fmt/format.h"
#include "io/remedy.h"

namespace shardfeed {
namespace {

// Prefixes of a row's name in messages.
constexpr std::string_view kBatchFrom = "the batch that begins with ";
constexpr std::string_view kRowsFrom = "the rows from ";
constexpr std::string_view kFailedRowPayload = "shardfeed/failed_row";

std::optional<size_t> FailedRow(const absl::Status& status) {
  const auto payload =
      status.GetPayload(absl::string_view(kFailedRowPayload.data(), kFailedRowPayload.size()));
  uint64_t row = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &row)) return std::nullopt;
  return row;
}

}  // namespace

void SetFailedRow(size_t row, absl::Status* status) {
  status->SetPayload(absl::string_view(kFailedRowPayload.data(), kFailedRowPayload.size()),
                     absl::Cord(std::to_string(row)));
}

void OutputMaker::Allocate(StepsJob& job) const {
  try {
    job.fixed = steps_.rows->AllocateFixed(job.input, context_.allocator);
  } catch (const NoRoomError& error) {
    job.status = absl::ResourceExhaustedError(error.what());
    job.failed_row = 0;
  }
}

void OutputMaker::Finish(StepsJob& job) const {
  const bool batched = job.input.batched;
  Batch origins;  // origins of the input, which apply to the output
  origins.origins = job.input.origins;
  const size_t num_damaged = job.input.damaged.size();
  absl::Status status;
  try {
    FinishRows(job);
    if (job.status.ok() || !batched) RunBatchFns(job);
  } catch (const NoRoomError& error) {
    status = absl::ResourceExhaustedError(error.what());
  } catch (const std::bad_alloc& error) {
    status = NoRoom(steps_.name, error);
  }
  if (!status.ok()) {
    job.output = Batch();
    job.status = At(origins, 0, batched ? kBatchFrom : kRowsFrom, status);
  }
  if (job.status.ok() && job.output.damaged.size() < num_damaged) {
    context_.dropped_damaged += num_damaged - job.output.damaged.size();
  }
  job.input = Batch();
}

// Returns `status` with a message that names row `row` of `batch`.
absl::Status OutputMaker::At(const Batch& batch, size_t row, std::string_view before,
                             const absl::Status& status) const {
  const std::string prefix = context_.Prefix(batch, row);
  if (prefix.empty()) return status;
  return WithMessage(status, fmt::format("{}{}{}", before, prefix, std::string(status.message())));
}

// Assembles the output of the row steps. If rows are elements, it has the rows before the failed
// one.
void OutputMaker::FinishRows(StepsJob& job) const {
  if (!job.status.ok()) {
    const size_t good = job.failed_row;
    job.status = At(job.input, good, "", job.status);
    if (job.input.batched || good == 0 || WorkStop::Token().stop_requested()) return;
    job.input = job.input.Slice(0, good);
    job.fixed.rows = good;
    const auto behind = std::find_if(job.ranges.begin(), job.ranges.end(),
                                     [&](const auto& m) { return m->range.begin >= good; });
    job.ranges.erase(behind, job.ranges.end());
  }
  if (steps_.rows == nullptr) {
    job.output = std::move(job.input);
    return;
  }
  uint64_t num_invalid = 0;
  job.output = steps_.rows->Finish(std::move(job.input), std::move(job.fixed), job.ranges,
                                   context_.allocator, &num_invalid);
  counters_.invalid += num_invalid;
  job.fixed = Batch();
}

void OutputMaker::RunBatchFns(StepsJob& job) const {
  for (const BatchFn& fn : steps_.batches) {
    if (job.output.empty()) return;
    const Batch before = job.output.batched ? Batch() : job.output;
    absl::Status status;
    try {
      status = fn(job.output);
    } catch (const std::bad_alloc& error) {
      status = NoRoom(steps_.name, error);
    } catch (const std::exception& e) {
      status = absl::InternalError(fmt::format("{}: {}", steps_.name, e.what()));
    }
    if (status.ok()) continue;
    const std::optional<size_t> row = FailedRow(status);
    if (before.empty()) {
      job.status = At(job.output, 0, kBatchFrom, status);
      job.output = Batch();
      return;
    }
    // Later functions get the rows that were made before it failed.
    job.status = At(before, row.value_or(0), row ? "" : kRowsFrom, status);
    if (!row) job.output = Batch();
  }
}

}  // namespace shardfeed
