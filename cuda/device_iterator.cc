#include "cuda/device_iterator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/mutex.h"
#include "fmt/format.h"
#include "io/thread.h"

namespace shardfeed {
namespace {

uint64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string Verdict(const DeviceStats& stats) {
  const double seconds = std::max(stats.seconds, 1e-9);
  const double late = stats.pipeline_wait_seconds / seconds;
  const double bus = stats.exposed_seconds / seconds;
  if (late >= 0.1 && late >= bus) {
    return fmt::format("the pipeline limits: the consumer waits {:.0f} % of the time for it; {}",
                       100 * late, stats.pipeline.verdict);
  }
  if (bus >= 0.1) {
    return fmt::format(
        "the bus limits: the device waits {:.0f} % of the time for copies, which run at {:.1f} "
        "GB/s; fewer bytes would help, as uint8 and Normalize give",
        100 * bus, stats.bytes_per_second * 1e-9);
  }
  return fmt::format(
      "the consumer limits: it waits {:.0f} % of the time, and the buffers are full {:.0f} % of it",
      100 * (late + bus), 100 * stats.ring_full_seconds / seconds);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceIterator>> DeviceIterator::Start(const Dataset& dataset,
                                                                      DeviceOptions options,
                                                                      RunOptions run) {
  if (!dataset.status().ok()) return dataset.status();
  if (!dataset.batched()) {
    return absl::InvalidArgumentError(
        "only batches are brought to a device; the dataset's elements are rows: put a batch step "
        "at its end");
  }
  absl::StatusOr<std::shared_ptr<const CudaDevice>> device = CudaDevice::Open(options.device);
  if (!device.ok()) return device.status();
  std::unique_ptr<DeviceIterator> it(new DeviceIterator());
  it->device_ = *std::move(device);
  if (run.budget_bytes == 0) run.budget_bytes = DefaultBudgetBytes();
  it->pool_ = PinnedPool::Create(
      it->device_, options.pinned_bytes > 0 ? options.pinned_bytes : run.budget_bytes);
  run.budget_bytes -= run.budget_bytes / 4;
  absl::StatusOr<std::shared_ptr<UploadRing>> ring = UploadRing::Create(
      it->device_, it->pool_, dataset.spec(), std::move(options.normalize), options.depth);
  if (!ring.ok()) return ring.status();
  it->ring_ = *std::move(ring);
  run.allocator = [pool = it->pool_](size_t size) { return pool->Allocate(size); };
  absl::StatusOr<std::unique_ptr<Iterator>> iterator = dataset.Start(run);
  if (!iterator.ok()) return iterator.status();
  it->iterator_ = *std::move(iterator);
  it->state_ = it->iterator_->StateDict();
  return it;
}

DeviceIterator::~DeviceIterator() {
  if (iterator_ != nullptr) iterator_->Cancel();
  StopThread();
}

absl::Status DeviceIterator::Next(DeviceBatch* out, CuStream stream) {
  *out = DeviceBatch();
  if (!error_.ok() || ended_) return error_;
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

bool DeviceIterator::Await(std::chrono::milliseconds most) {
  if (!error_.ok() || ended_) return true;
  StartThread();
  MutexLock lock(mutex_);
  return AwaitItem(lock, most);
}

bool DeviceIterator::AwaitItem(MutexLock& lock, std::optional<std::chrono::milliseconds> most) {
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

absl::Status DeviceIterator::LoadStateDict(std::string_view state) {
  StopThread();
  error_ = iterator_->LoadStateDict(state);
  if (error_.ok()) state_ = iterator_->StateDict();
  return error_;
}

void DeviceIterator::Cancel() {
  iterator_->Cancel();
  ring_->Stop();
}

DeviceStats DeviceIterator::stats() const {
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

void DeviceIterator::StartThread() {
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

// What is in the queue is gone then, and the pipeline stands anywhere.
void DeviceIterator::StopThread() {
  if (thread_.joinable()) {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    ring_->Stop();
    thread_.join();
    ring_->Resume();
  }
  ended_ = false;
  waited_ns_ = pulled_ns_ = 0;
  MutexLock lock(mutex_);
  stopping_ = false;
  pull_ = {};
  queue_.clear();
}

void DeviceIterator::Work() {
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

}  // namespace shardfeed
