#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "cuda/device.h"
#include "cuda/pinned_pool.h"
#include "cuda/upload_ring.h"
#include "fmt/format.h"
#include "io/parallel.h"
#include "io/thread.h"
#include "shardfeed/cuda.h"

namespace shardfeed {
namespace {

std::string Verdict(const DeviceStats& stats) {
  const double seconds = std::max(stats.seconds, 1e-9);
  const double late = stats.pipeline_wait_seconds / seconds;
  const double bus = stats.exposed_seconds / seconds;
  if (late >= 0.1 && late >= bus) {
    std::string_view verdict = stats.pipeline.verdict;
    constexpr std::string_view kNothing = "nothing limits for long: ";
    const bool none = verdict.starts_with(kNothing);
    if (none) verdict.remove_prefix(kNothing.size());
    return fmt::format("the pipeline limits{}: the consumer waits {:.0f} % of the time for it; {}",
                       none ? ", none of its stages for long" : "", 100 * late, verdict);
  }
  if (bus >= 0.1) {
    return fmt::format(
        "the bus limits: the device waits {:.0f} % of the time for copies, which run at {:.1f} "
        "GB/s; copy fewer bytes, for example uint8 images with Normalize",
        100 * bus, stats.bytes_per_second * 1e-9);
  }
  return fmt::format(
      "the consumer limits: it waits {:.0f} % of the time, and the buffers are full {:.0f} % of it",
      100 * (late + bus), 100 * stats.ring_full_seconds / seconds);
}

}  // namespace

// Implements DeviceIterator's functions of the same names.
class DeviceIterator::Run {
 public:
  static absl::StatusOr<std::unique_ptr<Run>> Start(const Dataset& dataset, DeviceOptions options,
                                                    RunOptions run);
  ~Run();

  absl::Status Next(DeviceBatch* out, CuStream stream = nullptr);
  bool Await(std::chrono::milliseconds most);
  const RowSpec& spec() const { return ring_->spec(); }
  const std::shared_ptr<const CudaDevice>& device() const { return device_; }
  absl::StatusOr<std::string> StateDict() const { return state_; }
  absl::Status LoadStateDict(std::string_view state);
  void Cancel();
  DeviceStats stats() const;

 private:
  // When the pipeline was asked for a batch and when it returned it; 0 if it has not yet.
  struct Pull {
    uint64_t begin_ns = 0;
    uint64_t end_ns = 0;
  };
  struct Item {
    DeviceBatch batch;  // empty at the end or after an error
    absl::Status status;
    absl::StatusOr<std::string> state;  // state after the batch
    Pull pull;
  };

  bool AwaitItem(MutexLock& lock, std::optional<std::chrono::milliseconds> most)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartThread();
  void StopThread();
  void Work();

  std::shared_ptr<const CudaDevice> device_;
  std::shared_ptr<PinnedPool> pool_;
  std::shared_ptr<UploadRing> ring_;
  std::unique_ptr<Iterator> iterator_;
  absl::StatusOr<std::string> state_ = std::string();
  absl::Status error_;
  bool ended_ = false;
  // How long the consumer has waited for the next batch, and how much of that for the pipeline.
  uint64_t waited_ns_ = 0;
  uint64_t pulled_ns_ = 0;
  std::thread thread_;

