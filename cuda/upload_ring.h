// Copies batches to the device: a ring of buffers that are filled while earlier ones are in use.

#ifndef SHARDFEED_CUDA_UPLOAD_RING_H_
#define SHARDFEED_CUDA_UPLOAD_RING_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "cuda/device.h"
#include "cuda/normalize.h"
#include "cuda/pinned_pool.h"
#include "cuda/upload_flight.h"
#include "shardfeed/batch.h"
#include "shardfeed/cuda.h"

namespace shardfeed {

struct UploadStats {
  uint64_t bytes = 0;         // bytes copied to the device
  uint64_t staged_bytes = 0;  // bytes of these that had to be copied to pinned memory first
  // Times by the device's clock, of batches that are no longer in use: copies alone, copies and
  // kernels, and how much of the latter the consumer's stream had to wait for. The first batch,
  // which nothing can hide, counts only in copy_seconds.
  double copy_seconds = 0;
  uint64_t copied_bytes = 0;  // bytes copied within `copy_seconds`
  double upload_seconds = 0;
  double exposed_seconds = 0;
  // Time that Upload waited because all buffers were in use or copies were still pending.
  double ring_full_seconds = 0;
  uint64_t buffers = 0;
  uint64_t device_bytes = 0;  // size of all buffers
};

// Copies run on a stream of the ring's own, kernels on a second one. A buffer is filled again when
// the consumer's streams have finished with it: the copying stream waits for them, no thread does.
// A host batch is released once the event of its copy has passed.
class UploadRing : public std::enable_shared_from_this<UploadRing> {
 public:
  // Makes a ring of `depth` buffers for batches of `spec`; `normalize` is keyed by column. What is
  // not pinned is copied by up to `threads` threads.
  // InvalidArgument: an option does not fit the columns.
  static absl::StatusOr<std::shared_ptr<UploadRing>> Create(
      std::shared_ptr<const CudaDevice> device, std::shared_ptr<PinnedPool> pool,
      const RowSpec& spec, std::map<std::string, Normalize> normalize, int depth, int threads);

  // Waits until the device has finished with all buffers. All batches are gone by then, because
  // each keeps the ring alive.
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  // The columns of the tensors. Bytes columns are not among them.
  const RowSpec& spec() const { return spec_; }

  // Enqueues the copies and kernels of `host`, which must have rows. Called by one thread at a
  // time. Waits for a free buffer; if the consumer holds all buffers and waits for more
  // (SetConsumerWaits), another one is added. Surplus buffers are freed when they are no longer in
  // use. Cancelled: Stop was called.
  absl::Status Upload(Batch host, DeviceBatch* out);

  // The public functions below are thread-safe.

  // Makes `stream` wait for the batch: see DeviceBatch::Use. `late`: the consumer waited mainly for
  // the pipeline, so that nothing could have hidden this copy.
  absl::Status Deliver(DeviceBatch* batch, CuStream stream, bool late);
  void SetConsumerWaits(bool waits);
  // Stop makes Upload fail until Resume. After an error, Resume also waits until the device has
  // done all its work, and clears the error. Errors of Resume: the device is unusable, for example
  // after an invalid memory access.
  void Stop();
  absl::Status Resume();
  UploadStats stats();

 private:
  friend struct DeviceBatch::Lease;
  friend class DeviceBatch;

  // A column and what is done with it.
  struct Target {
    size_t column;               // column of the host batch
    ColumnSpec spec;             // spec of that column
    const Normalize* normalize;  // null if the column is not normalized
  };
  struct Layout;
  using Buffer = UploadBuffer;
  using Flight = UploadFlight;
  UploadRing(std::shared_ptr<const CudaDevice> device, std::shared_ptr<PinnedPool> pool,
             size_t depth, int threads)
      : device_(std::move(device)), pool_(std::move(pool)), depth_(depth), threads_(threads) {}

  absl::StatusOr<std::unique_ptr<Flight>> NewFlight();
  absl::Status LimitCopies();
  absl::Status FreeSurplus();
  absl::StatusOr<Buffer*> TakeBuffer();
  absl::Status Fit(Buffer* buffer, size_t size);
  absl::Status LayOut(const Batch& host, Layout* layout, std::vector<DeviceTensor>* tensors) const;
  absl::Status RunKernels(const Buffer& buffer, const Flight& flight, Layout* layout);
  absl::Status Enqueue(const Batch& host, Buffer* buffer, Flight* flight, DeviceBatch* out);
  absl::Status Use(Flight* flight, CuStream stream);
  void Release(Flight* flight, Buffer* buffer);
  void EndUse(Flight* flight, Buffer* buffer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndHeldUses() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status UseLocked(Flight* flight, CuStream stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Reap(std::vector<Batch>* copied) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Measure(const Flight& flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<const CudaDevice> device_;
  const std::shared_ptr<PinnedPool> pool_;
  const size_t depth_;
  const int threads_;
  RowSpec spec_;
  std::vector<Target> targets_;  // one target per column of spec_
  std::vector<size_t> host_columns_;
  std::shared_ptr<const RowSpec> host_spec_;
  std::map<std::string, Normalize> normalize_;
  std::unique_ptr<NormalizeKernels> kernels_;
  CuStream copying_ = nullptr;
  CuStream working_ = nullptr;

  mutable Mutex mutex_;
  CondVar freed_;
  std::vector<std::unique_ptr<Buffer>> buffers_ ABSL_GUARDED_BY(mutex_);
  std::deque<Buffer*> free_ ABSL_GUARDED_BY(mutex_);  // in the order of their release
  // Batches that were released while a stream that used them was being captured.
  std::vector<std::pair<Flight*, Buffer*>> held_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Flight>> flights_
      ABSL_GUARDED_BY(mutex_);  // flights in the order of their copies
  std::vector<std::unique_ptr<Flight>> spare_flights_ ABSL_GUARDED_BY(mutex_);
  std::vector<CuEvent> spare_events_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool consumer_waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool first_measured_ ABSL_GUARDED_BY(mutex_) = false;
  UploadStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_UPLOAD_RING_H_
