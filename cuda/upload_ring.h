// Batches on the device: a ring of buffers that are filled while earlier ones are in use.

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
  uint64_t staged_bytes = 0;  // bytes of these that were first copied to pinned memory
  // By the device's clock, of the batches that are done with: copies alone, copies and kernels, and
  // how much of the latter the consumer's stream had to wait for. The first batch, which has
  // nothing to hide behind, is in the first figure only.
  double copy_seconds = 0;
  uint64_t copied_bytes = 0;  // bytes copied within `copy_seconds`
  double upload_seconds = 0;
  double exposed_seconds = 0;
  // Upload waited: all buffers were in use, or copies to them were still to come.
  double ring_full_seconds = 0;
  uint64_t buffers = 0;
  uint64_t device_bytes = 0;  // size of all buffers
};

// Copies run on a stream of the ring's own, kernels on a second one. A buffer is filled again when
// the consumer's streams are done with it: the copying stream waits for them, no thread does. Host
// batches are let go of when their copy's event has passed.
class UploadRing : public std::enable_shared_from_this<UploadRing> {
 public:
  // For batches of `spec`, with `depth` buffers; `normalize` by column.
  static absl::StatusOr<std::shared_ptr<UploadRing>> Create(
      std::shared_ptr<const CudaDevice> device, std::shared_ptr<PinnedPool> pool,
      const RowSpec& spec, std::map<std::string, Normalize> normalize, int depth);

  // Waits until the device is done with all buffers. No batch is left then: each keeps the ring.
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  // Of the tensors: columns of bytes are not among them.
  const RowSpec& spec() const { return spec_; }

  // Enqueues the copies and kernels of `host`, which has rows. One thread at a time. Waits for a
  // free buffer; where the consumer has all of them and waits for more (SetConsumerWaits), there
  // will be one more, for as long as they are in use. Cancelled: Stop was called.
  absl::Status Upload(Batch host, DeviceBatch* out);

  // The functions below are thread safe.

  // Makes `stream` wait for the batch: see DeviceBatch::Use. `late`: the consumer waited above
  // all for the pipeline, so that nothing could have hidden this copy.
  absl::Status Deliver(DeviceBatch* batch, CuStream stream, bool late);
  void SetConsumerWaits(bool waits);
  // Upload ends, until Resume, which also waits until the device has done all its work and forgets
  // an earlier error. Errors of Resume: the device is lost, as after an access to wrong memory.
  void Stop();
  absl::Status Resume();
  UploadStats stats();

 private:
  friend struct DeviceBatch::Lease;
  friend class DeviceBatch;

  // What becomes of a column.
  struct Target {
    size_t column;               // column of the host batch
    ColumnSpec spec;             // spec of that column
    const Normalize* normalize;  // null if the column is not normalized
  };
  using Buffer = UploadBuffer;
  using Flight = UploadFlight;
  // A piece of host memory and its place in the buffer.
  struct Piece {
    const void* from;
    size_t bytes;
    size_t to;
    bool pinned;
  };

  UploadRing(std::shared_ptr<const CudaDevice> device, std::shared_ptr<PinnedPool> pool, int depth)
      : device_(std::move(device)), pool_(std::move(pool)), depth_(depth) {}

  absl::StatusOr<std::unique_ptr<Flight>> NewFlight();
  absl::Status LimitCopies();
  absl::Status FreeSurplus();
  absl::StatusOr<Buffer*> TakeBuffer();
  absl::Status Fit(Buffer* buffer, size_t size);
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
  std::deque<Buffer*> free_ ABSL_GUARDED_BY(mutex_);  // the longest free first
  // Of batches that were let go of while a stream that used them was being captured.
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