  mutable Mutex mutex_;
  CondVar ready_;
  std::deque<Item> queue_ ABSL_GUARDED_BY(mutex_);
  Pull pull_ ABSL_GUARDED_BY(mutex_);  // the latest
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::atomic<uint64_t> start_ns_ = 0;
  std::atomic<uint64_t> batches_ = 0;
  std::atomic<uint64_t> rows_ = 0;
  std::atomic<uint64_t> wait_ns_ = 0;
  std::atomic<uint64_t> pipeline_wait_ns_ = 0;
};

absl::StatusOr<std::unique_ptr<DeviceIterator::Run>> DeviceIterator::Run::Start(
    const Dataset& dataset, DeviceOptions options, RunOptions run) {
  if (!dataset.status().ok()) return dataset.status();
  if (!dataset.batched()) {
    return absl::InvalidArgumentError(
        "expected a dataset of batches, but its elements are rows: put a batch step "
        "at its end");
  }
  absl::StatusOr<std::shared_ptr<const CudaDevice>> device = CudaDevice::Open(options.device);
  if (!device.ok()) return device.status();
  auto it = std::make_unique<Run>();
  it->device_ = *std::move(device);
  if (run.budget_bytes == 0) run.budget_bytes = DefaultBudgetBytes();
  it->pool_ = PinnedPool::Create(
      it->device_, options.pinned_bytes > 0 ? options.pinned_bytes : run.budget_bytes);
  run.budget_bytes -= run.budget_bytes / 4;
  absl::StatusOr<std::shared_ptr<UploadRing>> ring =
      UploadRing::Create(it->device_, it->pool_, dataset.spec(), std::move(options.normalize),
                         options.depth, ThreadCount(run.threads));
  if (!ring.ok()) return ring.status();
  it->ring_ = *std::move(ring);
  run.allocator = [pool = it->pool_](size_t size) { return pool->Allocate(size); };
  absl::StatusOr<std::unique_ptr<Iterator>> iterator = dataset.Start(run);
  if (!iterator.ok()) return iterator.status();
  it->iterator_ = *std::move(iterator);
  it->state_ = it->iterator_->StateDict();
  return it;
}

DeviceIterator::Run::~Run() {
  if (iterator_ != nullptr) iterator_->Cancel();
  StopThread();
}

absl::Status DeviceIterator::Run::Next(DeviceBatch* out, CuStream stream) {
  *out = DeviceBatch();
  if (!error_.ok() || ended_) return error_;
  if (absl::Status status = CheckStream(*device_, stream); !status.ok()) return status;
  StartThread();
  Item item;
  {
    MutexLock lock(mutex_);
    AwaitItem(lock, std::nullopt);
    item = std::move(queue_.front());
    queue_.pop_front();
  }
  const bool late = 2 * std::exchange(pulled_ns_, 0) > std::exchange(waited_ns_, 0);
  error_ = item.status;
  if (error_.ok() && item.batch.empty()) ended_ = true;
  if (error_.ok() && !ended_) error_ = ring_->Deliver(&item.batch, stream, late);
  if (!error_.ok()) return error_;
  state_ = std::move(item.state);
  if (ended_) return absl::OkStatus();
  *out = std::move(item.batch);
  batches_ += 1;
  rows_ += out->rows;
  return absl::OkStatus();
}

bool DeviceIterator::Run::Await(std::chrono::milliseconds most) {
  if (!error_.ok() || ended_) return true;
  StartThread();
  MutexLock lock(mutex_);
  return AwaitItem(lock, most);
}

bool DeviceIterator::Run::AwaitItem(MutexLock& lock,
                                    std::optional<std::chrono::milliseconds> most) {
  const auto there = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !queue_.empty(); };
  if (there()) return true;
  const uint64_t start = NowNs();
  ring_->SetConsumerWaits(true);
  if (most) {
    ready_.WaitFor(lock, *most, there);
  } else {
    ready_.Wait(lock, there);
  }
  const uint64_t end = NowNs();
  const Pull& pull = there() ? queue_.front().pull : pull_;
  const uint64_t pull_begin = std::max(start, pull.begin_ns);
  const uint64_t pull_end = pull.end_ns == 0 ? end : std::min(end, pull.end_ns);
  const uint64_t pulled = std::max(pull_begin, pull_end) - pull_begin;
  waited_ns_ += end - start;
  pulled_ns_ += pulled;
  wait_ns_ += end - start;
  pipeline_wait_ns_ += pulled;
  return there();
}

absl::Status DeviceIterator::Run::LoadStateDict(std::string_view state) {
  StopThread();
  error_ = ring_->Resume();
  if (error_.ok()) error_ = iterator_->LoadStateDict(state);
  if (error_.ok()) state_ = iterator_->StateDict();
  return error_;
}

void DeviceIterator::Run::Cancel() {
  iterator_->Cancel();
  ring_->Stop();
}

