// What the stages of one run share.

#ifndef SHARDFEED_PIPELINE_RUN_CONTEXT_H_
#define SHARDFEED_PIPELINE_RUN_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "pipeline/batch.h"
#include "pipeline/trace.h"

namespace shardfeed {

// What a stage did so far. Written by the stage, read by anyone.
struct StageCounters {
  std::string name;
  std::atomic<uint64_t> batches = 0;
  std::atomic<uint64_t> rows = 0;
  std::atomic<uint64_t> bytes = 0;
  std::atomic<uint64_t> busy_ns = 0;      // of all threads
  std::atomic<uint64_t> wait_in_ns = 0;   // for its input
  std::atomic<uint64_t> wait_out_ns = 0;  // its consumer's, for it
  std::atomic<uint64_t> ready = 0;        // batches that are finished and wait for the consumer
  std::atomic<uint64_t> ahead = 0;        // batches begun and not yet delivered
  std::atomic<uint64_t> ahead_bytes = 0;  // what these take
  std::atomic<uint64_t> peak_bytes = 0;
  int threads = 0;  // of its own
};

struct RunContext {
  int threads = 1;
  bool deterministic = true;
  // For each parallel stage: bytes of batches ahead of its consumer, but always one.
  uint64_t budget_bytes = 256 << 20;
  // Once asked for, waiting ends with Cancelled.
  std::stop_source stop;
  // Names of the records of each source, by position: "data-00001-of-00010: record 17 at byte
  // 4242".
  std::vector<std::function<std::string(uint64_t epoch, uint64_t position)>> describe;
  std::vector<std::shared_ptr<StageCounters>> counters;

  std::shared_ptr<Trace> trace;  // may be null

  // What stages keep from one epoch to the next, by the step that keeps it.
  std::map<const void*, std::shared_ptr<void>> kept;

  std::shared_ptr<StageCounters> AddCounters(std::string name) {
    counters.push_back(std::make_shared<StageCounters>());
    counters.back()->name = std::move(name);
    return counters.back();
  }
  // "data-00001-of-00010: record 17 at byte 4242", "row 3 of epoch 1" or "" when nothing is known.
  std::string Describe(const Batch& batch, size_t row) const;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_RUN_CONTEXT_H_
