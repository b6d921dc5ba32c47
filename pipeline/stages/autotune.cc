#include "pipeline/stages/autotune.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

namespace shardfeed {
namespace {

constexpr uint64_t kLookNs = 250'000'000;
constexpr uint64_t kLookBatches = 4;
// Shares of the time. Between the two, nothing is changed.
constexpr double kWaits = 0.05;
constexpr double kDoesNotWait = 0.01;
constexpr double kAllBusy = 0.85;
// The capacity that the working threads must keep, relative to the work.
constexpr double kReserve = 1.3;
// In samples, a few minutes.
constexpr int kRemember = 1000;
constexpr uint64_t kMaxReadAhead = 256;

}  // namespace

std::string StageTuner::Observe(const StageSample& s) {
  if (least_for_ > 0 && --least_for_ == 0) least_workers_ = 1;
  const int workers = tuning_.workers;
  if (s.consumer_wait > kWaits && s.stage_wait > kWaits) {
    if (s.busy > kAllBusy * workers) {
      if (workers == max_workers_) return "";
      tuning_.workers = std::min(max_workers_, workers + (workers + 1) / 2);
      least_workers_ = workers + 1;
      least_for_ = kRemember;
      return fmt::format("{} -> {} threads: the consumer waits {:.0f} % of the time, and {} busy",
                         workers, tuning_.workers, 100 * s.consumer_wait,
                         workers == 1 ? "that one is" : fmt::format("all {} are", workers));
    }
    if (s.input_wait > 0.5 || tuning_.read_ahead >= max_read_ahead_) return "";
    const uint64_t before = tuning_.read_ahead;
    tuning_.read_ahead = std::min(max_read_ahead_, 2 * before);
    return fmt::format(
        "{} -> {} batches ahead: the consumer waits {:.0f} % of the time, though only {:.1f} of "
        "{} busy",
        before, tuning_.read_ahead, 100 * s.consumer_wait, s.busy,
        workers == 1 ? "1 thread is" : fmt::format("{} threads are", workers));
  }
  if (s.consumer_wait < kDoesNotWait && workers > least_workers_ &&
      s.busy * kReserve < workers - 1) {
    tuning_.workers = workers - 1;
    return fmt::format("{} -> {} threads: the consumer does not wait, and {:.1f} of {} are busy",
                       workers, tuning_.workers, s.busy, workers);
  }
  return "";
}

void Autotuner::Look(uint64_t now_ns, uint64_t wait_ns) {
  if (looked_ns_ == 0) {
    begin_ns_ = looked_ns_ = now_ns;
    wait_ns_ = wait_ns;
    return;
  }
  if (now_ns < looked_ns_ + kLookNs) return;
  const auto all = context_->AllCounters();
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == stages_.size()) {
      const StageCounters& c = *all[i];
      stages_.push_back({all[i],
                         {{c.name, c.workers, c.read_ahead},
                          c.tunable ? c.threads : 0,
                          std::max<uint64_t>(kMaxReadAhead, c.read_ahead)}});
    }
  }
  // After few batches, a longer interval is observed.
  if (!stages_.empty() &&
      stages_.back().counters->batches < stages_.back().batches + kLookBatches) {
    return;
  }
  const auto ns = static_cast<double>(now_ns - looked_ns_);
  const bool first = looked_ns_ == begin_ns_;
  for (Watched& stage : stages_) {
    StageCounters& c = *stage.counters;
    const uint64_t busy = c.busy_ns;
    const uint64_t in = c.wait_in_ns;
    const uint64_t out = c.wait_out_ns;
    const StageSample sample = {static_cast<double>(busy - stage.busy_ns) / ns,
                                static_cast<double>(wait_ns - wait_ns_) / ns,
                                static_cast<double>(out - stage.wait_out_ns) / ns,
                                static_cast<double>(in - stage.wait_in_ns) / ns};
    stage.busy_ns = busy;
    stage.wait_in_ns = in;
    stage.wait_out_ns = out;
    stage.batches = c.batches;
    // The first interval is that of starting up.
    if (first || !c.tunable) continue;
    const std::string change = stage.tuner.Observe(sample);
    if (change.empty()) continue;
    c.workers = stage.tuner.tuning().workers;
    c.read_ahead = stage.tuner.tuning().read_ahead;
    context_->AddDecision(fmt::format(
        "{:.1f} s: {}: {}", static_cast<double>(now_ns - begin_ns_) * 1e-9, c.name, change));
  }
  looked_ns_ = now_ns;
  wait_ns_ = wait_ns;
}

}  // namespace shardfeed