DeviceStats DeviceIterator::Run::stats() const {
  DeviceStats stats;
  const UploadStats upload = ring_->stats();
  const uint64_t start = start_ns_;
  if (start != 0) stats.seconds = static_cast<double>(NowNs() - start) * 1e-9;
  stats.batches = batches_;
  stats.rows = rows_;
  stats.bytes = upload.bytes;
  stats.staged_bytes = upload.staged_bytes;
  if (upload.copy_seconds > 0) {
    stats.bytes_per_second = static_cast<double>(upload.copied_bytes) / upload.copy_seconds;
  }
  if (upload.upload_seconds > 0) stats.hidden = 1 - upload.exposed_seconds / upload.upload_seconds;
  stats.exposed_seconds = upload.exposed_seconds;
  stats.wait_seconds = static_cast<double>(wait_ns_) * 1e-9;
  stats.pipeline_wait_seconds = static_cast<double>(pipeline_wait_ns_) * 1e-9;
  stats.ring_full_seconds = upload.ring_full_seconds;
  stats.buffers = upload.buffers;
  stats.device_bytes = upload.device_bytes;
  stats.pinned = pool_->stats();
  stats.pipeline = iterator_->stats();
  stats.verdict = Verdict(stats);
  return stats;
}

void DeviceIterator::Run::StartThread() {
  if (thread_.joinable()) return;
  uint64_t never = 0;
  start_ns_.compare_exchange_strong(never, NowNs());
  absl::StatusOr<std::thread> thread = shardfeed::StartThread([this] { Work(); });
  if (thread.ok()) {
    thread_ = *std::move(thread);
    return;
  }
  MutexLock lock(mutex_);
  queue_.emplace_back().status = thread.status();
}

// Discards the queue, which leaves the pipeline at an unknown position.
void DeviceIterator::Run::StopThread() {
  if (thread_.joinable()) {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    ring_->Stop();
    thread_.join();
  }
  ended_ = false;
  waited_ns_ = pulled_ns_ = 0;
  MutexLock lock(mutex_);
  stopping_ = false;
  pull_ = {};
  queue_.clear();
}

void DeviceIterator::Run::Work() {
  while (true) {
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      pull_ = {NowNs(), 0};
    }
    Item item;
    Batch host;
    item.status = CatchAll([&] { return iterator_->Next(&host); });
    {
      MutexLock lock(mutex_);
      pull_.end_ns = NowNs();
      item.pull = pull_;
    }
    if (item.status.ok()) {
      item.status = CatchAll([&] {
        item.state = iterator_->StateDict();
        return host.empty() ? absl::OkStatus() : ring_->Upload(std::move(host), &item.batch);
      });
    }
    const bool last = !item.status.ok() || item.batch.empty();
    {
      MutexLock lock(mutex_);
      queue_.push_back(std::move(item));
      ring_->SetConsumerWaits(false);
    }
    ready_.NotifyOne();
    if (last) return;
  }
}

absl::StatusOr<std::unique_ptr<DeviceIterator>> DeviceIterator::Start(const Dataset& dataset,
                                                                      DeviceOptions options,
                                                                      RunOptions run) {
  absl::StatusOr<std::unique_ptr<Run>> started =
      Run::Start(dataset, std::move(options), std::move(run));
  if (!started.ok()) return started.status();
  return std::unique_ptr<DeviceIterator>(new DeviceIterator(*std::move(started)));
}

DeviceIterator::DeviceIterator(std::unique_ptr<Run> run) : run_(std::move(run)) {}
DeviceIterator::~DeviceIterator() = default;

absl::Status DeviceIterator::Next(DeviceBatch* out, CuStream stream) {
  return run_->Next(out, stream);
}
bool DeviceIterator::Await(std::chrono::milliseconds most) { return run_->Await(most); }
const RowSpec& DeviceIterator::spec() const { return run_->spec(); }
const std::shared_ptr<const CudaDevice>& DeviceIterator::device() const { return run_->device(); }
absl::StatusOr<std::string> DeviceIterator::StateDict() const { return run_->StateDict(); }
absl::Status DeviceIterator::LoadStateDict(std::string_view state) {
  return run_->LoadStateDict(state);
}
void DeviceIterator::Cancel() { run_->Cancel(); }
DeviceStats DeviceIterator::stats() const { return run_->stats(); }

}  // namespace shardfeed
