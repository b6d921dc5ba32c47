// Batches on a GPU: a run of a dataset whose batches are copied to a device while earlier ones are
// in use.
//
//   absl::StatusOr<std::unique_ptr<DeviceIterator>> it = DeviceIterator::Start(
//       ds, {.normalize = {{"image", {.mean = {0.485f, 0.456f, 0.406f},
//                                     .std = {0.229f, 0.224f, 0.225f}}}}});
//   for (DeviceBatch batch; (*it)->Next(&batch, stream).ok() && !batch.empty();) {
//     // enqueue work on `stream` that reads batch.tensors
//   }

#ifndef SHARDFEED_CUDA_DEVICE_ITERATOR_H_
#define SHARDFEED_CUDA_DEVICE_ITERATOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "cuda/device.h"
#include "cuda/normalize.h"
#include "cuda/pinned_pool.h"
#include "cuda/upload_ring.h"
#include "pipeline/dataset.h"

namespace shardfeed {

struct DeviceOptions {
  // As the driver counts: CUDA_VISIBLE_DEVICES and MIG are respected.
  int device = 0;
  // Buffers on the device. One is filled while another is in use; each batch that the consumer
  // keeps beyond that takes one more.
  int depth = 2;
  // Pinned memory for batches, at the most; 0: RunOptions::budget_bytes, of which a quarter is for
  // batches on their way to the device. What does not fit is copied once more.
  uint64_t pinned_bytes = 0;
  // Columns of images that become floating point on the device, by name.
  std::map<std::string, Normalize> normalize;
};

struct DeviceStats {
  double seconds = 0;  // since the first Next
  uint64_t batches = 0;
  uint64_t rows = 0;
  uint64_t bytes = 0;           // that crossed the bus
  uint64_t staged_bytes = 0;    // of these, from memory that was not pinned
  double bytes_per_second = 0;  // of the copies, while they ran
  // Of the time that copies and kernels took on the device, the share in which the consumer's
  // stream had no need to wait for them: it was at work, or the pipeline was late.
  double hidden = 1;
  double exposed_seconds = 0;        // the rest
  double wait_seconds = 0;           // of Next, on the host
  double pipeline_wait_seconds = 0;  // of these, because the pipeline was late
  // All buffers were filled or in use: the consumer, or the bus, is slower than the pipeline.
  double ring_full_seconds = 0;
  uint64_t buffers = 0;
  uint64_t device_bytes = 0;
  PinnedPoolStats pinned;
  IteratorStats pipeline;
  // What limits, and what to do.
  std::string verdict;
};

// One thread at a time calls Next, StateDict and LoadStateDict; Cancel and stats may be called from
// any. May be destroyed at any time, batches that are out stay valid.
class DeviceIterator {
 public:
  // Begins to work with the first Next. InvalidArgument: the dataset's elements are rows, an option
  // cannot be. Unavailable: there is no GPU; the message tells what was looked for.
  static absl::StatusOr<std::unique_ptr<DeviceIterator>> Start(const Dataset& dataset,
                                                               DeviceOptions options = {},
                                                               RunOptions run = {});
  ~DeviceIterator();
  DeviceIterator(const DeviceIterator&) = delete;
  DeviceIterator& operator=(const DeviceIterator&) = delete;

  // The next batch; one without rows at the end. What `out` had is let go of first. Work that is
  // enqueued on `stream` afterwards finds the values: `stream` waits for them, this thread waits
  // only until the copy is enqueued. After an error each further call returns it again.
  absl::Status Next(DeviceBatch* out, CuStream stream = nullptr);
  // Waits until Next need not wait: for a batch, the end or an error. False: not within `most`.
  // For those who look at something else while they wait. One thread at a time, as Next.
  bool Await(std::chrono::milliseconds most);
  // Of the tensors. Columns of bytes are not among them: see DeviceBatch::host.
  const RowSpec& spec() const { return ring_->spec(); }
  const std::shared_ptr<const CudaDevice>& device() const { return device_; }

  // Where the iterator stands, in batches delivered; a state of Iterator's, which it may also go on
  // from, and the other way round.
  absl::StatusOr<std::string> StateDict() const { return state_; }
  // Goes to a saved place. As Iterator::LoadStateDict.
  absl::Status LoadStateDict(std::string_view state);

  void Cancel();
  DeviceStats stats() const;

 private:
  // When the pipeline was asked for a batch, and when it gave it; 0: not yet.
  struct Pull {
    uint64_t begin_ns = 0;
    uint64_t end_ns = 0;
  };
  struct Item {
    DeviceBatch batch;  // empty: the end, or an error
    absl::Status status;
    absl::StatusOr<std::string> state;  // behind the batch
    Pull pull;
  };

  DeviceIterator() = default;
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
  // How long the next batch was waited for, and how much of it for the pipeline.
  uint64_t waited_ns_ = 0;
  uint64_t pulled_ns_ = 0;
  std::thread thread_;

  mutable Mutex mutex_;
  CondVar ready_;
  std::deque<Item> queue_ ABSL_GUARDED_BY(mutex_);
  Pull pull_ ABSL_GUARDED_BY(mutex_);  // the last
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::atomic<uint64_t> start_ns_ = 0;
  std::atomic<uint64_t> batches_ = 0;
  std::atomic<uint64_t> rows_ = 0;
  std::atomic<uint64_t> wait_ns_ = 0;
  std::atomic<uint64_t> pipeline_wait_ns_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_DEVICE_ITERATOR_H_
